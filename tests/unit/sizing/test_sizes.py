"""What holds for the size of any job: more never needs less, and the resource takes what it is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statefulspark import errors, sizing
from statefulspark.sizing import layout
from statefulspark.sizing.workload import StatefulOperator
from statefulspark.state import keygroups
from statefulspark_operator.api import memory
from statefulspark_operator.api.spec import StatefulSparkJobSpec

JOBS = st.builds(
    sizing.Workload,
    keys=st.integers(1, 10**9),
    bytes_per_key=st.integers(1, 1000),
    rows_per_s=st.floats(1, 10**6),
    operator=st.sampled_from(StatefulOperator),
    batch_interval=st.integers(1, 600).map(lambda tenths: timedelta(seconds=tenths / 10)),
    restart_within=st.none() | st.integers(30, 600).map(lambda whole: timedelta(seconds=whole)),
    pod_memory_mib=st.integers(3072, 65_536),
    pod_cores=st.integers(1, 32),
)


def a_sized_job(*, keys: int = 1_000_000, rows_per_s: float = 1_000, **others: object) -> sizing.Workload:
    return sizing.Workload(keys=keys, bytes_per_key=110, rows_per_s=rows_per_s, **others)  # type: ignore[arg-type]


def answered(asked: sizing.Workload) -> sizing.SizeAnswer | None:
    """Return the answer; None if no size fits."""
    try:
        return sizing.answer(asked)
    except errors.SpecRejectedError:
        return None


@given(JOBS, st.integers(1, 10))
def test_more_keys_never_need_less_memory_or_storage(asked: sizing.Workload, times: int) -> None:
    fewer = answered(asked)
    more = answered(sizing.Workload(asked.keys * times, *_rest(asked)))

    if fewer is not None and more is not None:
        for name in ("totalMib", "partitions", "checkpointBytes", "storedBytes", "requestsCost"):
            assert more.figure(name).value >= fewer.figure(name).value


def _rest(asked: sizing.Workload) -> tuple[object, ...]:
    return tuple(getattr(asked, name) for name in asked.__dataclass_fields__ if name != "keys")


@given(JOBS)
def test_key_groups_divide_evenly_among_partitions(asked: sizing.Workload) -> None:
    found = answered(asked)

    if found is not None:
        partitions, groups = found.figure("partitions").value, found.figure("keyGroups").value
        assert groups % partitions == 0
        assert partitions <= groups <= keygroups.MAX_PARALLELISM_LIMIT


def _fields(part: object, path: str = "") -> set[str]:
    """Return the path of each field below a part of a resource; settings of Spark have names of their own."""
    if not isinstance(part, dict) or path.endswith("sparkConf"):
        return {path}
    return {path}.union(*(_fields(value, f"{path}.{name}") for name, value in part.items()))


@given(JOBS)
def test_the_resource_takes_what_it_is_given(asked: sizing.Workload) -> None:
    found = answered(asked)

    if found is not None:
        others = {"image": "job:1", "job": {"file": "job.py"}, "storage": {"uri": "s3://bucket/state"}}
        spec = StatefulSparkJobSpec.model_validate({**others, **found.spec})
        known = spec.model_dump(by_alias=True, exclude_unset=True)
        assert _fields(found.spec) <= _fields(known)
        executor = spec.executor
        assert executor is None or memory.problem(executor) is None
        cores = executor.instances * executor.cores if executor is not None else spec.driver.cores
        assert spec.spark_conf == {"spark.sql.shuffle.partitions": str(cores)}


@given(JOBS)
def test_the_first_limit_is_the_nearest_and_none_is_passed_already(asked: sizing.Workload) -> None:
    found = answered(asked)

    if found is not None:
        factors = [limit.factor for limit in found.limits]
        assert factors == sorted(factors)
        assert all(limit.factor >= 0.98 for limit in found.limits)


def test_pods_are_as_large_as_the_operator_makes_them() -> None:
    assert (layout.JVM_SHARE, layout.JVM_MIN_MIB, layout.WORKER_MIB) == (
        memory.JVM_SHARE,
        memory.JVM_MIN_MIB,
        memory.PYTHON_MIB,
    )


@pytest.mark.parametrize(
    ("asked", "executors", "partitions"),
    [
        pytest.param(a_sized_job(), 0, 2, id="a million keys fit into one pod"),
        pytest.param(a_sized_job(keys=100_000_000), 8, 32, id="a hundred million keys need memory"),
        pytest.param(a_sized_job(rows_per_s=1_000_000), 7, 28, id="a million rows a second need cores"),
        pytest.param(
            a_sized_job(keys=100_000_000, operator=StatefulOperator.SPARK),
            0,
            2,
            id="state of Spark needs no Python",
        ),
    ],
)
def test_partitions_and_executors(asked: sizing.Workload, executors: int, partitions: int) -> None:
    found = sizing.answer(asked)

    assert (found.figure("executors").value, found.figure("partitions").value) == (executors, partitions)


def test_a_restart_faster_than_a_start_asks_for_a_standby() -> None:
    found = sizing.answer(a_sized_job(restart_within=timedelta(seconds=12)))

    assert found.spec["driver"]["standby"] is True  # type: ignore[index,call-overload]
    assert found.figure("standbyS").value <= 12


def test_a_restart_that_nothing_reaches_is_told() -> None:
    found = sizing.answer(a_sized_job(restart_within=timedelta(seconds=2)))

    assert "A restart within 2.0s is out of reach: a standby needs 4.9s without any state." in found.notes


def test_what_is_larger_than_what_was_measured_is_called_extrapolated() -> None:
    small, large = sizing.answer(a_sized_job()), sizing.answer(a_sized_job(keys=20_000_000))

    assert small.figure("stateInMemoryBytes").certainty is sizing.Certainty.MEASURED
    assert large.figure("stateInMemoryBytes").certainty is sizing.Certainty.EXTRAPOLATED


def test_a_pod_without_room_for_a_worker_is_refused_with_what_it_needs() -> None:
    with pytest.raises(errors.SpecRejectedError, match="2432 MiB at least with --pod-memory"):
        sizing.answer(a_sized_job(pod_memory_mib=1024))


VAST: dict[str, Any] = {"keys": 2_000_000_000, "rows_per_s": 100_000, "pod_cores": 8, "pod_memory_mib": 16_384}


@pytest.mark.parametrize(
    ("others", "refusal"),
    [
        pytest.param({"retained": 500}, "500 retained checkpoints the driver needs", id="files of old checkpoints"),
        pytest.param(
            {"checkpoint_interval": timedelta(milliseconds=200)},
            r"the limit checkpoints holds only 0\.\d+ times the job",
            id="five checkpoints a second of a thousand partitions",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_change(others: dict[str, object], refusal: str) -> None:
    assert sizing.answer(a_sized_job(**VAST)).figure("partitions").value > 500

    with pytest.raises(errors.SpecRejectedError, match=refusal):
        sizing.answer(a_sized_job(**VAST | others))


def test_a_driver_gets_memory_for_the_files_of_its_checkpoints() -> None:
    small, vast = sizing.answer(a_sized_job(keys=100_000_000)), sizing.answer(a_sized_job(**VAST | {"retained": 100}))

    assert small.figure("driverMib").value == 1920
    assert vast.figure("driverMib").value > 4096


def test_what_a_driver_keeps_of_its_checkpoints_is_no_room_for_state() -> None:
    few, many = (sizing.answer(a_sized_job(retained=retained, pod_memory_mib=8192)) for retained in (3, 60_000))

    kept = int(many.figure("driverMib").value - few.figure("driverMib").value)
    room = [next(limit.factor for limit in one.limits if limit.name == "memory") for one in (few, many)]
    assert many.figure("executors").value == 0
    assert f"{512 + kept} MiB driver" in many.figure("driverMib").why
    assert kept > 2048
    assert room[1] < 0.8 * room[0]
