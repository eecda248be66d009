"""What a function declares is learnt on the driver, from a copy, once; what only workers can open is no reason to fail."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import statefulspark as ss
from statefulspark import errors
from statefulspark.operators.keyed import registry
from statefulspark.state import functions, ttl


class Opens(ss.KeyedProcessFunction):
    """Does what it is given, and counts how often it is opened."""

    opened: int = 0

    def __init__(self, then: Callable[[ss.KeyedContext], object]) -> None:
        self._then = then

    def open(self, ctx: ss.KeyedContext) -> None:
        type(self).opened += 1
        self._then(ctx)


def declared_by(then: Callable[[ss.KeyedContext], object]) -> Callable[[], functions.Declared | None]:
    Opens.opened = 0
    return registry.declared_by(
        Opens(then), "sums", method="Opens.open", domains=frozenset(), ttl_change=ttl.TtlChange.REFUSE
    )


def test_the_function_is_opened_once_and_only_when_somebody_asks() -> None:
    asked = declared_by(lambda ctx: ctx.value_state("n", int))
    assert Opens.opened == 0

    first, second = asked(), asked()

    assert first is second is not None
    assert [(one.meta.name, one.meta.type_text) for one in first.states] == [("n", "int")]
    assert Opens.opened == 1


def test_a_function_can_tell_that_it_only_declares() -> None:
    seen: list[bool] = []
    declared_by(lambda ctx: seen.append(ctx.declares_only))()
    assert seen == [True]


def test_what_only_workers_have_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def loads(ctx: ss.KeyedContext) -> None:
        raise FileNotFoundError("/models/scores")

    with caplog.at_level(logging.WARNING):
        assert declared_by(loads)() is None

    (record,) = caplog.records
    assert "could not be opened on the driver" in record.getMessage()
    assert record.__dict__["error"] == "FileNotFoundError: /models/scores"


def test_what_no_worker_would_accept_is_refused_with_the_operator() -> None:
    def twice(ctx: ss.KeyedContext) -> None:
        ctx.value_state("n", int)
        ctx.value_state("n", int)

    with pytest.raises(
        errors.SpecRejectedError, match=r"Opens.open\(\) of keyed operator 'sums' failed.*'n'"
    ) as refused:
        declared_by(twice)()

    assert refused.value.reason == "StateNameTaken"
