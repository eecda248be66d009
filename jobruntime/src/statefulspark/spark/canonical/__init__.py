"""Canonical savepoints with the engine: state out of RocksDB into Parquet, and back into a new generation.

How a driver restores one, in three steps, where a native savepoint needs one:

1. `shells.is_canonical(plan.source.manifest)` tells. Plan and compare with `shells.shell(query)` in place of each query
   (its operators have no number of key groups, so that any fits).
2. `recovery.carry_out(store, replace(plan, queries=shells), rewrites=..., finish=...)` copies the small files only.
3. In `finish`, before anything else that looks at the new root:
   `queries = filling.fill(spark, filling.Filling(...), queries)`, which writes the state for the wanted number of
   partitions and key groups, and returns the queries with all their files. Operators that are new in the job come after.

Taking one: `export.export(spark, ...)` reads the files of a cut, which somebody keeps from being pruned meanwhile.
"""
