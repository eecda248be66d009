"""The PostgreSQL sink: a batch's rows and the sink's position in one transaction.

```
sink  the sink class   client  the only importer of psycopg   columntypes  stream columns against table columns
```
"""

from statefulspark.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
