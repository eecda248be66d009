"""Options of the fault rig: another seed, or a longer life, without editing a test."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    rig = parser.getgroup("rig", "the fault rig (tests/rig)")
    rig.addoption("--rig-seed", type=int, help="live this one seed instead of those of the suite")
    rig.addoption("--rig-cycles", type=int, default=10, help="cycles of each life (default: 10)")
