"""What the simulation has found and the product has not mended: expected to break, and to be taken out once it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

ROLLBACK = "automatic rollback"
OLDER_RESOURCE = "resource of an older backup"
MIXTURE = "accidents that follow each other"
LOST_STOP = "stop whose answer is lost"
NOT_MENDED_YET: Mapping[str, str] = {
}
"""What breaks, and why; an entry whose cause is mended fails until it is removed."""


def expected(accident: str) -> ParameterSet:
    """Return an accident as the parameter of a test, which has to fail as long as it is in the table."""
    reason = NOT_MENDED_YET.get(accident)
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(accident, marks=marks)
