"""The Iceberg sink: a batch is one snapshot of the table, which includes the sink's position.

```
sink       the sink class                                     client       the catalog and its commits
datafiles  data files, and their form in transactions         columntypes  stream columns against table columns
```
"""

from statefulspark.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
