"""How much of a Python worker's memory keyed state may take."""

from __future__ import annotations

import pytest
from statefulspark.state import cache

MIB = 1 << 20


@pytest.mark.parametrize(
    ("known", "share_mib"),
    [
        ({}, 1024),
        ({"PYSPARK_EXECUTOR_MEMORY_MB": "512"}, 256),
        ({"STATEFULSPARK_WORKER_MEMORY_MB": "1024"}, 512),
        ({"STATEFULSPARK_WORKER_MEMORY_MB": "1024", "PYSPARK_EXECUTOR_MEMORY_MB": "512"}, 256),
        ({"STATEFULSPARK_WORKER_MEMORY_MB": "4096"}, 1024),
        ({"STATEFULSPARK_WORKER_MEMORY_MB": "", "PYSPARK_EXECUTOR_MEMORY_MB": "-1"}, 1024),
    ],
    ids=["unknown", "Spark's limit", "the executor's size", "the smaller of both", "more than is wanted", "no numbers"],
)
def test_keyed_state_takes_half_of_a_workers_memory_at_most(known: dict[str, str], share_mib: int) -> None:
    assert cache.memory_bytes(1024 * MIB, known) == share_mib * MIB
