"""The fields of a `StatefulSparkJob` that an answer sets. Pure.

Image, job and storage are not among them, so the result is merged into a resource, and is none itself.
"""

from __future__ import annotations

import math

from pydantic import JsonValue

from statefulspark import durations
from statefulspark.sizing import layout
from statefulspark.sizing.workload import Workload

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_GIB_MIB = 1024


def fields(workload: Workload, pods: layout.Pods, *, standby: bool, local_gib: int) -> dict[str, JsonValue]:
    """Return the fields below `spec`.

    Args:
        workload: The job.
        pods: The pods of the job.
        standby: Whether a second driver waits.
        local_gib: Local disk of each executor.
    """
    # The product's own size needs no mention; a larger one is the limit of the container.
    limit: dict[str, JsonValue] = {"resources": {"limits": {"memory": _quantity(pods.pod_mib)}}}
    executor: dict[str, JsonValue] = {
        "instances": pods.instances,
        "cores": pods.cores,
        "heap": _quantity(pods.heap_mib),
        **(limit if pods.worker_mib > layout.WORKER_MIB else {}),
        "localDisk": {"size": f"{local_gib}Gi"},
    }
    cores: dict[str, JsonValue] = {} if pods.instances else {"cores": pods.cores}
    waiting: dict[str, JsonValue] = {"standby": True} if standby else {}
    return {
        "driver": {
            **cores,
            "heap": _quantity(pods.driver_heap_mib),
            "resources": {
                "requests": {"cpu": str(1 if pods.instances else pods.cores), "memory": _quantity(pods.driver_mib)},
                "limits": {"memory": _quantity(pods.driver_mib)},
            },
            **waiting,
        },
        **({"executor": executor} if pods.instances else {}),
        "checkpoint": {
            "interval": durations.format_exact(workload.checkpoint_interval),
            "retention": {"count": workload.retained},
        },
        "sparkConf": {SHUFFLE_PARTITIONS: str(pods.partitions)},
    }


def _quantity(mib: int) -> str:
    return f"{mib // _GIB_MIB}Gi" if mib % _GIB_MIB == 0 else f"{mib}Mi"


def disk_gib(local_bytes: float) -> int:
    """Return the size of a disk in GiB that holds some bytes."""
    return max(1, math.ceil(local_bytes / (1 << 30)))
