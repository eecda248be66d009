"""Partitions, key groups and pods: as many cores as rows, memory and restarts need, in pods of a given size. Pure.

A partition is one core and one Python worker. Its share of memory is half for state, as the product has it
(docs/executors.md), and at least what the product gives a worker anyway. More keys never need less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from statefulspark.sizing import coefficients, questions
from statefulspark.sizing.questions import Door, Questions
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
"""The driver's own Python process, which plans."""
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


def state_bytes(asked: Questions) -> float:
    """Return the memory that all state takes in Python."""
    match asked.door:
        case Door.ROWS:
            return asked.keys * (asked.bytes_per_key + coefficients.OBJECT_BYTES.value)
        case Door.NUMBERS:
            return asked.keys * coefficients.NUMBER_BYTES.value
        case Door.JVM:
            return 0.0


def rate(asked: Questions) -> Rate:
    """Return what batches are like; each row counts as one with a key of its own."""
    row_core_s = _row_core_s(asked)
    interval_s = max(asked.batch_interval_s, coefficients.BATCH_S.value / (HEADROOM * FIXED_SHARE))
    rows = asked.rows_per_s * interval_s
    least = math.ceil(rows * row_core_s / (HEADROOM * interval_s - coefficients.BATCH_S.value))
    return Rate(interval_s, rows, row_core_s, max(1, least))


def _row_core_s(asked: Questions) -> float:
    if asked.rows_per_core is not None:
        return 1 / asked.rows_per_core
    bytes_per_row = 0 if asked.door is Door.NUMBERS else asked.bytes_per_key
    return coefficients.ROW_CORE_S[asked.door].value + bytes_per_row * coefficients.BYTE_CORE_S.value


def pods(asked: Questions, least_partitions: int) -> Pods:
    """Return the pods of a job: one, if that is enough.

    Args:
        asked: The questions.
        least_partitions: Partitions that rows and restarts need.

    Raises:
        SpecRejectedError: `SizeImpossible`: a pod of the given size has no room for a worker, or there would be too many.
    """
    return _one_pod(asked, least_partitions) or _executors(asked, least_partitions)


def _one_pod(asked: Questions, least_partitions: int) -> Pods | None:
    """Return a driver that does all the work, with as few cores as possible; None if it cannot."""
    for cores in range(max(LEAST_PARTITIONS, least_partitions), asked.pod_cores + 1):
        heap_mib, worker_mib = _heap_mib(cores), _worker_mib(asked, cores)
        total_mib = beside_workers_mib(heap_mib) + DRIVER_MIB + cores * worker_mib
        if total_mib <= asked.pod_memory_mib and worker_mib <= most_worker_mib():
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
    return None


def _executors(asked: Questions, least_partitions: int) -> Pods:
    most_cores = _cores_of_pod(asked)
    room_mib = min(worker_room_mib(asked, most_cores), most_worker_mib())
    for_state = math.ceil(2 * state_bytes(asked) / MIB / room_mib)
    least = max(LEAST_PARTITIONS, least_partitions, for_state)
    instances = math.ceil(least / most_cores)
    cores = math.ceil(least / instances)
    partitions = instances * cores
    if instances > MAX_INSTANCES or partitions > keygroups.MAX_PARALLELISM_LIMIT:
        raise questions.impossible(
            f"The job needs {partitions} cores in {instances} executors, and a resource has {MAX_INSTANCES} executors and "
            f"{keygroups.MAX_PARALLELISM_LIMIT} partitions at most: split it into several jobs, or allow larger pods with "
            "--pod-cores and --pod-memory."
        )
    heap_mib, worker_mib = _heap_mib(cores), _worker_mib(asked, partitions)
    return Pods(
        partitions=partitions,
        key_groups=key_groups(partitions),
        instances=instances,
        cores=cores,
        heap_mib=heap_mib,
        worker_mib=worker_mib,
        pod_mib=beside_workers_mib(heap_mib) + cores * worker_mib,
        driver_heap_mib=HEAP_MIN_MIB,
        driver_mib=beside_workers_mib(HEAP_MIN_MIB) + DRIVER_MIB,
    )


def _cores_of_pod(asked: Questions) -> int:
    """Return the most cores for which a pod has room."""
    for cores in range(asked.pod_cores, 0, -1):
        if worker_room_mib(asked, cores) >= WORKER_MIB:
            return cores
    least_mib = beside_workers_mib(HEAP_MIN_MIB) + WORKER_MIB
    raise questions.impossible(
        f"A pod with {asked.pod_memory_mib} MiB has no room for a heap of {HEAP_MIN_MIB} MiB, the JVM beside it and one "
        f"Python worker of {WORKER_MIB} MiB; give it {least_mib} MiB at least with --pod-memory."
    )


def worker_room_mib(asked: Questions, cores: int) -> int:
    """Return how much of an executor of the given size each of its workers can have."""
    return (asked.pod_memory_mib - beside_workers_mib(_heap_mib(cores))) // cores


def most_worker_mib() -> int:
    """Return the memory of a worker whose half is as much state as it keeps unless it is told otherwise."""
    return 2 * cache.DEFAULT_LIMIT_BYTES // MIB


def _worker_mib(asked: Questions, partitions: int) -> int:
    return max(WORKER_MIB, math.ceil(2 * state_bytes(asked) / MIB / partitions))


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
