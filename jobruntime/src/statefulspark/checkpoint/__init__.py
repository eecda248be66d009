"""Snapshots on storage alone: which files a committed batch needs, its manifest, and copies of both.

```
sparklog, state_files   what Spark's own log and state files say (pure)
closure                 every file that a committed batch needs
catalog                 manifests: write, read, list, number
verify                  is everything there, and the same
epochs, lineages        who may write, and which root it is
savepoint, relocate     self-contained copies
```
Everything works on the ObjectStore port, with no driver alive; nothing here may import pyspark.
"""
