"""Epochs and ownership: of several drivers exactly one may write."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract import layout
from statefulspark.contract.config import OwnershipMode
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store() -> stores.MemoryStore:
    return stores.MemoryStore()


def claim(store: ObjectStore, who: str, assigned: int | None = None) -> int:
    return epochs.claim(store, assigned=assigned, holder=f"pod {who}", claim_id=who, now=NOW)


def test_the_first_claim_is_epoch_1_and_each_next_one_follows(store: stores.MemoryStore) -> None:
    assert [claim(store, who) for who in "abc"] == [1, 2, 3]
    assert epochs.newest(store) == 3


def test_an_assigned_epoch_fills_the_numbers_below_it(store: stores.MemoryStore) -> None:
    claim(store, "a")

    assert claim(store, "b", assigned=4) == 4

    assert [epochs.read(store, number).filled for number in (1, 2, 3, 4)] == [False, True, True, False]


@pytest.mark.parametrize("assigned", [1, 2])
def test_an_assigned_epoch_that_was_overtaken_is_fenced_with_both_named(
    store: stores.MemoryStore, assigned: int
) -> None:
    claim(store, "a")
    claim(store, "b")

    with pytest.raises(errors.FencedError, match=f"pod late .* epoch {assigned} .* pod b already holds epoch 2"):
        claim(store, "late", assigned=assigned)


def test_a_repeated_claim_returns_the_same_epoch(store: stores.MemoryStore) -> None:
    assert (claim(store, "a", assigned=3), claim(store, "a", assigned=3), claim(store, "a")) == (3, 3, 3)


def test_a_claim_whose_answer_was_lost_is_recognised(store: stores.MemoryStore) -> None:
    losing = stores.FaultyStore(store, stores.Plan(fail_after=frozenset({1}), only=frozenset({"create"})))
    with pytest.raises(errors.TransientError):
        claim(losing, "a", assigned=1)

    assert claim(losing, "a", assigned=1) == 1
    assert epochs.newest(store) == 1


def test_a_claim_that_died_while_filling_goes_on_after_the_filled_numbers(store: stores.MemoryStore) -> None:
    dying = stores.FaultyStore(store, stores.Plan(crash_after=2, only=frozenset({"create"})))
    with pytest.raises(stores.CrashPoint):
        claim(dying, "a", assigned=4)

    assert claim(store, "a", assigned=4) == 4


@pytest.mark.parametrize("assigned", [None, 3])
def test_of_many_claims_at_once_each_epoch_has_one_holder(store: stores.MemoryStore, assigned: int | None) -> None:
    won: list[int] = []

    def attempt(who: str) -> None:
        try:
            won.append(claim(store, who, assigned))
        except errors.FencedError:
            won.append(0)

    threads = [threading.Thread(target=attempt, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    expected = [0] * 7 + [3] if assigned else list(range(1, 9))
    assert sorted(won) == expected
    assert [layout.parse_number(name) for name in store.list_names("epochs")] == list(range(1, max(won) + 1))


def test_a_driver_with_an_older_epoch_is_told_who_followed(store: stores.MemoryStore) -> None:
    claim(store, "a")
    epochs.require_current(store, 1)
    claim(store, "b")

    with pytest.raises(errors.FencedError, match="pod b"):
        epochs.require_current(store, 1)


def an_owner(owner_id: str, **changes: object) -> OwnerRecord:
    record = OwnerRecord(namespace="default", job="flights", owner_id=owner_id, created_at=NOW)
    return record.model_copy(update=changes)


def test_the_first_owner_takes_the_state_and_keeps_it(store: stores.MemoryStore) -> None:
    first = epochs.ensure_owner(store, an_owner("uid-1"))

    assert epochs.ensure_owner(store, an_owner("uid-1")) == first


def test_another_owner_is_refused_with_both_named(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1"))

    with pytest.raises(errors.SpecRejectedError, match=r"uid-1.*uid-2") as raised:
        epochs.ensure_owner(store, an_owner("uid-2"))

    assert raised.value.reason == "StateOwnedByAnother"


def test_refused_owner_is_told_which_field_takes_the_state_over(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1"))

    with pytest.raises(errors.SpecRejectedError, match=r"Set storage\.ownership to TakeOver"):
        epochs.ensure_owner(store, an_owner("uid-2"))


def test_another_owner_takes_over_on_an_explicit_word(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1"))

    assert epochs.ensure_owner(store, an_owner("uid-2"), ownership=OwnershipMode.TAKE_OVER).owner_id == "uid-2"
    assert epochs.ensure_owner(store, an_owner("uid-2")).owner_id == "uid-2"


HERE, THERE = {"cluster_id": "here"}, {"cluster_id": "there"}


def test_state_of_a_deleted_resource_of_this_cluster_is_adopted_as_often_as_needed(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1", **HERE))

    for owner in ("uid-2", "uid-3"):
        adopted = epochs.ensure_owner(store, an_owner(owner, **HERE), ownership=OwnershipMode.ADOPT_ORPHANED)
        assert (adopted.owner_id, adopted.cluster_id) == (owner, "here")
    assert adopted.spent == ("uid-1 ", "uid-2 ")


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        pytest.param(
            HERE,
            THERE,
            "that owner is of cluster here and this job of there, so it may run there",
            id="another cluster",
        ),
        pytest.param({}, HERE, "the record of that owner names no cluster", id="an owner of no cluster"),
        pytest.param(HERE, {}, "this job does not know its cluster", id="a job that does not know its cluster"),
        pytest.param(
            {"job": "trains", **HERE}, HERE, "that resource has another name than default/flights", id="another name"
        ),
    ],
)
def test_state_whose_owner_may_live_is_not_adopted_and_the_refusal_says_what_to_do(
    store: stores.MemoryStore, before: dict[str, object], now: dict[str, object], why: str
) -> None:
    epochs.ensure_owner(store, an_owner("uid-1", **before))

    with pytest.raises(errors.SpecRejectedError, match=r"Set storage\.ownership to TakeOver") as raised:
        epochs.ensure_owner(store, an_owner("uid-2", **now), ownership=OwnershipMode.ADOPT_ORPHANED)

    assert raised.value.reason == "StateOwnedByAnother"
    assert f"AdoptOrphaned does not take it: {why}" in raised.value.message
    assert epochs.read_owner(store).owner_id == "uid-1"


def test_a_refused_owner_is_told_that_the_other_one_was_deleted(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1", **HERE))

    with pytest.raises(errors.SpecRejectedError, match=r"does not exist any more in this cluster.*to AdoptOrphaned"):
        epochs.ensure_owner(store, an_owner("uid-2", **HERE))


def test_an_owner_whose_cluster_becomes_known_records_it_and_does_not_forget_it(store: stores.MemoryStore) -> None:
    epochs.ensure_owner(store, an_owner("uid-1"))
    epochs.ensure_owner(store, an_owner("uid-1", **HERE))

    assert epochs.ensure_owner(store, an_owner("uid-1")).cluster_id == "here"


@pytest.mark.parametrize("body", [b"", b'{"formatVersion": 99}'], ids=["damaged", "of a later release"])
def test_a_driver_is_fenced_by_a_record_that_it_cannot_read(store: stores.MemoryStore, body: bytes) -> None:
    claim(store, "a")
    store.write(layout.epoch(2), body)

    with pytest.raises(errors.FencedError, match="followed by epoch 2"):
        epochs.require_current(store, 1)


def test_an_unreadable_owner_is_never_replaced(store: stores.MemoryStore) -> None:
    store.write(layout.OWNER, b"{")

    with pytest.raises(errors.SnapshotCorruptError):
        epochs.ensure_owner(store, an_owner("uid-1"))
    assert store.read(layout.OWNER) == b"{"


class CarelessStore(stores.MemoryStore):
    """It knows no conditions, or only that of a create."""

    def __init__(self, *, creates: bool) -> None:
        super().__init__()
        self._creates = creates

    def create(self, key: str, body: bytes) -> None:
        if self._creates:
            super().create(key, body)
        else:
            self.write(key, body)

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        self.write(key, body)


@pytest.mark.parametrize(("creates", "named"), [(False, r"If-None-Match: \*"), (True, "If-Match ")])
def test_a_store_that_ignores_conditions_is_refused_at_the_first_start(creates: bool, named: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=named) as raised:
        epochs.ensure_owner(CarelessStore(creates=creates), an_owner("uid-1"))

    assert raised.value.reason == "StorageConditionsIgnored"


def test_a_store_that_ignores_conditions_is_refused_where_there_is_state_too() -> None:
    store = CarelessStore(creates=False)
    store.write(layout.OWNER, an_owner("uid-1").to_json().encode())

    with pytest.raises(errors.SpecRejectedError, match="two drivers can write the same state"):
        epochs.ensure_owner(store, an_owner("uid-1"))


def says(owner_id: str, word: str = "start") -> OwnerRecord:
    return an_owner(owner_id).model_copy(update={"word": word})


GAINED, REFUSED = True, False


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param(
            [(says("a"), GAINED), (says("b"), GAINED), (says("a"), REFUSED), (says("b"), GAINED)], id="in turn"
        ),
        pytest.param(
            [(says("a"), GAINED), (says("b"), GAINED), (says("c"), GAINED), (says("b"), REFUSED), (says("a"), REFUSED)],
            id="three of them",
        ),
        pytest.param(
            [(says("a"), GAINED), (says("b"), GAINED), (says("a", "2"), GAINED), (says("b"), REFUSED)],
            id="said again under a new name",
        ),
        pytest.param(
            [(says("a"), GAINED), (says("a", "2"), GAINED), (says("b"), GAINED), (says("a", "2"), REFUSED)],
            id="a name that has changed while its resource owned the state",
        ),
        pytest.param(
            [(says("a"), GAINED), (says("a", "2"), GAINED), (says("b"), GAINED), (says("a", "3"), GAINED)],
            id="a name that is new since",
        ),
    ],
)
def test_take_over_that_is_left_in_two_manifests_counts_once(
    store: stores.MemoryStore, starts: list[tuple[OwnerRecord, bool]]
) -> None:
    for owner, gained in starts:
        if gained:
            assert epochs.ensure_owner(store, owner, ownership=OwnershipMode.TAKE_OVER).key == owner.key
            continue
        with pytest.raises(errors.SpecRejectedError, match=r"counts once.*restore\.nonce") as raised:
            epochs.ensure_owner(store, owner, ownership=OwnershipMode.TAKE_OVER)
        assert raised.value.reason == "StateOwnedByAnother"


def test_a_claim_counts_for_a_later_epoch_that_follows_it(store: stores.MemoryStore) -> None:
    claim(store, "a")
    claim(store, "b", assigned=4)
    claim(store, "c")

    assert [claim_beside(store, 1, epoch) for epoch in (0, 1, 4, 5)] == ["a"] * 4
    assert [claim_beside(store, 5, epoch) for epoch in (0, 1, 4, 5)] == ["c"] * 4
    assert (claim_beside(store, 2, 4), claim_beside(store, 7, 8)) == (None, None)


def test_a_claim_of_a_life_that_was_copied_over_an_older_one_does_not_count_for_an_epoch_of_that_one(
    store: stores.MemoryStore,
) -> None:
    newer = stores.MemoryStore()
    for who in "abc":
        claim(store, who)
    for who in "xy":
        claim(newer, who)
    for epoch in (1, 2):
        store.write(layout.epoch(epoch), newer.read(layout.epoch(epoch)))

    assert [claim_beside(store, 2, epoch) for epoch in (0, 1, 2, 3)] == ["y", "y", "y", None]
    assert [claim_beside(store, 3, epoch) for epoch in (0, 1, 2, 3)] == ["c", None, None, "c"]


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_claim_does_not_count_beside_a_driver_whose_epoch_somebody_else_has_claimed(
    store: stores.MemoryStore, epoch: int
) -> None:
    for who in "abc":
        claim(store, who)

    assert claim_beside(store, epoch, 2, "b") == "abc"[epoch - 1]
    assert claim_beside(store, epoch, 2, "y") is None


def test_records_that_are_gone_or_cannot_be_read_accuse_nobody(store: stores.MemoryStore) -> None:
    for who in "abc":
        claim(store, who)
    store.write(layout.epoch(2), b"no record")

    assert claim_beside(store, 1, 3) == "a"


def claim_beside(store: stores.MemoryStore, epoch: int, known: int, its_claim: str | None = None) -> str | None:
    return epochs.claim_in_life(store, epoch, known=epochs.KnownDriver(known, its_claim))
