"""The contract of two-phase sinks that authors of sinks get, against a sink that keeps it and one that does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from statefulspark.sinks import marker, standing
from statefulspark.sinks.base import SinkContext
from statefulspark.testing import TwoPhaseSinkContract

TESTS = [name for name in vars(TwoPhaseSinkContract) if name.startswith("test_")]
OF_WHAT_IS_EXPECTED = [
    "test_a_target_that_has_lost_a_batch_is_refused_when_it_is_opened",
    "test_a_target_that_has_lost_a_batch_while_the_driver_runs_gets_no_later_one",
    "test_a_target_that_has_lost_its_marker_is_not_taken_for_a_new_one",
    "test_a_batch_that_another_target_got_is_not_repeated_in_this_one",
    "test_a_target_with_another_batch_of_the_same_number_is_refused",
]


@dataclass
class _Table:
    ids: list[int] = field(default_factory=list)
    marker: marker.Marker | None = None


@dataclass(frozen=True)
class _Sink:
    table: _Table

    def write_part(self, batches: Iterator[pa.RecordBatch], context: SinkContext) -> bytes | None:
        ids = [number for batch in batches for number in batch.column("id").to_pylist()]
        return json.dumps(ids).encode() if ids else None

    def prepare(self, parts: tuple[bytes, ...], context: SinkContext) -> bytes | None:
        return json.dumps([number for part in parts for number in json.loads(part)]).encode() if parts else None

    def open(self, context: SinkContext) -> None:
        self.table.marker = marker.open_marker(self.table.marker, context, "the table")

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        reached = marker.require_newest(self.table.marker, context, "the table")
        if not reached.covers(context):
            self.table.ids += json.loads(transaction)
            self.table.marker = reached.after(context)

    def abort(self, transaction: bytes, context: SinkContext) -> None:
        """Nothing was written."""


class _ForgetfulSink(_Sink):
    """One that compares nothing with what its driver knows, as one that keeps a number of its own would."""

    def open(self, context: SinkContext) -> None:
        super().open(replace(context, expected=standing.NOTHING_EXPECTED))

    def commit(self, transaction: bytes, context: SinkContext) -> None:
        super().commit(transaction, replace(context, expected=standing.NOTHING_EXPECTED))


class _Contract(TwoPhaseSinkContract):
    def __init__(self, kind: type[_Sink], folder: Path) -> None:
        self._table, self._kind, self._folder = _Table(), kind, folder

    def make_sink(self) -> _Sink:
        return self._kind(self._table)

    def visible_ids(self) -> list[int]:
        return sorted(self._table.ids)


@pytest.mark.parametrize("name", TESTS)
def test_a_sink_with_a_marker_keeps_the_contract(name: str, tmp_path: Path) -> None:
    getattr(_Contract(_Sink, tmp_path), name)()


@pytest.mark.parametrize("name", TESTS)
def test_a_sink_that_ignores_what_its_driver_knows_breaks_what_the_contract_says_of_that(
    name: str, tmp_path: Path
) -> None:
    contract = _Contract(_ForgetfulSink, tmp_path)
    if name not in OF_WHAT_IS_EXPECTED:
        getattr(contract, name)()
        return
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(contract, name)()
