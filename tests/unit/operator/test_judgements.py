"""Every status that the API server, or something before it, may answer with is judged; a new one of HTTP fails here."""

from __future__ import annotations

import http

import pytest
from statefulspark import errors
from statefulspark_operator.cluster import judgements, kubernetes_gateway


def test_each_status_is_judged_and_no_other() -> None:
    known = {str(status.value) for status in http.HTTPStatus if status >= http.HTTPStatus.MULTIPLE_CHOICES}
    assert judgements.STATUSES.keys() == known


@pytest.mark.parametrize(
    ("status", "kind", "reason", "told"),
    [
        (429, errors.TransientError, "ApiServerUnavailable", "limits how often"),
        (500, errors.TransientError, "ApiServerUnavailable", "works again"),
        (502, errors.TransientError, "ApiServerUnavailable", "something between"),
        (599, errors.TransientError, "ApiServerUnavailable", "something between"),
        (404, errors.PreconditionFailedError, "NotFound", "does not exist any more"),
        (409, errors.PreconditionFailedError, "Conflict", "somebody else has changed"),
        (401, errors.StateUnknownError, "ApiServerRefused", "service account"),
        (403, errors.StateUnknownError, "ApiServerRefused", "roles"),
        (413, errors.SpecRejectedError, "ManifestRejected", "change the job"),
        (422, errors.SpecRejectedError, "ManifestRejected", "change the job"),
    ],
)
def test_an_answer_says_what_is_waited_for_or_what_to_change(
    status: int, kind: type[errors.StatefulSparkError], reason: str, told: str
) -> None:
    error = kubernetes_gateway._error(status, "PATCH /api/v1/pods/a", b'{"message": "no"}')
    assert (type(error), error.reason) == (kind, reason)
    assert error.message.startswith(f"The API server answers PATCH /api/v1/pods/a with {status} (no); ")
    assert told in error.message
