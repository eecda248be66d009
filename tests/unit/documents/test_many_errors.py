"""A document that is wrong in a million places takes no more memory than one that is wrong in one."""

from __future__ import annotations

import tracemalloc

import pytest
from statefulspark import errors
from statefulspark.contract import base
from statefulspark.contract.manifest import Manifest

MANY = 20_000


@pytest.mark.parametrize("element", ["{}", "1", '{"path":1}'])
@pytest.mark.parametrize(
    "document",
    ['{{"queries":[{{"files":[{}]}}]}}', '{{"queries":[{{"operators":[{}]}}]}}', '{{"queries":[{}]}}'],
    ids=["files", "operators", "queries"],
)
def test_a_sequence_fails_at_its_first_wrong_element(document: str, element: str) -> None:
    body = document.format(",".join([element] * MANY))

    tracemalloc.start()
    with pytest.raises(errors.SnapshotCorruptError, match="no readable Manifest"):
        base.read_model(Manifest, Manifest.FORMAT, body, "s3://b/_metadata.json")
    held_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert held_bytes < 40 * len(body)
