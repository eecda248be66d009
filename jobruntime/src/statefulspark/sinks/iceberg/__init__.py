"""The Iceberg sink: a batch is one snapshot of the table, which carries the sink's position.

```
sink       what a user declares                                       client  the catalog and its commits
datafiles  files as pyiceberg writes them, and as transactions name   columntypes  columns of a stream against a table's
```
"""

from statefulspark.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
