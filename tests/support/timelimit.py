"""A test that hangs fails after some minutes, with what each thread does, and what it has started is ended as always."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Generator

import pytest

LIMIT_S = 900
"""Of each setup, test and teardown. The longest test takes a minute, and twenty times as long under `make coverage`."""


def _fail(_number: int, _frame: object) -> None:
    faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
    pytest.fail(f"still runs after {LIMIT_S} s; standard error has what each thread does")


@pytest.hookimpl(wrapper=True)
def _limit(item: pytest.Item) -> Generator[None]:
    before = signal.signal(signal.SIGALRM, _fail)
    signal.alarm(LIMIT_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _limit
