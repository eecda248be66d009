"""Canonical savepoints: state as Parquet, independent of engine, partitions and number of key groups (Flink A.158).

`documents` names the files, `skeleton` separates them from the engine's small files, `values` and `rows` convert state to
columns and back, `reading` returns a state as a table without an engine. Taking and restoring one needs Spark; see
`statefulspark.engine.canonical`. Only the modules that hold values import pyarrow or msgpack, so that the operator can read
names and sizes without them.
"""
