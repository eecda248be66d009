"""The process that Spark forks its Python workers from, with what every worker needs imported already.

Spark's own daemon imports nothing of that, so each worker spends its first second of processor time on pandas, Arrow and
PySpark, and a start has half a dozen workers. Spark leaves these imports to the workers because they may start threads,
which a fork does not copy. The threads here are those of OpenBLAS and of Arrow's allocator, which both are made for forks:
each starts its threads anew in the child. The modules of the job itself are not imported here: nothing is known of them.

Beside it runs the keeper of the processes that have keyed state (`workers`), forked from it, too.

Spark runs this module by its setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

from pyspark import daemon

from statefulspark.sinks import kinds
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
    *(kind.module for kind in kinds.needing_no_client()),
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


def keeps_workers() -> bool:
    """Tell whether tasks go to the process that has their state: if it is so set, and if Spark uses workers again."""
    runs_tasks = sys.argv[1:] in ([], ["pyspark.worker"])
    is_wanted = os.environ.get("STATEFULSPARK_KEEP_WORKERS") == "true" and "SPARK_REUSE_WORKER" in os.environ
    return runs_tasks and is_wanted and sys.platform == "linux"


def keep_workers() -> None:
    """Fork the keeper, and have all workers that Spark asks for hand tasks with state to it."""
    os.setpgid(0, 0)
    requests, asking = handover.channel()
    run_task = daemon.worker
    pool.fork(lambda: _keep(pool.Keeper(requests, lambda tasks: worker.serve(tasks, run_task))), without=[asking])
    requests.close()
    daemon.worker = proxy.Front(asking, run_task)  # type: ignore[assignment]


def _keep(keeping: pool.Keeper) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    keeping.run()


def main() -> None:
    """Import, then serve forks until Spark closes the standard input."""
    preload()
    if keeps_workers():
        keep_workers()
    daemon.manager()


if __name__ == "__main__":
    main()
