"""Errors that a job may see: they are also Python's own kinds, name a reason, and end a driver as they did."""

from __future__ import annotations

import pytest
import statefulspark as ss
from statefulspark import errors, failures
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.state.timers import milliseconds


def test_a_wrong_argument_is_a_value_error_with_a_reason() -> None:
    with pytest.raises(ValueError, match="TTL is expected to be positive") as refused:
        ss.Ttl("0h")

    assert isinstance(refused.value, errors.InvalidArgumentError)
    assert refused.value.reason == "TtlNotPositive"


def test_an_argument_of_a_wrong_type_is_a_type_error_with_a_reason() -> None:
    with pytest.raises(TypeError) as refused:
        milliseconds("tomorrow")  # type: ignore[arg-type]

    assert isinstance(refused.value, errors.InvalidTypeError)
    assert refused.value.reason == "TimerMomentInvalid"


def test_a_missing_parameter_is_a_key_error_that_is_read_as_a_sentence() -> None:
    with pytest.raises(KeyError) as refused:
        ss.QueryContext("words", "default", {}).parameter("topic")

    assert str(refused.value).startswith(
        "ParameterMissing: The job words needs the parameter 'topic'; given are: none."
    )
    assert failures.classify_error(refused.value).code is ExitCode.BAD_JOB  # type: ignore[arg-type]


def test_an_error_of_the_jobs_code_has_its_exception_as_cause() -> None:
    raised = ZeroDivisionError("division by zero")

    assert errors.UserCodeError("FunctionFailed", "x", raised=raised).__cause__ is raised


def test_what_only_the_engine_raises_is_not_listed() -> None:
    listed = {getattr(errors, name) for name in errors.__all__}

    assert all(issubclass(kind, errors.StatefulSparkError) for kind in listed)
    assert listed.isdisjoint({errors.ObjectChangedError, errors.ObjectNotFoundError, errors.ObjectExistsError})
    assert errors.InternalError not in listed
