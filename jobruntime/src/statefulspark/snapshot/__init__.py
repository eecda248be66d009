"""Snapshots on storage alone: what a committed batch needs, its manifest, and everything done with it.

```
sparklog   what Spark's own log and state files say (pure)
closure    every file that a committed batch needs
catalog    manifests: write, read, list, number
verify     is everything there, and the same
epochs     who may write; generations: which root is in use
recovery   where a driver starts; restore, savepoint: copies
prune      what may be deleted
```
Everything works on the ObjectStore port, with no driver alive; nothing here may import pyspark.
"""
