"""Snapshots on storage: the files that a committed batch needs, its manifest, and copies of both.

```
sparklog, state_files   parsers of Spark's own log and state files (pure)
closure                 every file that a committed batch needs
catalog                 manifests: write, read, list, number
verify                  whether all files exist, unchanged
epochs, lineage_records the driver that may write, and the identity of the root
savepoint, relocate     self-contained copies
```
Everything uses the ObjectStore port and needs no running driver; no module here may import pyspark.
"""
