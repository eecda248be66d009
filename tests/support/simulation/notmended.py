"""What the simulation has found and the product has not mended: expected to break, and to be taken out once it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

ROLLBACK = "automatic rollback"
OLDER_RESOURCE = "resource of an older backup"
NOT_MENDED_YET: Mapping[str, str] = {
    "store_put_back": "a sink that is ahead of the state in its own generation drops the batches that come again",
    "store_failover_to_replica": "a sink that is ahead of the state in its own generation drops the batches that come again",
    "root_synced_over_itself": "a start does not compare what was committed with what the sink has",
    "sink_failover": "a driver does not compare what it has committed with what the sink has",
    "sink_restored_to_backup": "a start does not compare what was committed with what the sink has",
    "savepoint_and_sink_restored_to_same_moment": "a savepoint does not have the staged rows that it names",
    "second_site_awakes": "two drivers of equal epochs take each other for themselves",
    "take_over_left_in_two_manifests": "a word to take a sink over counts at every start",
    "manifest_applied_again": "storage remembers the latest restore only",
    "fresh_state_applied_again": "storage remembers the latest restore only",
    "back_to_what_a_restore_left": "what a restore leaves behind is deleted as if it had been retained",
    "sink_loses_its_marker": "a marker that is gone is taken for a new sink",
    "back_and_forward": "a batch of an older generation counts as committed when a newer one has committed any",
    "job_renamed_from_savepoint": "a sink does not know the job by its old name",
    "purge_with_zombie": "the fence is deleted with the state",
    OLDER_RESOURCE: "storage remembers the latest restore only",
}
"""What breaks, and why; an entry whose cause is mended fails until it is removed."""


def expected(accident: str) -> ParameterSet:
    """Return an accident as the parameter of a test, which has to fail as long as it is in the table."""
    reason = NOT_MENDED_YET.get(accident)
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(accident, marks=marks)
