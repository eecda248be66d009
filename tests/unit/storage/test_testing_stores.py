"""The faulty store does exactly what its plan says, so that crash points can be enumerated."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from statefulspark import errors
from statefulspark.storage import ObjectStore
from statefulspark.testing import stores
from statefulspark.testing.stores import CrashPoint, FaultyStore, MemoryStore, Plan, StoreOperation


def three_writes(store: ObjectStore) -> None:
    for key in ("a", "b", "c"):
        store.write(key, b"")


def keys(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list("")]


@pytest.mark.parametrize(
    ("plan", "written"),
    [
        (Plan(crash_before=1), []),
        (Plan(crash_after=1), ["a"]),
        (Plan(crash_before=2), ["a"]),
        (Plan(crash_after=2), ["a", "b"]),
        (Plan(crash_before=3), ["a", "b"]),
        (Plan(crash_after=3), ["a", "b", "c"]),
    ],
)
def test_a_crash_leaves_what_was_done_before_it(plan: Plan, written: list[str]) -> None:
    store = FaultyStore(MemoryStore(), plan)

    with pytest.raises(CrashPoint):
        three_writes(store)

    assert keys(store.wrapped) == written


@pytest.mark.parametrize(
    ("plan", "written"),
    [(Plan(fail_at=frozenset([2])), ["a"]), (Plan(fail_after=frozenset([2])), ["a", "b"])],
    ids=["before the effect", "after the effect"],
)
def test_a_failure_is_storage_unreachable_before_or_after_the_effect(plan: Plan, written: list[str]) -> None:
    store = FaultyStore(MemoryStore(), plan)

    with pytest.raises(errors.TransientError) as caught:
        three_writes(store)

    assert caught.value.reason == "StorageUnreachable"
    assert keys(store.wrapped) == written


def test_a_crash_is_no_error_that_a_handler_could_catch() -> None:
    assert not issubclass(CrashPoint, Exception)


def test_operations_are_counted_over_children_each_copy_and_deletion_alone() -> None:
    store = FaultyStore(MemoryStore())

    store.child("x").write("a", b"")
    store.copy_many([("x/a", "y/a"), ("x/a", "y/b")])
    store.delete_many(["x/a"])
    store.child("y").list("")

    assert store.operations == (
        StoreOperation(1, "write", "x/a"),
        StoreOperation(2, "copy", "y/a"),
        StoreOperation(3, "copy", "y/b"),
        StoreOperation(4, "delete", "x/a"),
        StoreOperation(5, "list", "y"),
    )


def test_only_the_named_operations_count() -> None:
    store = FaultyStore(MemoryStore(), Plan(crash_before=2, only=frozenset(["create"])))
    three_writes(store)
    store.create("d", b"")

    with pytest.raises(CrashPoint):
        store.create("e", b"")

    assert keys(store.wrapped) == ["a", "b", "c", "d"]


def test_a_lagging_listing_hides_new_objects_and_info_does_not() -> None:
    store = FaultyStore(MemoryStore(), Plan(lag_lists=True))
    three_writes(store.child("x"))

    hidden = (store.list(""), store.list_names("x"), store.info("x/a") is not None)
    store.catch_up()

    assert hidden == ((), (), True)
    assert keys(store) == ["x/a", "x/b", "x/c"]
    assert store.list_names("x") == ("a", "b", "c")


def test_the_memory_store_takes_its_time_from_the_given_clock() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    store = MemoryStore(clock=lambda: moment)
    store.write("a", b"")

    info = store.info("a")

    assert info is not None
    assert info.modified_at == moment
    assert isinstance(store.child("x"), stores.MemoryStore)
