"""The measured coefficients, each with its unit, its benchmark and its range. Pure.

Seconds are those of the machine of `bench/history/2026-11.md`, two cores of which the S3 server has its share. Where no
span is given, the coefficient is a rule of the product or of the object store.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from statefulspark.contract import engine
from statefulspark.sizing.answer import Certainty
from statefulspark.sizing.workload import StatefulOperator


@dataclass(frozen=True, slots=True)
class MeasuredUpTo:
    """The largest job that a benchmark had.

    Attributes:
        keys: Keys with state.
        bytes_per_key: Size of a key's state.
        partitions: Partitions, each with a core.
    """

    keys: int
    bytes_per_key: int
    partitions: int = 2


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One measured number.

    Attributes:
        value: The number.
        unit: Its unit.
        source: The benchmark, or whose rule it is.
        span: What was measured; None for a rule and for what nobody has measured.
        certainty: Of a coefficient without a span.
    """

    value: float
    unit: str
    source: str
    span: MeasuredUpTo | None = None
    certainty: Certainty = Certainty.RULE


@dataclass(frozen=True, slots=True)
class Point:
    """The job that a coefficient is used for.

    Attributes:
        keys: Keys with state.
        bytes_per_key: Size of a key's state.
        partitions: Partitions.
    """

    keys: int
    bytes_per_key: int
    partitions: int


def certainty(point: Point, *used: Coefficient) -> Certainty:
    """Return how certain a figure is that follows from coefficients: as certain as the least certain of them."""
    certainties = [Certainty.RULE]
    for each in used:
        span = each.span
        if span is None:
            certainties.append(each.certainty)
            continue
        is_within = point.keys <= span.keys and point.bytes_per_key <= span.bytes_per_key
        is_within = is_within and point.partitions <= span.partitions
        certainties.append(Certainty.MEASURED if is_within else Certainty.EXTRAPOLATED)
    return max(certainties, key=_ORDER.index)


_ORDER = (Certainty.RULE, Certainty.MEASURED, Certainty.EXTRAPOLATED, Certainty.ASSUMED)

_SIZING = MeasuredUpTo(4_000_000, 110)
_KEYED_STATE = MeasuredUpTo(2_000_000, 17)
_KEYED_MEMORY = MeasuredUpTo(10_000_000, 210)

BATCH_S = Coefficient(0.65, "s a batch", "bench.sizing", _SIZING)
"""A batch without a row: planning, the requests that wait for each other, and the key groups."""
ROW_CORE_S = MappingProxyType(
    {
        StatefulOperator.PYTHON: Coefficient(6.7e-6, "s of a core a row", "bench.sizing", MeasuredUpTo(5_000_000, 210)),
        StatefulOperator.VECTORIZED: Coefficient(1.9e-6, "s of a core a row", "bench.keyed_state", _KEYED_STATE),
        StatefulOperator.SPARK: Coefficient(23.6e-6, "s of a core a row", "bench.keyed_state", _KEYED_STATE),
    }
)
"""A row with a key of its own; its bytes come on top of that."""
BYTE_CORE_S = Coefficient(0.026e-6, "s of a core a changed byte", "bench.flink_keyed", MeasuredUpTo(5_000_000, 210))
OBJECT_BYTES = Coefficient(116.0, "B a key", "bench.sizing", _KEYED_MEMORY)
"""Memory of a key beside its bytes, where its state is a Python object; `bench.keyed_memory` has confirmed it."""
NUMBER_BYTES = Coefficient(17.0, "B a key", "bench.keyed_state", _KEYED_STATE)
STORED_PER_BYTE = Coefficient(2.4, "B in a checkpoint a byte of state", "bench.sizing", _SIZING)
KEPT_PER_STORED = Coefficient(1.6, "B in the job's folder a byte of a checkpoint", "bench.sizing", _SIZING)
LOCAL_PER_STORED = Coefficient(1.1, "B on local disks a byte of a checkpoint", "bench.sizing", _SIZING)
START_S = Coefficient(14.4, "s", "bench.sizing", _SIZING)
"""From the start of a process to its first commit, without state."""
READ_CORE_S = Coefficient(1.5e-6, "s of a core a key", "bench.sizing", _KEYED_MEMORY)
"""State is read and opened, not built (ADR 29); `bench.keyed_memory` has confirmed it with ten million keys of 200 bytes."""
RESCALE_KEY_S = Coefficient(3e-6, "s a key", "bench.flink_savepoint", MeasuredUpTo(5_000_000, 210))
SAVEPOINT_BYTE_S = Coefficient(4.9e-9, "s a byte", "bench.state_size", MeasuredUpTo(200_000, 10_000))
STANDBY_S = Coefficient(4.9, "s", "bench.downtime", MeasuredUpTo(1_000, 20))
WARM_UPGRADE_S = Coefficient(4.2, "s", "bench.downtime", MeasuredUpTo(1_000, 20))
PAUSE_S = Coefficient(0.5, "s", "bench.state_size", MeasuredUpTo(200_000, 10_000))
"""The pause of a stop with a savepoint, which does not grow with the state."""

WRITES_A_BATCH = Coefficient(4.0, "writes a batch", "bench.sizing")
"""Its plan, its commit, the record of a source of files, and that of a sink with transactions."""
WRITES_A_PARTITION = Coefficient(2.0, "writes a batch and partition", "bench.s3_requests")
"""The changed rows, and their checksum."""
READS_A_BATCH = Coefficient(13.6, "reads a batch", "bench.sizing", _SIZING)
WRITES_A_CHECKPOINT = Coefficient(15.0, "writes and listings a checkpoint, with its pruning", "bench.sizing", _SIZING)
READS_A_CHECKPOINT = Coefficient(14.0, "reads a checkpoint, with its pruning", "bench.sizing", _SIZING)
WRITES_A_SNAPSHOT = Coefficient(3.3, "writes a partition and snapshot of its state", "bench.sizing", _SIZING)
SNAPSHOT_INTERVAL_S = Coefficient(
    float(engine.SNAPSHOT_INTERVAL_S), "s", "the default of spark.sql.streaming.stateStore.maintenanceInterval"
)
FILE_BYTES = Coefficient(
    64e6, "B of a state file at most", "Spark: RocksDB, target_file_size_base", certainty=Certainty.RULE
)
OBJECTS_A_FILE = Coefficient(
    1.4, "objects on storage a file of a checkpoint", "bench.large_jobs", certainty=Certainty.ASSUMED
)
FILE_CORE_S = Coefficient(
    20e-6, "s of a core a file of a checkpoint", "bench.large_jobs", certainty=Certainty.EXTRAPOLATED
)
"""The search for a checkpoint's files, and its manifest."""
KEPT_FILE_BYTES = Coefficient(1000.0, "B of the driver's memory a file and checkpoint", "bench.large_jobs")
KEPT_OBJECT_BYTES = Coefficient(300.0, "B of the driver's memory an object", "bench.large_jobs")
WRITES_PER_S_LIMIT = Coefficient(3500.0, "writes a second below one prefix", "AWS: S3 request rate performance")
