"""Files that this release, and every later one, has to read: written once, never again."""

from __future__ import annotations

import datetime
from pathlib import Path

from statefulspark.operatorstate import record
from statefulspark.operatorstate.model import Mode, NamedState, OperatorState, OperatorStateMeta
from statefulspark.sources import segmentfile

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "operatorstate"
RULES = (("a", (1, datetime.date(2026, 1, 2))),)
STATE = OperatorState(
    2,
    {
        "buffered": NamedState(OperatorStateMeta("buffered", Mode.SPLIT), ((1, "two", 3.5), ())),
        "offsets": NamedState(OperatorStateMeta("offsets", Mode.UNION, "array<bigint>"), ((7,), (8,))),
        "rules": NamedState(OperatorStateMeta("rules", Mode.BROADCAST, "map<string,any>"), (RULES, RULES)),
    },
)


def test_a_record_of_version_1_is_read() -> None:
    assert record.decode((GOLDEN / "record-v1.json").read_bytes(), "golden", uid="buffer") == STATE


def test_a_record_is_still_written_as_version_1() -> None:
    assert record.encode("buffer", STATE) == (GOLDEN / "record-v1.json").read_bytes()


def test_a_segment_of_version_1_is_read() -> None:
    segment = segmentfile.decode((GOLDEN / "segment-v1.arrow").read_bytes(), "golden", uid="counter")

    rows = {subtask: [batch.to_pylist() for batch in segment.rows_of(subtask)] for subtask in (0, 1, 2)}
    assert rows == {0: [[{"n": 1, "text": "a"}, {"n": 2, "text": None}]], 1: [], 2: [[{"n": 3, "text": "c"}]]}
    assert record.decode(segment.state or b"", "golden") == STATE
    assert (segment.header.segment, segment.header.epoch) == (7, 3)
