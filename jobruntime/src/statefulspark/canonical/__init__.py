"""Canonical savepoints: state as Parquet, whatever the engine, the partitions and the number of key groups (Flink A.158).

`documents` names the files, `shells` tells them from the engine's small ones, `values` and `rows` turn state into columns
and back, `reading` gives a state as a table without an engine. Taking and restoring one needs Spark; see
`statefulspark.engine.canonical`. Nothing here imports pyarrow or msgpack but the modules that hold values, so that the
operator can read what is only names and sizes.
"""
