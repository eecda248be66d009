"""The process that Spark forks its Python workers from, with the modules that every worker needs already imported.

Spark's own daemon imports none of them, so each worker uses its first second of processor time to import pandas, Arrow and
PySpark, and a start has about six workers. Spark leaves these imports to the workers because imports may start threads,
which a fork does not copy. The threads here are those of OpenBLAS and of Arrow's allocator; both support forks and start
their threads again in the child. The job's own modules are not imported, because the daemon does not know them.

The worker pool, which owns the processes with keyed state (`pool`), is forked from this process, too.

Spark runs this module because of its setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

from pyspark import daemon

from statefulspark.sinks import kinds
from statefulspark.storage import fsspec_connection
from statefulspark.workers import handover, pool, proxy, worker

MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.stateful_processor_util",
    "pandas",
    "pyarrow",
    "pyarrow.parquet",
    "statefulspark.operators.keyed.processor",
    "statefulspark.operators.keyed.frames",
    "statefulspark.packs.packfile",
    *(kind.module for kind in kinds.needing_no_client()),
    "statefulspark.storage.fsspec_store",
    "s3fs",
)
"""The modules that workers import; the first ones are Spark's, for every Python function."""


def preload() -> None:
    """Read what workers need, and exclude it from garbage collection, so that its pages stay shared with the workers."""
    for module in MODULES:
        importlib.import_module(module)
    fsspec_connection.read_ahead()
    gc.collect()
    gc.freeze()


def is_pool_enabled() -> bool:
    """Tell whether to use the worker pool: it is enabled, and Spark reuses workers."""
    runs_tasks = sys.argv[1:] in ([], ["pyspark.worker"])
    is_enabled = os.environ.get("STATEFULSPARK_KEEP_WORKERS") == "true" and "SPARK_REUSE_WORKER" in os.environ
    return runs_tasks and is_enabled and sys.platform == "linux"


def start_pool() -> None:
    """Fork the worker pool, and make every worker that Spark starts pass tasks with state to it."""
    os.setpgid(0, 0)
    requests, sender = handover.channel()
    run_task = daemon.worker
    pool.fork(
        lambda: _run_pool(pool.WorkerPool(requests, lambda tasks: worker.serve(tasks, run_task))), without=[sender]
    )
    requests.close()
    daemon.worker = proxy.WorkerProxy(sender, run_task)  # type: ignore[assignment]


def _run_pool(worker_pool: pool.WorkerPool) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    worker_pool.run()


def main() -> None:
    """Import the modules, then fork workers on request until Spark closes the standard input."""
    preload()
    if is_pool_enabled():
        start_pool()
    daemon.manager()


if __name__ == "__main__":
    main()
