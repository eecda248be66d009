"""Which of several attempts at a batch counts: that of the driver whose entry is in Spark's commit log.

A driver that is replaced may still win the one commit that it had looked at the fence for. Its successor has then run the
same batch, left records of its own, and lost. The state is the winner's, and user code need not give the same rows twice: so
the records of sinks and functions have to be the winner's, too. Where a commit does not tell its driver, the newest attempt
counts. `rivals` and `without_losers` are pure; `Winners` asks storage, and only about batches that were tried twice or more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from statefulspark.checkpoint import batch_records, epochs, listing
from statefulspark.checkpoint.batch_records import RecordKind, RecordName
from statefulspark.storage.port import ObjectStore

_STATE = (RecordKind.OPERATOR_STATE, RecordKind.UNCHANGED)
_OF_AN_ATTEMPT = (RecordKind.PREPARED, *_STATE)
_Info = TypeVar("_Info")


def rivals(keys: Iterable[str], needed: Callable[[RecordName], bool]) -> Mapping[int, frozenset[int]]:
    """Return the epochs of each batch that more than one driver has tried.

    Args:
        keys: Keys below the query's root; keys of other files are ignored.
        needed: Tells whether a record matters.
    """
    epochs_of: dict[int, set[int]] = {}
    for key in keys:
        name = batch_records.parse_key(key)
        if name is not None and name.kind in _OF_AN_ATTEMPT and needed(name):
            epochs_of.setdefault(name.batch, set()).add(name.epoch)
    return {batch: frozenset(tried) for batch, tried in epochs_of.items() if len(tried) > 1}


def without_losers(listed: Mapping[str, _Info], winners: Mapping[int, int]) -> dict[str, _Info]:
    """Leave out the records of attempts that lost; one of a uid of which the winner has no record stays.

    Args:
        listed: Files by their key below the query's root.
        winners: The epoch that has committed a batch, for batches that were tried more than once.
    """
    names = {key: name for key in listed if (name := batch_records.parse_key(key)) is not None}
    won = {_subject(name) for name in names.values() if winners.get(name.batch) == name.epoch}
    lost = {
        key
        for key, name in names.items()
        if name.kind in _OF_AN_ATTEMPT and winners.get(name.batch) != name.epoch and _subject(name) in won
    }
    return {key: info for key, info in listed.items() if key not in lost}


def _subject(name: RecordName) -> tuple[bool, str, int]:
    """Return what a batch has one valid record of."""
    return name.kind in _STATE, name.uid, name.batch


class Winners:
    """The drivers that have committed the batches of one query. Answers are cached: a commit never changes."""

    def __init__(self, store: ObjectStore, query_path: str) -> None:
        """Ask the store of a job's root about the query at a path below it."""
        self._store = store
        self._path = query_path
        self._known: dict[int, int | None] = {}

    def find(self, contested: Mapping[int, Collection[int]]) -> dict[int, int]:
        """Return the epoch that has committed each batch, where its commit tells.

        Cost: nothing for batches that were asked about before; else a HEAD each, and what `epochs.life_since` costs.

        Args:
            contested: The epochs that have tried a batch, by batch.
        """
        new = {batch: tried for batch, tried in contested.items() if batch not in self._known}
        if new:
            signed = listing.look_up(self._store, self._path, [f"commits/{batch}" for batch in new])
            life = epochs.life_since(self._store, min(map(min, new.values())))
            claims = life.claims if life is not None else {}
            for batch in new:
                info = signed.get(f"commits/{batch}")
                self._known[batch] = claims.get(info.claim) if info is not None and info.claim is not None else None
        winners = {batch: self._known[batch] for batch in contested}
        return {batch: winner for batch, winner in winners.items() if winner is not None}
