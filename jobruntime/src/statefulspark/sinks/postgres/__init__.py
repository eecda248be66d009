"""The PostgreSQL sink: a batch's rows and the sink's position in one transaction.

```
sink  what a user declares   client  the only importer of psycopg   columntypes  columns of a stream against a table's
```
"""

from statefulspark.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
