"""Requests are counted by kind and outcome: each attempt, also one that is repeated."""

from __future__ import annotations

from collections.abc import Callable

import botocore.exceptions
import pytest
from listingserver import ListingServer
from statefulspark import errors
from statefulspark.storage import requests
from statefulspark.storage.requests import Outcome


def refusal(code: str, status: int) -> Exception:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(answer, "ListObjectsV2")


class FailingServer(ListingServer):
    """A server that fails first."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(["a"])
        self.failures = list(failures)

    async def _call_s3(self, method: str, **parameters: object) -> dict[str, object]:
        if self.failures:
            raise self.failures.pop(0)
        return await super()._call_s3(method, **parameters)


def counted(act: Callable[[], object]) -> dict[Outcome, int]:
    before = requests.counts()
    act()
    after = requests.counts()
    return {
        outcome: number
        for outcome in Outcome
        if (number := after.get(("List", outcome), 0) - before.get(("List", outcome), 0))
    }


def test_an_answer() -> None:
    assert counted(lambda: FailingServer().store().list("")) == {Outcome.ANSWERED: 1}


def test_a_server_that_is_busy_and_one_that_does_not_answer() -> None:
    server = FailingServer(refusal("SlowDown", 503), refusal("InternalError", 500))
    before = requests.refused()

    assert counted(lambda: server.store().list("")) == dict.fromkeys(Outcome, 1)
    assert requests.refused() == before + 1


def test_a_refusal_for_good_is_an_answer() -> None:
    def act() -> None:
        with pytest.raises(errors.StateUnknownError):
            FailingServer(refusal("AccessDenied", 403)).store().list("")

    assert counted(act) == {Outcome.ANSWERED: 1}
