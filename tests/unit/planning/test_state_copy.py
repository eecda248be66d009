"""Which checkpoint's files are copied for a rehearsal: those of the newest one, which pruning leaves alone."""

from __future__ import annotations

import pytest
from manifests import a_manifest
from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract.manifest import QueryEntry
from statefulspark.planning import state_copy
from statefulspark.testing import stores

UIDS = ("first", "second")


def entries(batch: int) -> list[QueryEntry]:
    return [QueryEntry(uid=uid, batch_id=batch, path=f"generations/00000001/{uid}", files=()) for uid in UIDS]


@pytest.mark.parametrize(
    ("generation", "batch"),
    [pytest.param(1, 9, id="the newest one"), pytest.param(2, 5, id="but none of another generation")],
)
def test_a_query_is_taken_from(generation: int, batch: int) -> None:
    store = stores.MemoryStore("memory://bucket")
    compared = a_manifest(3, entries(5))
    catalog.write_checkpoint(store, a_manifest(7, entries(9), generation=generation))

    entry = state_copy.entry_in(store, 7, compared, "second")

    assert (entry.uid, entry.batch_id) == ("second", batch)


def test_a_checkpoint_that_was_pruned_meanwhile_is_told() -> None:
    with pytest.raises(errors.StatefulSparkError, match="checkpoints"):
        state_copy.entry_in(stores.MemoryStore("memory://bucket"), 7, a_manifest(3, entries(5)), "first")
