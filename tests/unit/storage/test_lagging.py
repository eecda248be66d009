"""The store whose listings lag, as tests use it."""

from __future__ import annotations

from statefulspark.testing import lagging, stores


def test_a_listing_shows_what_there_was_some_operations_ago() -> None:
    wrapped = stores.MemoryStore()
    wrapped.write("f/old", b"1")
    store = lagging.LaggingStore(wrapped, lag=3)

    store.write("f/new", b"2")
    store.delete_many(["f/old"])

    assert [info.key for info in store.list("f")] == ["f/old"]
    assert store.list_names("") == ("f/",)
    assert store.info("f/new") is not None
    assert store.info("f/old") is None
    assert [info.key for info in store.list("f")] == ["f/new"]


def test_a_child_shares_the_lag() -> None:
    store = lagging.LaggingStore(stores.MemoryStore(), lag=100)

    store.child("a").write("b", b"")

    assert store.list("") == ()
    assert store.child("a").list("") == ()
    store.catch_up()
    assert [info.key for info in store.child("a").list("")] == ["b"]
