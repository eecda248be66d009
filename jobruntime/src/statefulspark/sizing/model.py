"""From a workload to an answer: each figure with its reason. Pure.

`answer` asks the other modules in the order in which their results depend on each other: what batches are like, what a
wanted restart time asks for, pods, objects, times, limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from statefulspark import durations
from statefulspark.contract import sizes
from statefulspark.sizing import coefficients, layout, limits, objects, spec, times
from statefulspark.sizing.answer import Certainty, Figure, SizeAnswer
from statefulspark.sizing.coefficients import Coefficient, Point
from statefulspark.sizing.workload import StatefulOperator, Workload
from statefulspark.state import keygroups

SHUFFLE_SHARE = 3
"""Local disk for state that is beyond memory and for what Spark exchanges, as a multiple of what was measured."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the figures are about."""

    workload: Workload
    goal: times.Goal
    rate: layout.Rate
    pods: layout.Pods

    def certainty(self, *used: Coefficient) -> Certainty:
        """Return how certain a figure is that follows from coefficients."""
        point = Point(self.workload.keys, self.workload.bytes_per_key, self.pods.partitions)
        return coefficients.certainty(point, *used)


def answer(workload: Workload) -> SizeAnswer:
    """Return the size of a job.

    Raises:
        SpecRejectedError: `SizeImpossible`: the pods of the given size have no room, there would be too many, or the
            requests or checkpoints of the job do not fit into their time.
    """
    goal, rate = times.goal(workload), layout.rate(workload)
    pods = layout.pods(workload, max(rate.least_partitions, goal.least_partitions))
    plan = _Plan(workload, goal, rate, pods)
    disk_gib = spec.disk_gib(SHUFFLE_SHARE * objects.local_bytes(workload) / max(1, pods.instances))
    return SizeAnswer(
        figures=(*_batches(plan), *_partitions(plan), *_pods(plan, disk_gib), *_objects(plan), *_times(plan)),
        limits=limits.limits(workload, rate, pods),
        notes=_notes(plan),
        spec=spec.fields(workload, pods, standby=goal.needs_standby, local_gib=disk_gib),
    )


def _batches(plan: _Plan) -> tuple[Figure, ...]:
    rate, row = plan.rate, _row(plan.workload)
    is_longer = rate.interval_s > plan.workload.batch_interval_s
    longer = f"; {_seconds(plan.workload.batch_interval_s)} is too short: planning and storage alone take that long"
    took_s = rate.batch_s(plan.pods.partitions)
    return (
        Figure(
            name="batchIntervalS",
            value=round(rate.interval_s, 2),
            shown=_seconds(rate.interval_s),
            why=f"a batch without rows takes {_seconds(coefficients.BATCH_S.value)}{longer if is_longer else ''}",
            certainty=plan.certainty(coefficients.BATCH_S),
        ),
        Figure(
            name="rowsPerBatch",
            value=round(rate.rows),
            shown=f"{rate.rows:,.0f}",
            why="rows of a second, times that",
            certainty=Certainty.RULE,
        ),
        Figure(
            name="batchS",
            value=round(took_s, 2),
            shown=_seconds(took_s),
            why=f"{1 / rate.row_core_s:,.0f} rows a second and core, {layout.HEADROOM:.0%} of the interval at most",
            certainty=plan.certainty(coefficients.BATCH_S, *row),
        ),
    )


def _row(workload: Workload) -> tuple[Coefficient, ...]:
    return (
        ()
        if workload.rows_per_core is not None
        else (coefficients.ROW_CORE_S[workload.operator], coefficients.BYTE_CORE_S)
    )


def _partitions(plan: _Plan) -> tuple[Figure, ...]:
    pods, in_memory = plan.pods, layout.state_bytes(plan.workload)
    derived = keygroups.default_max_parallelism(pods.partitions)
    groups = (
        "what an operator takes by itself; fixed when it first runs"
        if pods.key_groups == derived
        else f"so that partitions are even: write max_parallelism={pods.key_groups} before the first start (else {derived})"
    )
    return (
        Figure(
            name="stateInMemoryBytes",
            value=round(in_memory),
            shown=sizes.format_short(in_memory),
            why=_memory_reason(plan.workload),
            certainty=plan.certainty(*_memory(plan.workload)),
        ),
        Figure(
            name="partitions",
            value=pods.partitions,
            shown=str(pods.partitions),
            why=f"one for each core; {_decided_by(plan)}",
            certainty=plan.certainty(coefficients.BATCH_S, *_row(plan.workload), *_memory(plan.workload)),
        ),
        Figure(
            name="keyGroups",
            value=pods.key_groups,
            shown=str(pods.key_groups),
            why=groups,
            certainty=Certainty.RULE,
        ),
    )


