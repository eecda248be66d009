"""What an Iceberg table tells of a sink's marker: a table of properties and snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sinkcontexts import a_marker, at
from statefulspark import errors
from statefulspark.sinks.iceberg.witnesses import Finding, Reached, Snapshot, TableMarker, reached
from statefulspark.sinks.marker import Marker


def marker(batch: int | None, epoch: int = 1) -> Marker:
    committed = () if batch is None else (at(1, batch),)
    return a_marker(*committed, epoch=epoch)


def stored(number: int, *, epoch: int = 1) -> TableMarker:
    """Return the property that the snapshot of this number has set."""
    return TableMarker(marker=marker(number, epoch), snapshot_id=number, sequence_number=number, timestamp_ms=0)


def own(number: int, parent: int | None) -> Snapshot:
    return Snapshot(number, parent, (number, 0), marker(number).to_json())


def other(number: int, parent: int | None) -> Snapshot:
    return Snapshot(number, parent, (number, 0))


def held(batch: int, finding: Finding, *, epoch: int = 1) -> Reached:
    return Reached(finding, marker(batch, epoch))


NOTHING_HELD = Reached(Finding.TABLE_SET_BACK, a_marker(epoch=2))
UNKNOWN = Reached(Finding.TABLE_SET_BACK, is_unknown=True)
EQUAL, LOST, OLDER, SET_BACK = Finding.EQUAL, Finding.PROPERTY_LOST, Finding.PROPERTY_OLDER, Finding.TABLE_SET_BACK


@pytest.mark.parametrize(
    ("said", "line", "others", "expected"),
    [
        pytest.param(None, [], [], Reached(EQUAL), id="a new table"),
        pytest.param(None, [other(2, 1), other(1, None)], [], Reached(EQUAL), id="a table of others"),
        pytest.param(stored(2), [own(2, 1)], [], held(2, EQUAL), id="the last commit is the current one"),
        pytest.param(stored(2), [other(3, 2), own(2, 1)], [], held(2, EQUAL), id="others committed since"),
        pytest.param(stored(2), [other(3, 2)], [], held(2, EQUAL), id="and it has expired"),
        pytest.param(stored(2), [other(4, 3)], [], held(2, EQUAL), id="and more have expired"),
        pytest.param(stored(2), [other(4, 3)], [own(1, None)], held(2, EQUAL), id="and a tag holds an earlier one"),
        pytest.param(None, [other(3, 2), own(2, 1)], [], held(2, LOST), id="the property was dropped"),
        pytest.param(None, [other(3, 2)], [own(2, 1)], UNKNOWN, id="dropped and rolled back"),
        pytest.param(stored(1), [own(2, 1), own(1, None)], [], held(2, OLDER), id="the property was set back"),
        pytest.param(stored(1), [own(2, 1)], [], held(2, OLDER), id="set back to a snapshot that has expired"),
        pytest.param(stored(1), [own(3, 2)], [], held(3, OLDER), id="set back further"),
        pytest.param(stored(2, epoch=2), [own(1, None)], [own(2, 1)], held(1, SET_BACK, epoch=2), id="rolled back"),
        pytest.param(
            stored(2, epoch=2), [own(1, None)], [], held(1, SET_BACK, epoch=2), id="rolled back, the left one expired"
        ),
        pytest.param(
            stored(2, epoch=2),
            [other(3, 1), own(1, 0)],
            [],
            held(1, SET_BACK, epoch=2),
            id="and others went on from there",
        ),
        pytest.param(stored(3, epoch=2), [other(2, 1)], [own(3, 2)], UNKNOWN, id="rolled back to one of others"),
        pytest.param(stored(3, epoch=2), [other(2, 1)], [], UNKNOWN, id="which is older than the last commit"),
        pytest.param(
            stored(3, epoch=2), [other(1, None)], [own(3, 2)], NOTHING_HELD, id="rolled back to before the sink"
        ),
        pytest.param(stored(3, epoch=2), [], [], NOTHING_HELD, id="a table that was emptied of its snapshots"),
        pytest.param(stored(3, epoch=2), [other(4, None)], [own(3, 2)], UNKNOWN, id="a table that was replaced"),
        pytest.param(
            stored(3), [other(4, None)], [], held(3, EQUAL), id="pyiceberg's expiry takes the parent's name away"
        ),
    ],
)
def test_the_newest_snapshot_of_the_sink_in_the_tables_history_counts_and_else_the_property(
    said: TableMarker | None, line: Sequence[Snapshot], others: Sequence[Snapshot], expected: Reached
) -> None:
    assert reached(said, line, others) == expected


def test_snapshots_without_sequence_numbers_are_ordered_by_time() -> None:
    said = stored(2).model_copy(update={"sequence_number": 0, "timestamp_ms": 200})
    after, before = Snapshot(9, 8, (0, 300)), Snapshot(9, 8, (0, 100))
    assert [reached(said, [one], []) for one in (after, before)] == [held(2, EQUAL), UNKNOWN]


def test_the_property_of_a_table_is_written_as_it_was_and_one_of_a_later_release_is_refused() -> None:
    text = stored(2).to_json()
    assert text.startswith('{"marker":{"formatVersion":1,')
    assert text.endswith('"snapshotId":2,"sequenceNumber":2,"timestampMs":0}')
    assert TableMarker.parse(text, "the property") == stored(2)
    with pytest.raises(errors.FormatVersionError, match="the property"):
        TableMarker.parse(text.replace('"formatVersion":1', '"formatVersion":2'), "the property")
