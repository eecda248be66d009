"""The files sink: Parquet files in a folder, and commit files that list the visible ones.

```
sink     the sink class, and the layout of the folder
commits  commit files, and the owner of the folder       publishing  what changes commit files
orphans  files that no commit lists
```
"""

from statefulspark.sinks.files.sink import FilesSink

__all__ = ["FilesSink"]