def _memory(workload: Workload) -> tuple[Coefficient, ...]:
    coefficients_of = {
        StatefulOperator.PYTHON: (coefficients.OBJECT_BYTES,),
        StatefulOperator.VECTORIZED: (coefficients.NUMBER_BYTES,),
        StatefulOperator.SPARK: (),
    }
    return coefficients_of[workload.operator]


def _memory_reason(workload: Workload) -> str:
    match workload.operator:
        case StatefulOperator.PYTHON:
            return f"{workload.bytes_per_key} B a key, and {coefficients.OBJECT_BYTES.value:.0f} B for it as a Python object"
        case StatefulOperator.VECTORIZED:
            return f"{coefficients.NUMBER_BYTES.value:.0f} B a key in sorted arrays, whatever was given for a key"
        case StatefulOperator.SPARK:
            return "none in Python: Spark's state store has it on its disk"


def _decided_by(plan: _Plan) -> str:
    """Return what decided the number of partitions."""
    partitions_by_need = {
        "rows decide": plan.rate.least_partitions,
        "the restart time decides": plan.goal.least_partitions,
    }
    name, most = max(partitions_by_need.items(), key=lambda pair: pair[1])
    if plan.pods.partitions <= layout.LEAST_PARTITIONS:
        return "that is the least"
    cores = max(1, plan.pods.cores)
    return name if plan.pods.partitions - most < cores and most > 1 else "memory decides"


def _pods(plan: _Plan, disk_gib: int) -> tuple[Figure, ...]:
    pods, certain = plan.pods, plan.certainty(*_memory(plan.workload))
    worker = f"{pods.worker_mib} MiB for each core, half of it for state"
    if pods.instances == 0:
        driver_mib = layout.driver_python_mib(plan.workload, pods.partitions)
        beside = pods.pod_mib - pods.cores * pods.worker_mib - driver_mib
        why = f"one pod is enough: {beside} MiB JVM, {driver_mib} MiB driver, {worker}"
        return (
            _count("executors", 0, "the driver does the work; one pod is enough", certain),
            _count("cores", pods.cores, "cores of that pod", certain),
            _mib("driverMib", pods.driver_mib, why, certain),
            _mib("totalMib", pods.total_mib, "all pods; a standby and a warm upgrade need it once more", certain),
        )
    beside = pods.pod_mib - pods.cores * pods.worker_mib
    return (
        _count("executors", pods.instances, "one pod is not enough", certain),
        _count("cores", pods.cores, "cores of each executor", certain),
        _mib("executorMib", pods.pod_mib, f"{beside} MiB JVM, {worker}", certain),
        _mib(
            "driverMib", pods.driver_mib, "it plans, and knows the files of all retained checkpoints", Certainty.ASSUMED
        ),
        _mib("totalMib", pods.total_mib, "all pods; a standby and a warm upgrade need it once more", certain),
        Figure(
            name="localDiskGib",
            value=disk_gib,
            shown=f"{disk_gib} GiB",
            why=f"of each executor: {SHUFFLE_SHARE} times what was measured, for shuffles and state beyond memory",
            certainty=Certainty.ASSUMED,
        ),
    )


def _count(name: str, value: int, why: str, certainty: Certainty) -> Figure:
    return Figure(name=name, value=value, shown=str(value), why=why, certainty=certainty)


def _mib(name: str, value: int, why: str, certainty: Certainty) -> Figure:
    return Figure(name=name, value=value, shown=sizes.format_short(value * layout.MIB), why=why, certainty=certainty)


