"""What is said when the connection to Spark's JVM breaks."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from statefulspark import errors, failures
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.engine import jvm

_NO_ANSWER = Py4JError("io.statefulspark.checkpoint.QueryGate.snapshot does not exist in the JVM")


def test_a_jvm_that_was_killed_is_told_as_that_and_not_as_a_bug() -> None:
    with pytest.raises(errors.InternalError) as caught, jvm.explaining_its_end(lambda within_s: True):
        raise _NO_ANSWER

    failure = failures.classify_error(caught.value)
    assert (failure.code, failure.reason) == (ExitCode.FAILED, "JvmEnded")
    assert failure.message.startswith("Spark's JVM has ended while the job ran: it was killed")
    assert "report it" not in failure.message


@pytest.mark.parametrize("error", [_NO_ANSWER, ConnectionRefusedError("111")])
def test_an_error_of_a_jvm_that_runs_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, jvm.explaining_its_end(lambda within_s: False):
        raise error

    assert caught.value is error
