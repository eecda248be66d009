"""Carries state ahead: a standby whose plan differs from the running driver's fills the generation that it will run in.

A changed plan needs a generation of its own, and copying a cut into it takes as long as the state is large. So the standby
reserves a number as a driver does, with a conditional create, and has the object store copy the state files of each
checkpoint while the old driver runs. Once it is the driver, its start copies what is missing and writes the rest
(`restore`).

It needs no epoch for that. The number is its own, nobody else writes there, and without the record that only the driver of
an epoch writes, the generation is never used. It copies nothing but files whose names are used once, so a copy that arrives
late is the same bytes, or the rubbish of a generation that is closed off, which pruning removes. It deletes nothing.

Nothing depends on it: whatever is not there is copied by the start. Any other driver that starts closes the generation off,
and the running one does so when the standby has written nothing for long (`retention.rules`); then it begins in another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import transfer
from statefulspark.contract.manifest import QueryEntry
from statefulspark.evolution import rewrite
from statefulspark.recovery import copies, generations
from statefulspark.storage.port import ObjectStore

AT_ONCE = 16
"""An activation finds at most so many copies under way."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cargo:
    """What is carried ahead.

    Attributes:
        queries: The queries of the newest checkpoint, in the generation in use.
        generation: Number of that generation.
        epoch: The epoch of the running driver.
        rewrites: How the files of queries change, by uid.
        rewritten: Uids of queries whose state is rewritten in the new generation; nothing of them is carried ahead.
    """

    queries: tuple[QueryEntry, ...]
    generation: int
    epoch: int
    rewrites: Mapping[str, rewrite.Rewrite]
    rewritten: Collection[str] = ()


class AheadCopier:
    """Fills one generation at a time; used by the standby's thread, and asked once by the start."""

    def __init__(self, store: ObjectStore, *, standby: str, claim_id: str, at_once: int = AT_ONCE) -> None:
        """Reserve nothing yet.

        Args:
            store: The job's root.
            standby: This standby, for people.
            claim_id: Unique for this process.
            at_once: Copies between two looks whether to stop.
        """
        self._store = store
        self._standby = standby
        self._claim_id = claim_id
        self._at_once = at_once
        self._lock = threading.Lock()
        self._number: int | None = None
        self._files: dict[str, copies.Origin] = {}
        self._is_over = False

    def follow(self, cargo: Cargo, now: datetime, *, stops: Callable[[], bool]) -> bool:
        """Copy what is missing, and show that this standby lives.

        Cost: two HEADs and a PUT for the reservation; if something is missing a LIST per query and 1,000 files, and a
        server-side copy per missing file.

        Args:
            cargo: What to carry.
            now: UTC.
            stops: Asked between a few copies; what was copied so far stays.

        Returns:
            Whether everything is there that can be carried ahead.

        Raises:
            TransientError, StateUnknownError: Storage failed; the next call goes on.
        """
        if self._is_over:
            return False
        number = self._held(cargo, now)
        planned = copies.moves(cargo.queries, number, rewrites=cargo.rewrites)
        needed = copies.list_copies(transfer.SnapshotLocation(self._store), planned)
        if copies.is_outgrown(needed, self._files):
            if self._begin(None):
                generations.close_off(self._store, (number,), epoch=cargo.epoch, now=now)
            return False
        roots = [move.path for move in planned if move.query.uid in cargo.rewritten]
        waiting = copies.due_ahead(needed, self._files, rewritten=roots)
        if not waiting:
            return True
        folders = {copy.file.path.partition("/")[0] for copy in waiting}
        listed = [
            info for move in planned for name in folders for info in self._store.list(f"{move.query.path}/{name}")
        ]
        waiting = copies.sound(waiting, {info.key: info for info in listed})
        for some in copies.slices(waiting, self._at_once):
            if stops() or not self._copy(some):
                return False
        if waiting:
            total = sum(copy.size_bytes for copy in waiting)
            _log.info("carried ahead", extra={"generation": number, "files": len(waiting), "bytes": total})
        return True

    def carried_queries(self, cargo: Cargo) -> tuple[QueryEntry, ...]:
        """Return the queries as they will be in the reserved generation, with the files that are there already."""
        with self._lock:
            number, files = self._number, dict(self._files)
        if number is None:
            return ()
        moved = copies.moves(cargo.queries, number, rewrites=cargo.rewrites)
        return copies.arrived(transfer.SnapshotLocation(self._store), moved, files)

    def end(self) -> copies.Carried | None:
        """Return what was carried, None if nothing was; what is copied from now on does not count."""
        with self._lock:
            self._is_over = True
            return None if self._number is None else copies.Carried(self._number, dict(self._files))

    def _held(self, cargo: Cargo, now: datetime) -> int:
        """Return the number that this standby holds, another one if its own was closed off."""
        holder = generations.reservation_of_standby(self._standby, cargo.epoch, claim_id=self._claim_id, now=now)
        number = self._number
        if number is not None and number > cargo.generation and generations.renew(self._store, number, holder):
            return number
        number = generations.reserve(self._store, above=cargo.generation, holder=holder)
        self._begin(number)
        _log.info("reserved a generation to carry state ahead", extra={"generation": number})
        return number

    def _begin(self, number: int | None) -> bool:
        """Leave what there is and go on in another number; not once the start has been told of it."""
        with self._lock:
            if not self._is_over:
                self._number, self._files = number, {}
            return not self._is_over

    def _copy(self, some: Sequence[copies.FileCopy]) -> bool:
        """Copy a few files; tell whether they are there, and not whether a file has been pruned meanwhile."""
        try:
            transfer.copy(self._store, self._store, [(copy.source, copy.target) for copy in some])
        except errors.ObjectNotFoundError as error:
            _log.info("a file was pruned before it was carried ahead", extra={"why": error.message})
            return False
        with self._lock:
            if self._is_over:
                return False
            self._files |= {copy.target: copy.origin for copy in some}
        return True
