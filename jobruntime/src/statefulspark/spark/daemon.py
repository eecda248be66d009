"""Spark's Python daemon with our imports done: every worker it forks starts with them in memory.

Spark starts one daemon per executor and forks a worker per task slot and Python stage. What a worker of ours needs (pandas,
pyarrow, the state store, the S3 client) takes it seconds to import; imported here it is shared, and a restarted driver
commits its first batch sooner. Set as `spark.python.daemon.module`; nothing here may start a thread, since threads do not
survive a fork.
"""

from __future__ import annotations

import importlib

from pyspark import daemon

PRELOADED = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.stateful_processor_util",
    "statefulspark.sinks.files",
    "statefulspark.spark.keyed",
    "statefulspark.storage.fsspec_store",
)


def main() -> None:
    """Import what workers need, then serve as Spark's own daemon does."""
    for name in PRELOADED:
        importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
