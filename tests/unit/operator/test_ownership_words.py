"""What a refused resource changes to get its state again: the words of manifests, as the operator renders them."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobspecs import a_spec
from snapshots import Clock
from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract.config import JobConfig, OwnershipMode, StorageConfig
from statefulspark.driver.starting import claim
from statefulspark_operator.api import revision
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import config
from statefulspark_operator.render.base import Subject

SPRING = {"source": {"uri": "s3://state/spring"}}
"""A restore that was carried out long ago, and stays in the manifest. The operator does not ask for it again."""


def started(folder: Path, uid: str, restore: dict[str, object]) -> str:
    """Claim the state as the driver of a resource does, and return the owner on storage."""
    subject = Subject(Job("demo", "flights", uid, 1), a_spec(restore=restore))
    storage = StorageConfig(uri=folder.as_uri(), allow_local_files=True, ownership=OwnershipMode.TAKE_OVER)
    words = config.restore_config(subject, None)
    job = JobConfig(namespace="demo", name="flights", owner_id=uid, storage=storage, restore=words)
    return epochs.read_owner(claim.claim(job, Clock().now).store).owner_id


def asks_for(restore: dict[str, object]) -> str | None:
    """Return the restore that the operator asks for, unless it was carried out."""
    return revision.restore_id(a_spec(restore=restore))


def test_a_resource_gets_its_state_again_as_the_refusal_says_and_goes_on_from_the_newest(tmp_path: Path) -> None:
    started(tmp_path, "one", SPRING)
    started(tmp_path, "other", SPRING)
    with pytest.raises(errors.SpecRejectedError, match=r"Change restore\.nonce.* remove it first") as refused:
        started(tmp_path, "one", SPRING)

    again = {"nonce": "2"}
    assert refused.value.reason == "StateOwnedByAnother"
    assert (started(tmp_path, "one", again), asks_for(again)) == ("one", None)
    with pytest.raises(errors.SpecRejectedError, match="counts once"):
        started(tmp_path, "other", SPRING)


def test_another_nonce_beside_an_old_restore_is_why_the_refusal_has_it_removed_first() -> None:
    assert asks_for({**SPRING, "nonce": "2"}) not in (None, asks_for(SPRING))
