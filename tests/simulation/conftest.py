"""What every simulated run needs: silence, and a collector of garbage that leaves alone what is there for good."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep what thousands of drivers log from being formatted at all; a failure tells its own story."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> Iterator[None]:
    """Look for garbage among a run's own objects only, which halves what looking costs."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
