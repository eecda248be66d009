"""S3 answers a deletion of several objects with 200, and refuses some of them within the answer."""

from __future__ import annotations

import pytest
from listingserver import ListingServer
from statefulspark import errors


def refused(code: str, key: str = "b") -> list[dict[str, str]]:
    return [{"Key": key, "Code": code, "Message": "We encountered an internal error. Please try again."}]


class RefusingServer(ListingServer):
    """A server that refuses some objects, in one answer after the other."""

    def __init__(self, *answers: list[dict[str, str]]) -> None:
        super().__init__(["a", "b"])
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    async def _call_s3(self, method: str, **parameters: object) -> dict[str, object]:
        assert method == "delete_objects"
        request = parameters["Delete"]
        assert isinstance(request, dict)
        self.asked.append([each["Key"] for each in request["Objects"]])
        return {"Errors": self.answers.pop(0)} if self.answers else {}


@pytest.mark.parametrize("code", ["InternalError", "SlowDown", "ServiceUnavailable"])
def test_what_passes_is_tried_again(code: str) -> None:
    """A prune or a disposal ended as if storage had failed for good, for one object that S3 wanted to be asked for again."""
    server = RefusingServer(refused(code))

    server.store().delete_many(["a", "b"])

    assert server.asked == [["a", "b"]] * 2


def test_an_object_that_is_gone_is_deleted() -> None:
    server = RefusingServer(refused("NoSuchKey"))

    server.store().delete_many(["a", "b"])

    assert server.asked == [["a", "b"]]


@pytest.mark.parametrize(("code", "reason"), [("AccessDenied", "AccessDenied"), ("MethodNotAllowed", "StorageFailed")])
def test_what_stays_refused_names_the_object(code: str, reason: str) -> None:
    with pytest.raises(errors.StateUnknownError, match=f"{code}: b: We encountered") as caught:
        RefusingServer(refused(code)).store().delete_many(["a", "b"])

    assert caught.value.reason == reason
