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
    "take_over_left_in_two_manifests": "a sink that is taken over is not sent what the state had prepared for it",
    "back_to_what_a_restore_left": "batches that a restore has withdrawn count as lost by the sink",
    "sink_loses_its_marker": "a sink that had committed nothing when the last snapshot was taken is taken for a new one",
}
"""What breaks, and why; an entry whose cause is mended fails until it is removed."""


def expected(accident: str) -> ParameterSet:
    """Return an accident as the parameter of a test, which has to fail as long as it is in the table."""
    reason = NOT_MENDED_YET.get(accident)
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(accident, marks=marks)
