"""A driver of a test dies between two requests, and makes none afterwards."""

from __future__ import annotations

import contextlib

import pytest
from statefulspark.testing.lives import KilledError, KillPoint, Life, MortalStore
from statefulspark.testing.stores import MemoryStore

PREPARED = "generations/00000001/totals/prepared/out/00000003-00000001.json"
MANIFEST = "checkpoints/00000002/_metadata.json"
OTHERS = ("checkpoints/00000002/files.json", "generations/00000001/totals/offsets/3")


@pytest.mark.parametrize(
    ("point", "left"),
    [
        (KillPoint.BEFORE_COMMIT, [PREPARED]),
        (KillPoint.BEFORE_CHECKPOINT, [*OTHERS, PREPARED]),
        (KillPoint.AFTER_CHECKPOINT, [OTHERS[0], MANIFEST, *OTHERS[1:], PREPARED]),
    ],
    ids=str,
)
def test_a_driver_dies_at_the_request_that_ends_the_step(point: KillPoint, left: list[str]) -> None:
    life = Life()
    life.end_at(point)
    store = MortalStore(MemoryStore(), life)

    with contextlib.suppress(KilledError):
        for key in (PREPARED, *OTHERS, MANIFEST, "more"):
            store.create(key, b"{}")

    assert [info.key for info in store.wrapped.list("")] == sorted(left)


def test_the_dead_make_no_request_through_any_part_of_their_store() -> None:
    life = Life()
    store = MortalStore(MemoryStore(), life)
    store.write("before", b"")
    life.end()

    for act in (
        lambda: store.child("a").write("b", b""),
        lambda: store.delete_many(["before"]),
        lambda: store.read("before"),
        lambda: store.list(""),
    ):
        with pytest.raises(KilledError):
            act()
    assert [info.key for info in store.wrapped.list("")] == ["before"]
