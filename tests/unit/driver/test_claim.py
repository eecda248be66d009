"""A refusal of another's state tells what a start that is allowed to would do with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from restores import a_restore
from snapshots import Clock
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.contract.config import JobConfig, OwnershipMode, RestoreConfig, StorageConfig
from statefulspark.contract.manifest import GenerationRecord, OwnerRecord
from statefulspark.driver.starting import claim
from statefulspark.recovery import generations

NOW = Clock().now
FROM = a_restore(snapshot="s3://state/spring", nonce="hash")
FRESH = a_restore(empty=True, nonce="hash")


def config_of(folder: Path, restore: RestoreConfig, *, take_over: bool = False) -> JobConfig:
    ownership = OwnershipMode.TAKE_OVER if take_over else OwnershipMode.EXCLUSIVE
    storage = StorageConfig(uri=folder.as_uri(), allow_local_files=True, ownership=ownership)
    return JobConfig(name="flights", owner_id="new", storage=storage, restore=restore)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """State of a resource that is gone, which has carried out a restore."""
    store = claim.open_root(config_of(tmp_path, FROM)).store
    owner = OwnerRecord(namespace="default", job="flights", owner_id="old", created_at=NOW)
    store.create(layout.OWNER, owner.to_json().encode())
    generations.publish(store, GenerationRecord(generation=1, created_at=NOW, epoch=1, carried_out=("spring",)))
    return tmp_path


@pytest.mark.parametrize(
    ("restore", "told"),
    [
        pytest.param(RestoreConfig(), "docs/howto/rebuild-a-cluster.md.", id="nothing"),
        pytest.param(
            FROM,
            "It also asks for a restore of s3://state/spring, which was not carried out there: a start goes back to that "
            "snapshot, and leaves the newer state behind. Remove restore.source to continue from the newest state.",
            id="a restore",
        ),
        pytest.param(
            FRESH,
            "It also asks for empty state, which was not carried out there: a start begins with empty state, and leaves the "
            "newer state behind. Remove restore.source to continue from the newest state.",
            id="empty state",
        ),
        pytest.param(
            FROM.model_copy(update={"nonce": "spring"}),
            "It also asks for a restore of s3://state/spring, which was carried out there before and is not repeated.",
            id="a restore that was carried out",
        ),
    ],
)
def test_who_is_to_say_take_over_is_told_what_else_the_spec_asks_for(
    folder: Path, restore: RestoreConfig, told: str
) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        claim.claim(config_of(folder, restore), NOW)

    assert (raised.value.reason, raised.value.message[-len(told) :]) == ("StateOwnedByAnother", told)


def test_who_is_to_say_take_over_is_told_that_it_is_unknown_what_was_carried_out(folder: Path) -> None:
    claim.open_root(config_of(folder, FROM)).store.write(layout.generation_record(1), b"{")

    with pytest.raises(errors.SpecRejectedError, match="cannot be read: the start is refused"):
        claim.claim(config_of(folder, FROM), NOW)


def test_with_the_word_the_state_is_claimed(folder: Path) -> None:
    assert claim.claim(config_of(folder, FROM, take_over=True), NOW).epoch == 1
