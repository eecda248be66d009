"""Batches that advance the watermark to the end of time: the driver plans them in a query's offset log, Spark runs them.

Spark takes the watermark of a batch from its entry in the offset log, and runs a batch that is planned and not committed
with the watermark of its entry. So an entry without new data and with the highest watermark makes Spark fire every timer
and close every window exactly once, even if a process dies in between: a planned batch is run, and a committed batch never
runs again. A second entry sets the watermark back to the value that the data had reached, which the first entry stores;
without it, all later data would be late.

Called only while the query does not run, by the driver that owns the job.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from statefulspark import errors
from statefulspark.checkpoint import sparklog
from statefulspark.contract.watermark import END_OF_TIME_MS
from statefulspark.storage.port import ObjectStore

_BEFORE: Final = "statefulspark.watermarkBeforeTheEnd"
"""A key in the entry's settings; Spark ignores keys that it does not know."""
_DOCUMENT: Final = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class End:
    """The newest batch of a query, if it advances the watermark to the end of time.

    Attributes:
        batch_id: Its number.
        is_committed: Whether it has run.
        before_ms: The watermark that the data had reached.
    """

    batch_id: int
    is_committed: bool
    before_ms: int


def newest(store: ObjectStore, root: str, log: str) -> int:
    """Return the newest batch in a log of a query, -1 for none. Cost: a LIST."""
    return max((int(name) for name in store.list_names(f"{root}/{log}") if name.isdigit()), default=-1)


def find_end(store: ObjectStore, root: str) -> End | None:
    """Return the newest planned batch of a query if it ends event time. Cost: a LIST and a GET; one more LIST if it does.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    planned = newest(store, root, "offsets")
    if planned < 0:
        return None
    metadata = _Entry.read(store, f"{root}/offsets/{planned}").metadata
    before = _settings(metadata).get(_BEFORE)
    if before is None:
        return None
    return End(planned, newest(store, root, "commits") >= planned, int(str(before)))


def plan_end(store: ObjectStore, root: str, *, now_ms: int) -> int | None:
    """Plan a batch without data that ends event time. Cost: two LISTs, two GETs and a PUT.

    Returns:
        The number of the batch; None if the query has not committed anything, so that no timer can be due.

    Raises:
        PreconditionFailedError: `BatchPlanned`: the newest batch is not committed, or another driver has planned a batch.
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    planned, committed = newest(store, root, "offsets"), newest(store, root, "commits")
    if committed < 0:
        return None
    if planned > committed:
        raise _planned(store, f"{root}/offsets/{planned}")
    entry = _Entry.read(store, f"{root}/offsets/{planned}")
    next_ms = _Entry.read(store, f"{root}/commits/{committed}").number("nextBatchWatermarkMs")
    before_ms = max(entry.number("batchWatermarkMs"), next_ms)
    settings = {**_settings(entry.metadata), _BEFORE: str(before_ms)}
    _plan(store, f"{root}/offsets/{planned + 1}", entry, END_OF_TIME_MS, settings, now_ms)
    return planned + 1


def plan_return(store: ObjectStore, root: str, *, now_ms: int) -> int | None:
    """Plan a batch without data that sets the watermark back to the value that the data had reached. Idempotent.

    Cost: two LISTs, a GET and a PUT; two LISTs and a GET when there is nothing to do.

    Returns:
        The number of the batch; None if the newest batch does not end event time, or has not run yet.

    Raises:
        PreconditionFailedError: `BatchPlanned`: another driver has planned a batch.
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    end = find_end(store, root)
    if end is None or not end.is_committed:
        return None
    entry = _Entry.read(store, f"{root}/offsets/{end.batch_id}")
    settings = {key: value for key, value in _settings(entry.metadata).items() if key != _BEFORE}
    _plan(store, f"{root}/offsets/{end.batch_id + 1}", entry, end.before_ms, settings, now_ms)
    return end.batch_id + 1


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of Spark's offset or commit log."""

    source: str
    version: str
    metadata: dict[str, JsonValue]
    lines: tuple[str, ...]

    @classmethod
    def read(cls, store: ObjectStore, key: str) -> _Entry:
        source = f"{store.uri}/{key}"
        version, _, rest = store.read(key).decode().partition("\n")
        text, *lines = rest.split("\n")
        try:
            return cls(source, version, _DOCUMENT.validate_json(text), tuple(lines))
        except ValidationError as error:
            raise sparklog.unreadable(source, error.errors()[0]["msg"]) from error

    def number(self, name: str) -> int:
        value = self.metadata.get(name, 0)
        if not isinstance(value, int):
            raise sparklog.unreadable(self.source, f"its {name} is {value!r}")
        return value


def _settings(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    settings = metadata.get("conf", {})
    return settings if isinstance(settings, dict) else {}


def _plan(
    store: ObjectStore, key: str, entry: _Entry, watermark_ms: int, settings: dict[str, JsonValue], now_ms: int
) -> None:
    times: dict[str, JsonValue] = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": now_ms, "conf": settings}
    text = json.dumps({**entry.metadata, **times}, separators=(",", ":"))
    try:
        store.create(key, "\n".join([entry.version, text, *entry.lines]).encode())
    except errors.ObjectExistsError as error:
        raise _planned(store, key) from error


def _planned(store: ObjectStore, key: str) -> errors.PreconditionFailedError:
    return errors.PreconditionFailedError(
        "BatchPlanned",
        f"{store.uri}/{key} is planned already and not committed; event time cannot end before it has run.",
    )
