"""Canonical savepoints with Spark: export state from RocksDB to Parquet, and import it into a new generation.

A driver restores a canonical savepoint in three steps; a native savepoint needs one:

1. The plan of `recovery` contains a skeleton (`canonical.skeleton`) in place of each query. Its operators have no number of
   key groups, so any number fits. The job is compared with the skeletons.
2. `restore.carry_out(store, plan, author, rewrites=..., finish=...)` copies only the small files.
3. `finish` is made by `load.StateImporter`. It first writes the state for the requested number of partitions and key
   groups, and returns the queries with all their files. Operators that are new in the job are added after that.

A driver writes one with `export.export(spark, ...)`, which reads the files of a cut; the caller protects these from pruning.
"""
