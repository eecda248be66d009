"""Resources that no pod can have are refused with what to write; everything that Kubernetes takes is taken."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobspecs import a_spec
from pydantic import JsonValue
from statefulspark_operator.api import quantities, resource_rules
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import validate
from statefulspark_operator.lifecycle.situation import Rejection

AMOUNTS: list[tuple[str, Decimal]] = [
    ("2", Decimal(2)),
    ("500m", Decimal("0.5")),
    ("0.5", Decimal("0.5")),
    (".5", Decimal("0.5")),
    ("5.", Decimal(5)),
    ("1e3", Decimal(1000)),
    ("1E", Decimal(10) ** 18),
    ("12E-1", Decimal("1.2")),
    ("4Gi", Decimal(4 << 30)),
    ("4G", Decimal(4 * 10**9)),
    ("128974848", Decimal(128974848)),
    ("+1Ki", Decimal(1024)),
]


@pytest.mark.parametrize(("text", "value"), AMOUNTS, ids=[text for text, _ in AMOUNTS])
def test_an_amount_is_what_kubernetes_says(text: str, value: Decimal) -> None:
    assert quantities.amount(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "4GB", "4 Gi", "-1", "1e", "1K", "1ki", "plenty", "1e3Mi", "٣"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount"):
        quantities.amount(text)


@given(text=st.text("0123456789.+-eEinumkKMGTP", max_size=8))
def test_any_text_is_an_amount_that_is_not_negative_or_none(text: str) -> None:
    try:
        value = quantities.amount(text)
    except ValueError:
        return
    assert value.is_finite()
    assert value >= 0


REFUSED: list[tuple[str, Mapping[str, JsonValue], str]] = [
    (
        "more CPU requested than allowed",
        {"driver": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}}},
        "driver.resources requests 2 of cpu and limits it to 1500m",
    ),
    (
        "more memory requested than allowed",
        {"driver": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}}},
        "driver.resources requests 2Gi of memory and limits it to 2G",
    ),
    (
        "the same of executors",
        {"executor": {"instances": 1, "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}}},
        "executor.resources requests 3 of cpu and limits it to 2; Kubernetes creates no such pod",
    ),
    (
        "of any other resource, too",
        {"driver": {"resources": {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "1"}}}},
        "driver.resources requests 2 of example.com/gpu",
    ),
    (
        "no amount",
        {"driver": {"resources": {"requests": {"cpu": "half"}}}},
        "driver.resources.requests.cpu: 'half' is no amount; write it like 500m",
    ),
    (
        "below zero",
        {"driver": {"resources": {"limits": {"memory": "-1Gi"}}}},
        "driver.resources.limits.memory: '-1Gi' is no amount",
    ),
    (
        "a disk of no size",
        {"executor": {"instances": 1, "localDisk": {"size": "large"}}},
        "executor.localDisk.size: 'large' is no amount; write it like",
    ),
    (
        "a disk of size 0",
        {"executor": {"instances": 1, "localDisk": {"size": 0}}},
        "executor.localDisk.size is 0; name how much",
    ),
    ("the same of the driver", {"driver": {"localDisk": {"size": "0Gi"}}}, "driver.localDisk.size is 0; name how much"),
    (
        "a container with no room for the heap and Python",
        {"driver": {"heap": "2Gi", "resources": {"limits": {"memory": "2Gi"}}}},
        "driver.resources limits memory to 2Gi, but a heap of 2Gi and Python beside it need 2176Mi at least",
    ),
    (
        "a container with no room for the heap that is not named",
        {"driver": {"resources": {"limits": {"memory": "1Gi"}}}},
        "driver.resources limits memory to 1Gi, but a heap of 1Gi and Python beside it need 1152Mi at least",
    ),
]


@pytest.mark.parametrize(("spec", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_resources_that_no_pod_can_have_are_refused(spec: Mapping[str, JsonValue], why: str) -> None:
    assert why in (resource_rules.problem(a_spec(**spec)) or "nothing is wrong")


@pytest.mark.parametrize("part", ["driver", "executor"])
@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param("2 GB", "2 GB is no heap; write a Kubernetes quantity such as 1Gi", id="no quantity"),
        pytest.param("512m", "512m is Spark's notation; Kubernetes writes it as 512Mi", id="half a byte"),
        pytest.param("1g", "1g is Spark's notation; Kubernetes writes it as 1Gi", id="Spark's notation"),
        pytest.param("449Mi", "450Mi at least", id="less than Spark needs"),
    ],
)
def test_a_heap_that_cannot_be_is_refused_and_no_bug(part: str, written: str, why: str) -> None:
    """The API server refuses it; whoever gets it past that server must not stop the operator's pass."""
    required: Resource = {"instances": 1} if part == "executor" else {}
    heap: Resource = {"heap": written, "resources": {"limits": {"memory": "4Gi"}}}
    spec: Resource = {
        "image": "i",
        "job": {"file": "/j.py"},
        "storage": {"uri": "s3://state/jobs"},
        part: {**heap, **required},
    }

    refused = validate.parse({"metadata": {"name": "flights"}, "spec": spec})

    assert isinstance(refused, Rejection)
    assert refused.message.startswith(f"spec.{part}.heap: ")
    assert why in refused.message


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="none at all"),
        pytest.param({"driver": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "1000m"}}}}, id="equal ones"),
        pytest.param({"driver": {"resources": {"requests": {"memory": "9Gi"}}}}, id="no limit"),
        pytest.param({"executor": {"instances": 1, "localDisk": {"size": "20Gi"}}}, id="a disk"),
        pytest.param({"driver": {"heap": "2Gi", "resources": {"limits": {"memory": "2176Mi"}}}}, id="just enough"),
        pytest.param(
            {"executor": {"instances": 1, "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}}},
            id="less reserved",
        ),
    ],
)
def test_what_kubernetes_takes_is_taken(spec: Mapping[str, JsonValue]) -> None:
    assert resource_rules.problem(a_spec(**spec)) is None
