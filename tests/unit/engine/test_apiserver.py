"""A slow API server delays the start of a driver with executors, which ended with `An error occurred while calling None`."""

from __future__ import annotations

import itertools

import pytest
from py4j.protocol import Py4JError
from statefulspark import errors
from statefulspark.engine import apiserver

CALL = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
STACK = (
    f"{CALL}: org.apache.spark.SparkException: External scheduler cannot be instantiated\n"
    "\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3204)\n"
    "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get]  for kind: [Pod] failed.\n"
    "\tat io.fabric8.kubernetes.client.dsl.internal.OperationSupport.waitForResult(OperationSupport.java:504)\n"
)
SLOW = (
    STACK + "Caused by: java.util.concurrent.TimeoutException\n\tat java.base/java.util.concurrent.CompletableFuture\n"
)
AWAY = STACK + "Caused by: java.net.ConnectException: Connection refused: kubernetes.default.svc/10.0.0.1:443\n"
BUSY = (
    f"{CALL}Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Received status code: 429, too many.\n"
)
FORBIDDEN = f"{CALL}Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Forbidden! code: 403.\n"
OTHER = f"{CALL}: java.lang.IllegalArgumentException: the port timed out in some other way\n"


@pytest.mark.parametrize(
    ("failure", "trouble"),
    [
        (SLOW, "TimeoutException"),
        (AWAY, "ConnectException: Connection refused: kubernetes.default.svc/10.0.0.1:443"),
        (BUSY, "KubernetesClientException: Received status code: 429, too many."),
        (FORBIDDEN, None),
        (OTHER, None),
        (CALL, None),
    ],
    ids=["slow", "away", "busy", "a right is missing", "not the API server", "nothing is known"],
)
def test_what_may_pass_is_told_apart_by_its_innermost_cause(failure: str, trouble: str | None) -> None:
    assert apiserver.passing_trouble(failure) == trouble


def test_a_driver_survives_an_api_server_that_answers_late() -> None:
    failures, waits = iter([SLOW, AWAY]), list[float]()

    def start() -> str:
        for failure in failures:
            raise Py4JError(failure)
        return "up"

    assert apiserver.patiently(start, wait=waits.append) == "up"
    assert waits == [apiserver.WAIT_S] * 2


def test_an_api_server_that_stays_away_ends_the_start_with_a_sentence() -> None:
    tried = itertools.count(1)

    def start() -> str:
        next(tried)
        raise Py4JError(SLOW)

    with pytest.raises(errors.TransientError, match=r"5 times in a row\. The last failure: TimeoutException"):
        apiserver.patiently(start, wait=lambda _: None)
    assert next(tried) == apiserver.ATTEMPTS + 1


def test_what_waiting_cannot_mend_is_raised_at_once() -> None:
    with pytest.raises(Py4JError, match="Forbidden"):
        apiserver.patiently(lambda: (_ for _ in ()).throw(Py4JError(FORBIDDEN)), wait=lambda _: pytest.fail("waited"))
