"""Canonical savepoints with the engine: state out of RocksDB into Parquet, and back into a new generation.

How a driver restores one, in three steps, where a native savepoint needs one:

1. The plan of `recovery` has `shells.shell(query)` in place of each query (its operators have no number of key groups, so
   that any fits), and the job is compared with those.
2. `restore.carry_out(store, plan, author, rewrites=..., finish=...)` copies the small files only.
3. `finish` is what `filling.Filler` makes of the rest: before anything else that looks at the new root it writes the state
   for the wanted number of partitions and key groups, and returns the queries with all their files. Operators that are new
   in the job come after.

Taking one: `export.export(spark, ...)` reads the files of a cut, which somebody keeps from being pruned meanwhile.
"""
