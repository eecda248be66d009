"""What every two-phase sink has to keep, as a pytest class that the tests of a sink extend.

The class calls the sink as the runtime does, in front of its real system. It opens the sink as drivers of several epochs,
prepares batches, and commits them again, as starts after a failure do. A reader must see each record once. The state is in
a temporary folder; a sink whose helpers need another store overrides `context`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from statefulspark import errors
from statefulspark.sinks import base, standing
from statefulspark.storage import StorageOptions

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
LINEAGE = "contract"


class TwoPhaseSinkContract:
    """The contract of a two-phase sink. Extend it with a class whose name begins with `Test`.

    Rows have the columns `id bigint` and `word string`; the target is empty when a test begins.

    Attributes:
        has_marker: Whether the sink keeps a marker in its target (`open_marker`, `require_newest`). A marker fences drivers
            that were replaced, and a batch without rows needs no transaction.
    """

    has_marker: ClassVar[bool] = True

    def make_sink(self) -> base.Sink | base.TwoPhaseSink:
        """Return the sink, made anew as by another process."""
        raise NotImplementedError(f"{type(self).__qualname__} must override make_sink()")

    def visible_ids(self) -> list[int]:
        """Return the ids that a reader of committed rows finds, sorted; an id that is there twice comes twice."""
        raise NotImplementedError(f"{type(self).__qualname__} must override visible_ids()")

    def leftovers(self) -> list[str]:
        """Return what the target holds and no committed batch names, such as files. Most targets have no such thing."""
        return []

    @pytest.fixture(autouse=True)
    def _state(self, tmp_path: Path) -> None:
        self._folder = tmp_path / "state"

    def context(self) -> base.SinkContext:
        """Return the context of batch 0 in generation 1, written and committed by epoch 1."""
        folder = self._folder.as_uri()
        return base.SinkContext(
            job="contract/job",
            query_uid="query",
            uid="out",
            generation=1,
            batch_id=0,
            epoch=1,
            committing_epoch=1,
            staging_uri=f"{folder}/generations/00000001/query",
            notes_uri=f"{folder}/sinks/query/out",
            options=StorageOptions(allow_local_files=True),
            lineage=LINEAGE,
            descent=standing.SinkLineage(LINEAGE),
            claim=_claim(1),
            claim_of=_claim,
        )

    def _at(self, batch_id: int, *, generation: int = 1, epoch: int = 1) -> base.SinkContext:
        context = replace(self.context(), batch_id=batch_id, generation=generation, epoch=epoch)
        return self._by(context, epoch)

    @staticmethod
    def _by(context: base.SinkContext, epoch: int) -> base.SinkContext:
        """Return the context as the driver of another epoch commits the batch."""
        return replace(context, committing_epoch=epoch, claim=context.claim_of(epoch) or "")

    @property
    def _sink(self) -> base.TwoPhaseSink:
        return base.machine_of(self.make_sink())

    def _prepared(self, context: base.SinkContext, ids: Sequence[int]) -> bytes:
        """Write rows in two parts, and return the transaction of the batch."""
        half = len(ids) // 2
        parts = [self._sink.write_part(_batches(some), context.on_worker()) for some in (ids[:half], ids[half:])]
        transaction = self._sink.prepare(tuple(part for part in parts if part is not None), context)
        assert transaction is not None, "a batch with rows has a transaction"
        return transaction

    def test_rows_are_invisible_until_the_commit_and_there_once_after_it(self) -> None:
        """Rows of a prepared batch are visible when it is committed, and not before."""
        first = self._at(0)
        self._sink.open(replace(first, batch_id=-1))
        prepared = self._prepared(first, [1, 2, 3])
        before = self.visible_ids()
        self._sink.commit(prepared, first)
        assert (before, self.visible_ids(), self.leftovers()) == ([], [1, 2, 3], [])

    def test_a_batch_is_committed_once_by_this_driver_and_the_next(self) -> None:
        """A start commits the batches of the restored snapshot again, which changes nothing."""
        first, again = self._at(0), self._at(0, epoch=2)
        self._sink.open(replace(first, batch_id=-1))
        prepared = self._prepared(first, [1, 2, 3])
        self._sink.commit(prepared, first)
        self._sink.commit(prepared, first)
        self._sink.open(again)
        self._sink.commit(prepared, again)
        assert self.visible_ids() == [1, 2, 3]

    def test_a_batch_that_a_failed_driver_had_prepared_is_committed_by_the_next(self) -> None:
        """The transaction and the staged rows are all that the next driver has."""
        self._sink.open(self._at(-1))
        prepared = self._prepared(self._at(0), [1, 2, 3])
        self._sink.open(self._at(0, epoch=2))
        self._sink.commit(prepared, self._by(self._at(0), 2))
        assert self.visible_ids() == [1, 2, 3]

    def test_an_earlier_batch_is_not_repeated_after_a_later_one(self) -> None:
        """The sink knows all batches up to the newest one."""
        self._sink.open(self._at(-1))
        earlier, later = self._prepared(self._at(0), [1, 2]), self._prepared(self._at(1), [3, 4])
        for prepared, batch in ((earlier, 0), (later, 1), (earlier, 0), (later, 1)):
            self._sink.commit(prepared, self._at(batch))
        assert self.visible_ids() == [1, 2, 3, 4]

    def test_batches_of_one_commit_are_there_once_and_each_of_them_again_is_not(self) -> None:
        """A driver that dies in the commit of several batches leaves each of them to the next one, alone."""
        sink = self._sink
        sink.open(self._at(-1))
        transactions = [self._prepared(self._at(batch), [2 * batch, 2 * batch + 1]) for batch in range(3)]
        if isinstance(sink, base.MergesTransactions):
            merged = functools.reduce(lambda earlier, later: sink.merge(earlier, later) or b"", transactions)
            assert merged, "small batches are merged"
            for _ in range(2):
                sink.commit(merged, replace(self._at(2), merged_from=0))
        else:
            for batch, prepared in enumerate(transactions):
                sink.commit(prepared, self._at(batch))
        self._sink.open(self._at(2, epoch=2))
        for batch, prepared in enumerate(transactions):
            self._sink.commit(prepared, self._by(self._at(batch), 2))
        assert self.visible_ids() == [0, 1, 2, 3, 4, 5]

    def test_an_aborted_batch_is_never_seen(self) -> None:
        """A second abort has no effect."""
        first = self._at(0)
        self._sink.open(replace(first, batch_id=-1))
        prepared = self._prepared(first, [1, 2, 3])
        self._sink.abort(prepared, first)
        self._sink.abort(prepared, first)
        assert (self.visible_ids(), self.leftovers()) == ([], [])

    def test_giving_up_an_attempt_leaves_the_attempt_that_was_committed(self) -> None:
        """Two drivers have prepared one batch; the abort of either attempt must not take the rows of the committed one."""
        self._sink.open(self._at(0))
        lost, won = self._prepared(self._at(3), [1, 2]), self._prepared(self._at(3, epoch=2), [1, 2])
        self._sink.open(self._at(0, epoch=2))
        self._sink.commit(won, self._at(3, epoch=2))
        self._sink.abort(lost, self._by(self._at(3), 2))
        self._sink.abort(won, self._at(3, epoch=2))
        assert (self.visible_ids(), self.leftovers()) == ([1, 2], [])

    def test_a_batch_without_rows_has_no_transaction(self) -> None:
        """Then there is nothing to commit."""
        self._require_marker()
        first = self._at(0)
        assert self._sink.write_part(iter(()), first.on_worker()) is None
        assert self._sink.prepare((), first) is None

    def test_a_driver_that_was_replaced_commits_nothing(self) -> None:
        """It may still run, for example on a lost node, when the next driver opens the sink."""
        self._require_marker()
        replaced = self._sink
        replaced.open(self._at(-1))
        prepared = self._prepared(self._at(0), [1, 2, 3])
        self._sink.open(self._at(-1, epoch=2))
        with pytest.raises(errors.FencedError):
            replaced.commit(prepared, self._at(0))
        assert self.visible_ids() == []
        self._sink.commit(prepared, self._by(self._at(0), 2))
        assert self.visible_ids() == [1, 2, 3]

    def test_a_driver_that_was_replaced_cannot_open_the_sink_again(self) -> None:
        """The marker has the newer epoch."""
        self._require_marker()
        self._sink.open(self._at(-1, epoch=2))
        with pytest.raises(errors.FencedError):
            self._sink.open(self._at(-1))

    def test_what_a_left_generation_had_prepared_is_given_up_after_the_new_one_went_on(self) -> None:
        """A start from an older snapshot left it; batches of another generation do not count for it."""
        self._require_marker()
        left, taken = self._prepared(self._at(9), [1, 2]), self._at(1, generation=2)
        self._sink.open(taken)
        self._sink.commit(self._prepared(taken, [3]), taken)
        self._sink.abort(left, self._at(9))
        assert (self.visible_ids(), self.leftovers()) == ([3], [])

    def test_a_snapshot_of_a_left_generation_is_committed_if_the_job_goes_back_to_it(self) -> None:
        """What the newer generation has committed meanwhile does not count for it."""
        self._require_marker()
        self._sink.open(self._at(0))
        left = self._prepared(self._at(5), [1, 2])
        self._sink.commit(self._prepared(self._at(4), [3, 4]), self._at(4))
        lineage = self.context().lineage
        taken = replace(self._at(7, generation=2, epoch=2), descent=standing.SinkLineage(lineage, 2, went_back=2))
        self._sink.open(replace(taken, batch_id=6))
        self._sink.commit(self._prepared(taken, [5, 6]), taken)
        for _ in range(2):
            self._sink.commit(left, self._at(5, epoch=2))
        assert self.visible_ids() == [1, 2, 3, 4, 5, 6]

    def test_a_target_that_has_lost_a_batch_is_refused_when_it_is_opened(self) -> None:
        """The restored snapshot has a batch that the target does not have, and nobody has its rows any more."""
        self._commit_first_of_epoch_1()
        later = self._at(5, epoch=2)
        with pytest.raises(errors.StateUnknownError):
            self._sink.open(replace(later, expected=_known(later, kept_after=later)))
        assert self.visible_ids() == [1, 2]

    def test_a_target_that_has_lost_a_batch_while_the_driver_runs_gets_no_later_one(self) -> None:
        """The driver still has the transaction of the lost batch; the later batch follows once that is committed again."""
        sink, first, lost, later = self._commit_first_of_epoch_1(), self._at(0), self._at(1), self._at(2)
        transaction, of_later = self._prepared(lost, [3]), self._prepared(later, [4])
        with_later = replace(later, expected=_known(lost, kept_after=first))
        with pytest.raises(errors.StateUnknownError):
            sink.commit(of_later, with_later)
        refused = self.visible_ids()
        sink.commit(transaction, lost)
        sink.commit(of_later, with_later)
        assert (refused, self.visible_ids()) == ([1, 2], [1, 2, 3, 4])

    def test_a_target_that_has_lost_its_marker_is_not_taken_for_a_new_one(self) -> None:
        """The start is refused, or the sink knows from elsewhere that it had the batch, and does not repeat it."""
        self._require_marker()
        had, start = self._at(3), self._at(3, epoch=2)
        transaction, sink = self._prepared(had, [1, 2]), self._sink
        sink.open(replace(self._at(-1), uid="other"))
        with contextlib.suppress(errors.StateUnknownError):
            sink.open(replace(start, expected=_known(had, kept_after=had)))
            sink.commit(transaction, self._by(had, 2))
        assert self.visible_ids() == []

    def test_a_batch_that_another_target_got_is_not_repeated_in_this_one(self) -> None:
        """The sink has the same uid as before, and writes to another target now."""
        self._require_marker()
        had, next_one, sink = self._at(3), self._at(4, epoch=2), self._sink
        transaction, of_next = self._prepared(had, [1, 2]), self._prepared(next_one, [3])
        sink.open(replace(self._at(3, epoch=2), expected=standing.Expected(elsewhere=had.position)))
        sink.commit(transaction, self._by(had, 2))
        sink.commit(of_next, next_one)
        assert self.visible_ids() == [3]

    def test_a_target_with_another_batch_of_the_same_number_is_refused(self) -> None:
        """The state has its batch from a later driver than the one that opened the target last: they are of two copies."""
        self._commit_first_of_epoch_1()
        start = self._at(0, epoch=4)
        expected = standing.Expected(was_opened=True, origin=start.lineage, written=((0, 3),))
        with pytest.raises(errors.SpecRejectedError):
            self._sink.open(replace(start, expected=expected))
        assert self.visible_ids() == [1, 2]

    def _commit_first_of_epoch_1(self) -> base.TwoPhaseSink:
        """Open the sink, commit batch 0, and return the sink."""
        self._require_marker()
        first, sink = self._at(0), self._sink
        sink.open(self._at(-1))
        sink.commit(self._prepared(first, [1, 2]), first)
        return sink

    def _require_marker(self) -> None:
        if not self.has_marker:
            pytest.skip("the sink keeps no marker")


def _known(committed: base.SinkContext, *, kept_after: base.SinkContext) -> standing.Expected:
    """Return what a driver knows that has committed a batch, and has the transactions after another one."""
    return standing.Expected(committed.position, kept_after.position, was_opened=True, origin=committed.lineage)


def _claim(epoch: int) -> str:
    return f"claim of epoch {epoch}"


def _batches(ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
    if ids:
        yield pa.RecordBatch.from_pydict({"id": list(ids), "word": [f"word {number}" for number in ids]}, schema=SCHEMA)
