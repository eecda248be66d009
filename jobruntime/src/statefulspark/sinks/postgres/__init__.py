"""The PostgreSQL sink: a batch's rows and the sink's position in one transaction.

```
sink    the sink class               transactions  their settings, and who keeps one waiting
client  what is done to the tables   clienterrors  translation of its errors
columntypes  stream columns against table columns
```
"""

from statefulspark.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
