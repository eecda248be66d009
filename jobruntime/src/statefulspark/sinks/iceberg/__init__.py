"""The Iceberg sink: a batch is one snapshot of the table, which includes the sink's position.

```
sink       the sink class                              client       the catalog, and what is committed to the table
commits    one commit, whatever the catalog answers    imprints     what a commit leaves in the table's metadata
datafiles  data files, and their form in transactions  witnesses    what that tells of the position
                                                       columntypes  stream columns against table columns
```
"""

from statefulspark.sinks.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
