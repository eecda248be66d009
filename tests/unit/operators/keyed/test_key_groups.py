"""How many key groups an operator has: what the job says, what its state has, else what Flink would derive (A.64, A.67)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from statefulspark import errors
from statefulspark.operators.keyed import registry

NOTHING: Mapping[str, int] = MappingProxyType({})


@pytest.mark.parametrize(
    ("declared", "restored", "partitions", "groups"),
    [
        pytest.param(None, NOTHING, 2, 128, id="a first start on a few cores"),
        pytest.param(None, NOTHING, 200, 512, id="a first start with the number of partitions that is Spark's default"),
        pytest.param(None, {"mean": 256}, 2, 256, id="a restart keeps what the state has"),
        pytest.param(None, {"mean": 128}, 200, 128, id="a restart with more partitions keeps it, too"),
        pytest.param(None, {"other": 256}, 100, 256, id="an operator that is new is derived for"),
        pytest.param(64, NOTHING, 200, 64, id="what the job says is taken"),
        pytest.param(64, {"mean": 256}, 2, 64, id="and compared with the state later"),
    ],
)
def test_the_number_is(declared: int | None, restored: Mapping[str, int], partitions: int, groups: int) -> None:
    with registry.collecting(registry.OperatorRegistry(), query_uid="q", key_groups=restored):
        assert registry.key_groups_of("mean", declared, partitions=partitions) == groups


def test_a_new_operator_has_room_for_the_partitions_of_the_state_that_it_joins() -> None:
    with registry.collecting(registry.OperatorRegistry(), query_uid="q", partitions=100):
        assert registry.key_groups_of("mean", None, partitions=2) == 256


def test_outside_of_a_job_it_is_derived() -> None:
    assert registry.key_groups_of("mean", None, partitions=100) == 256


def test_a_number_out_of_range_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"between 1 and 32768\. Found: 0"):
        registry.key_groups_of("mean", 0, partitions=2)
