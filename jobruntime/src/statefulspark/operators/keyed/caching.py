"""Key groups that a Python worker keeps between batches: in memory, and beyond its limit on the executor's disk.

The disk is Spark's local directory of this executor, which Spark creates when the executor starts and removes when it
ends. Files in it have no names, and end with the worker.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from statefulspark.state import cache

WORKER_CACHE = cache.LruCache()
"""Tables of this Python worker. Spark reuses workers between batches; a new one starts with an empty cache."""
_DISKS: dict[Path, cache.DiskViews] = {}
_FOLDER = "statefulspark-keyed"
_LOCAL_DIRECTORIES = "SPARK_LOCAL_DIRS"
_WORKER_MEMORY_MB = ("PYSPARK_EXECUTOR_MEMORY_MB", "STATEFULSPARK_WORKER_MEMORY_MB")
"""Memory of a worker: Spark's limit, and what the operator counted for it in the size of an executor's pod."""


def open_cache(uid: str, *, cache_bytes: int, disk_bytes: int | None) -> cache.OperatorCache:
    """Return the cache of an operator in this worker.

    Args:
        uid: The operator.
        cache_bytes: Memory for tables, estimated; where the worker's memory is known (`spark.executor.pyspark.memory`, or
            the size of the executor's pod), at most half of that.
        disk_bytes: Disk space for the operator's other key groups; None is all free space, 0 uses no disk.
    """
    WORKER_CACHE.limit(memory_bytes(cache_bytes, os.environ))
    return WORKER_CACHE.for_operator(uid, None if disk_bytes == 0 else _disk_of(uid, disk_bytes, os.environ))


def memory_bytes(cache_bytes: int, env: Mapping[str, str]) -> int:
    """Return the memory that tables may take in a worker."""
    known_mb = (int(env.get(name) or -1) for name in _WORKER_MEMORY_MB)
    return min((cache_bytes, *((worker_mb << 20) // 2 for worker_mb in known_mb if worker_mb > 0)))


def _disk_of(uid: str, disk_bytes: int | None, env: Mapping[str, str]) -> cache.DiskViews | None:
    directories = [name for name in env.get(_LOCAL_DIRECTORIES, "").split(",") if name]
    if not directories:
        return None
    folder = Path(directories[zlib.crc32(uid.encode()) % len(directories)]) / _FOLDER / uid
    disk = _DISKS.setdefault(folder, cache.DiskViews(folder))
    disk.limit_bytes = disk_bytes
    return disk
