"""Partitions, key groups and pods: as many cores as rows, memory and restarts need, in pods of a given size. Pure.

A partition is one core and one Python worker. Its share of memory is half for state, as the product has it
(docs/executors.md), and at least what the product gives a worker anyway. More keys never need less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.sizing import coefficients, objects
from statefulspark.sizing.workload import StatefulOperator, Workload
from statefulspark.state import cache, keygroups

MIB = 1 << 20
HEADROOM = 0.7
"""The share of the time from batch to batch that a batch may take: the rest is for what comes unevenly."""
FIXED_SHARE = 0.5
"""The share of that which may be lost to the part of a batch that does not depend on its rows."""
JVM_SHARE, JVM_MIN_MIB, WORKER_MIB = 10, 384, 1024
"""Beside the heap: a tenth and at least 384 MiB for the JVM; 1 GiB for a worker. The operator has the same numbers."""
HEAP_MIN_MIB, HEAP_CORE_MIB = 1024, 512
DRIVER_MIB = 512
"""The driver's own Python process, which plans, with the files of a small job; half of it is for them."""
LEAST_PARTITIONS = 2
MAX_INSTANCES = 1000


@dataclass(frozen=True, slots=True)
class Rate:
    """What batches are like.

    Attributes:
        interval_s: Time from batch to batch; longer than the wanted one where that is less than an empty batch takes.
        rows: Rows in a batch.
        row_core_s: Seconds of a core for a row.
        least_partitions: Partitions so that a batch takes its share of the interval at most.
    """

    interval_s: float
    rows: float
    row_core_s: float
    least_partitions: int

    def batch_s(self, partitions: int) -> float:
        """Return how long a batch takes."""
        return coefficients.BATCH_S.value + self.rows * self.row_core_s / partitions

    def capacity(self, partitions: int) -> float:
        """Return how many times the rows fit into the interval."""
        left_s = HEADROOM * self.interval_s - coefficients.BATCH_S.value
        needed_s = self.rows * self.row_core_s / partitions
        return math.inf if needed_s == 0 else left_s / needed_s


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of a job.

    Attributes:
        partitions: Partitions, as many as cores that run tasks.
        key_groups: Key groups, equally many in each partition.
        instances: Executors; 0 if the driver does the work.
        cores: Cores of an executor, or of a driver that does the work.
        heap_mib: Heap of such a pod.
        worker_mib: Memory of a Python worker.
        pod_mib: Memory of such a pod.
        driver_heap_mib: Heap of the driver.
        driver_mib: Memory of the driver's pod.
    """

    partitions: int
    key_groups: int
    instances: int
    cores: int
    heap_mib: int
    worker_mib: int
    pod_mib: int
    driver_heap_mib: int
    driver_mib: int

    @property
    def total_mib(self) -> int:
        """The memory of all pods."""
        return self.driver_mib + self.instances * self.pod_mib


def state_bytes(workload: Workload) -> float:
    """Return the memory that all state takes in Python."""
    match workload.operator:
        case StatefulOperator.PYTHON:
            return workload.keys * (workload.bytes_per_key + coefficients.OBJECT_BYTES.value)
        case StatefulOperator.VECTORIZED:
            return workload.keys * coefficients.NUMBER_BYTES.value
        case StatefulOperator.SPARK:
            return 0.0


def rate(workload: Workload) -> Rate:
    """Return what batches are like; each row counts as one with a key of its own."""
    if workload.rows_per_core is not None:
        row_core_s = 1 / workload.rows_per_core
    else:
        bytes_per_row = 0 if workload.operator is StatefulOperator.VECTORIZED else workload.bytes_per_key
        row_core_s = coefficients.ROW_CORE_S[workload.operator].value + bytes_per_row * coefficients.BYTE_CORE_S.value
    interval_s = max(workload.batch_interval_s, coefficients.BATCH_S.value / (HEADROOM * FIXED_SHARE))
    rows = workload.rows_per_s * interval_s
    least = math.ceil(rows * row_core_s / (HEADROOM * interval_s - coefficients.BATCH_S.value))
    return Rate(interval_s, rows, row_core_s, max(1, least))


def pods(workload: Workload, least_partitions: int) -> Pods:
    """Return the pods of a job: one, if that is enough.

    Args:
        workload: The job.
        least_partitions: Partitions that rows and restarts need.

    Raises:
        SpecRejectedError: `SizeImpossible`: a pod of the given size has no room for a worker or the driver, or there would
            be too many.
    """
    # A driver that does all the work, with as few cores as possible, if it can.
    for cores in range(max(LEAST_PARTITIONS, least_partitions), workload.pod_cores + 1):
        heap_mib, worker_mib = _heap_mib(cores), _worker_mib(workload, cores)
        total_mib = beside_workers_mib(heap_mib) + driver_python_mib(workload, cores) + cores * worker_mib
        if total_mib <= workload.pod_memory_mib and worker_mib <= most_worker_mib():
            return Pods(
                partitions=cores,
                key_groups=key_groups(cores),
                instances=0,
                cores=cores,
                heap_mib=heap_mib,
                worker_mib=worker_mib,
                pod_mib=total_mib,
                driver_heap_mib=heap_mib,
                driver_mib=total_mib,
            )
    return _executors(workload, least_partitions)


def _executors(workload: Workload, least_partitions: int) -> Pods:
    pod_cores = range(workload.pod_cores, 0, -1)
    most_cores = next((count for count in pod_cores if worker_room_mib(workload, count) >= WORKER_MIB), None)
    if most_cores is None:
        least_mib = beside_workers_mib(HEAP_MIN_MIB) + WORKER_MIB
        raise errors.SpecRejectedError(
            "SizeImpossible",
            f"A pod with {workload.pod_memory_mib} MiB has no room for a heap of {HEAP_MIN_MIB} MiB, the JVM beside it and "
            f"one Python worker of {WORKER_MIB} MiB; give it {least_mib} MiB at least with --pod-memory.",
        )
    room_mib = min(worker_room_mib(workload, most_cores), most_worker_mib())
    for_state = math.ceil(2 * state_bytes(workload) / MIB / room_mib)
    least = max(LEAST_PARTITIONS, least_partitions, for_state)
    instances = math.ceil(least / most_cores)
    cores = math.ceil(least / instances)
    partitions = instances * cores
    if instances > MAX_INSTANCES or partitions > keygroups.MAX_PARALLELISM_LIMIT:
        raise errors.SpecRejectedError(
            "SizeImpossible",
            f"The job needs {partitions} cores in {instances} executors, and a resource has {MAX_INSTANCES} executors and "
            f"{keygroups.MAX_PARALLELISM_LIMIT} partitions at most: split it into several jobs, or allow larger pods with "
            "--pod-cores and --pod-memory.",
        )
    driver_mib = beside_workers_mib(HEAP_MIN_MIB) + driver_python_mib(workload, partitions)
    if driver_mib > workload.pod_memory_mib:
        raise errors.SpecRejectedError(
            "SizeImpossible",
            f"With {partitions} partitions and {workload.retained} retained checkpoints the driver needs {driver_mib} MiB "
            "to know their files: retain fewer with --checkpoint-retention-count, or allow larger pods with --pod-memory.",
        )
    heap_mib, worker_mib = _heap_mib(cores), _worker_mib(workload, partitions)
    return Pods(
        partitions=partitions,
        key_groups=key_groups(partitions),
        instances=instances,
        cores=cores,
        heap_mib=heap_mib,
        worker_mib=worker_mib,
        pod_mib=beside_workers_mib(heap_mib) + cores * worker_mib,
        driver_heap_mib=HEAP_MIN_MIB,
        driver_mib=driver_mib,
    )


def driver_python_mib(workload: Workload, partitions: int) -> int:
    """Return the memory of the driver's Python, which knows the files of all retained checkpoints and all objects."""
    files = objects.files(workload, partitions, rate(workload).interval_s)
    of_files = workload.retained * coefficients.KEPT_FILE_BYTES.value
    of_objects = coefficients.OBJECTS_A_FILE.value * coefficients.KEPT_OBJECT_BYTES.value
    return max(DRIVER_MIB, DRIVER_MIB // 2 + math.ceil(files * (of_files + of_objects) / MIB))


def worker_room_mib(workload: Workload, cores: int) -> int:
    """Return how much of an executor of the given size each of its workers can have."""
    return (workload.pod_memory_mib - beside_workers_mib(_heap_mib(cores))) // cores


def most_worker_mib() -> int:
    """Return the memory of a worker whose half is as much state as it keeps unless it is told otherwise."""
    return 2 * cache.DEFAULT_LIMIT_BYTES // MIB


def _worker_mib(workload: Workload, partitions: int) -> int:
    return max(WORKER_MIB, math.ceil(2 * state_bytes(workload) / MIB / partitions))


def _heap_mib(cores: int) -> int:
    return max(HEAP_MIN_MIB, HEAP_CORE_MIB * cores)


def beside_workers_mib(heap_mib: int) -> int:
    """Return what a pod needs for its JVM: the heap, and what is beside it."""
    return heap_mib + max(JVM_MIN_MIB, heap_mib // JVM_SHARE)


def key_groups(partitions: int) -> int:
    """Return the key groups of which each partition has equally many: at least as many as an operator takes by itself."""
    derived = keygroups.default_max_parallelism(partitions)
    most = keygroups.MAX_PARALLELISM_LIMIT // partitions
    return partitions * min(math.ceil(derived / partitions), most)
