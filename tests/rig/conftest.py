"""The worlds of the fault rig."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from faultrig.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A world whose order of things is always the same; it is entered."""
    with World(seed=0).entered() as entered:
        yield entered


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what hundreds of drivers log out of the report of a failure, which tells its own story."""
    caplog.set_level(logging.CRITICAL)
