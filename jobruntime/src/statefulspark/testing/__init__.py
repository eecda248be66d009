"""For tests of jobs: keyed functions without Spark, queries and jobs with it, and a pytest plugin.

A name is imported when it is first used, so that a test of a keyed function does not wait for Spark. Also here: stores in
memory, faulty, crashing on purpose.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statefulspark.testing.failures import JobTestError as JobTestError
    from statefulspark.testing.jobs import JobHarness as JobHarness
    from statefulspark.testing.keyed import KeyedHarness as KeyedHarness
    from statefulspark.testing.lives import KillPoint as KillPoint
    from statefulspark.testing.queries import QueryHarness as QueryHarness

_HOMES = {
    "JobHarness": "jobs",
    "JobTestError": "failures",
    "KeyedHarness": "keyed",
    "KillPoint": "lives",
    "QueryHarness": "queries",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'statefulspark.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"statefulspark.testing.{_HOMES[name]}"), name)