def _objects(plan: _Plan) -> tuple[Figure, ...]:
    workload, rate = plan.workload, plan.rate
    kept = objects.kept_bytes(workload, rate.rows, rate.interval_s)
    made = objects.requests(workload, plan.pods.partitions, rate.interval_s)
    stored = plan.certainty(coefficients.STORED_PER_BYTE, coefficients.KEPT_PER_STORED)
    counted = plan.certainty(
        coefficients.WRITES_A_CHECKPOINT, coefficients.WRITES_A_SNAPSHOT, coefficients.READS_A_BATCH
    )
    requests_cost, storage_cost = objects.requests_cost(workload, made), objects.storage_cost(workload, kept)
    prices = workload.prices
    request_prices = (
        f"${prices.write_per_thousand:g} for 1,000 writes or listings, ${prices.read_per_thousand:g} for 1,000 reads"
    )
    a_batch = (
        f"{coefficients.WRITES_A_BATCH.value:.0f} and {coefficients.WRITES_A_PARTITION.value:.0f} for each partition"
    )
    return (
        _bytes("checkpointBytes", objects.checkpoint_bytes(workload), "all state", stored),
        _bytes(
            "storedBytes", kept, f"{workload.retained} checkpoints, which share files; each savepoint is a copy more", stored
        ),
        _hourly("batchWrites", made.batch_writes, f"{a_batch} in a batch", Certainty.RULE),
        _hourly("snapshotWrites", made.snapshot_writes, "Spark stores each partition's state whole once a minute", counted),
        _hourly("checkpointWrites", made.checkpoint_writes, "manifests, and listings, of pruning too", counted),
        _hourly("reads", made.reads, "is there a newer driver, is it there already, what may go", counted),
        _dollars("requestsCost", requests_cost, request_prices, counted),
        _dollars("storageCost", storage_cost, f"${prices.storage_gb_month:g} a GB and month", stored),
    )  # fmt: skip


def _bytes(name: str, value: float, why: str, certainty: Certainty) -> Figure:
    return Figure(name=name, value=round(value), shown=sizes.format_short(value), why=why, certainty=certainty)


def _hourly(name: str, value: float, why: str, certainty: Certainty) -> Figure:
    return Figure(name=name, value=round(value), shown=f"{value:,.0f} an hour", why=why, certainty=certainty)


def _dollars(name: str, value: float, why: str, certainty: Certainty) -> Figure:
    return Figure(name=name, value=round(value, 2), shown=f"${value:,.2f} a month", why=why, certainty=certainty)


def _times(plan: _Plan) -> tuple[Figure, ...]:
    workload, partitions = plan.workload, plan.pods.partitions
    reading = f"and {_seconds(times.read_s(workload, partitions))} to read the state"
    read, start = coefficients.READ_CORE_S, coefficients.START_S
    standby, upgrade = coefficients.STANDBY_S, coefficients.WARM_UPGRADE_S
    copied_s = objects.checkpoint_bytes(workload) * coefficients.SAVEPOINT_BYTE_S.value
    rescale = coefficients.RESCALE_KEY_S
    saved_s = coefficients.PAUSE_S.value + copied_s
    started, ready = (
        f"{_seconds(start.value)} to start {reading}",
        f"{_seconds(standby.value)} with a standby {reading}",
    )
    return (
        _time("restartS", times.restart_s(workload, partitions), started, plan, start, read),
        _time("standbyS", times.standby_s(workload, partitions), ready, plan, standby, read),
        _time(
            "warmUpgradeS", times.warm_upgrade_s(workload, partitions), f"next driver is ready {reading}", plan, upgrade
        ),
        _time(
            "coldUpgradeS",
            times.cold_upgrade_s(workload, partitions),
            "the pause of a stop, and a restart",
            plan,
            start,
        ),
        _time(
            "rescaleS", times.rescale_s(workload, partitions), "a restart that writes state anew", plan, start, rescale
        ),
        _time("savepointS", saved_s, "the store copies; the job goes on", plan, coefficients.SAVEPOINT_BYTE_S),
    )


def _time(name: str, value_s: float, why: str, plan: _Plan, *used: Coefficient) -> Figure:
    certainty = plan.certainty(*used) if plan.workload.operator is StatefulOperator.PYTHON else Certainty.ASSUMED
    return Figure(name=name, value=round(value_s, 1), shown=_seconds(value_s), why=why, certainty=certainty)


def _notes(plan: _Plan) -> tuple[str, ...]:
    notes = [
        "One query with one stateful operator; add up several. What the sink writes and stores is not counted.",
    ]
    if plan.workload.restart_within is not None and not plan.goal.is_reachable:
        within = durations.format_short(plan.workload.restart_within)
        least = _seconds(times.fixed_s(needs_standby=True))
        notes.append(f"A restart within {within} is out of reach: a standby needs {least} without any state.")
    if plan.goal.needs_standby:
        notes.append(
            "driver.standby is on, because a start takes longer than a restart may; it needs a second driver's room."
        )
    return tuple(notes)


def _seconds(value_s: float) -> str:
    return durations.format_short(timedelta(seconds=value_s)) if value_s < 10**9 else f"{value_s:,.0f}s"
