"""The files sink: Parquet below a folder, and commit files that say what of it is there.

```
sink     what a user declares, and the layout of the folder
commits  commit files, and whose folder it is            orphans  files that no commit names
```
"""

from statefulspark.sinks.files.sink import FilesSink

__all__ = ["FilesSink"]
