"""Which records of operator state, and which segments, a cut needs."""

from __future__ import annotations

import pytest
from statefulspark.snapshot import operatorlog

KEYS = [
    "operator-state/out/00000000-00000001.json",
    "operator-state/out/00000004-00000001.json",
    "operator-state/out/00000005-00000001.json",
    "operator-state/out/00000005-00000002.json",
    "operator-state/rules/00000003-00000001.json",
    "operator-state/out/notes.txt",
    "offsets/5",
]


@pytest.mark.parametrize(
    ("batch", "needed"),
    [
        pytest.param(-1, [], id="nothing committed"),
        pytest.param(2, [KEYS[0]], id="the newest before the batch, if it did not change since"),
        pytest.param(4, [KEYS[1], KEYS[4]], id="one for every function"),
        pytest.param(5, [KEYS[3], KEYS[4]], id="of two attempts the later epoch's"),
        pytest.param(99, [KEYS[3], KEYS[4]], id="none newer"),
    ],
)
def test_a_cut_needs_the_newest_record_of_every_function(batch: int, needed: list[str]) -> None:
    assert sorted(operatorlog.needed_keys(KEYS, batch)) == needed


def test_names_come_back() -> None:
    name = operatorlog.RecordName("out", 123456789, 7)

    assert operatorlog.of_key(name.key) == name
