"""The process that Spark forks its Python workers from, with what every worker needs imported already.

Spark's own daemon imports nothing of that, so each worker spends its first second of processor time on pandas, Arrow and
PySpark, and a start has half a dozen workers. Spark leaves these imports to the workers because they may start threads,
which a fork does not copy. The threads here are those of OpenBLAS and of Arrow's allocator, which both are made for forks:
each starts its threads anew in the child. The modules of the job itself are not imported here: nothing is known of them.

Spark runs this module by its setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import importlib

from pyspark import daemon

MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.stateful_processor_util",
    "pandas",
    "pyarrow",
    "pyarrow.parquet",
    "statefulspark.spark.keyed.processor",
    "statefulspark.spark.keyed.frames",
    "statefulspark.sinks.files",
    "statefulspark.storage.fsspec_store",
    "s3fs",
)
"""What workers import; the first ones are Spark's, for any Python function."""


def preload() -> None:
    """Import what workers need, and keep the garbage collector from touching it: pages stay shared with the workers."""
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Import, then serve forks until Spark closes the standard input."""
    preload()
    daemon.manager()


if __name__ == "__main__":
    main()
