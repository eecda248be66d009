"""Every status that the API server, or something before it, may answer with is judged; a new one of HTTP fails here."""

from __future__ import annotations

import http
import json

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
        (403, errors.StateUnknownError, "ApiServerRefused", "may admit"),
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


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            'pods "a" is forbidden: User "system:serviceaccount:ops:operator" cannot create resource "pods" in API group "" '
            'in the namespace "shop"',
            "RightMissing",
        ),
        (
            'pods "a" is forbidden: exceeded quota: tight, requested: requests.memory=1200Mi, used: requests.memory=1Gi, '
            "limited: requests.memory=2Gi",
            "QuotaExceeded",
        ),
        (
            'pods "a" is forbidden: exceeded quota: tight, requested: limits.cpu=500m,requests.memory=3Gi, '
            "used: limits.cpu=0,requests.memory=0, limited: limits.cpu=2,requests.memory=2Gi",
            "QuotaTooSmall",
        ),
        (
            'pods "a" is forbidden: exceeded quota: tight, requested: pods=1, used: pods=1, limited: pods=1',
            "QuotaExceeded",
        ),
        ('pods "a" is forbidden: failed quota: tight: must specify limits.cpu for: driver', "QuotaDemandsLimits"),
        ('pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi', "LimitRangeExceeded"),
        (
            'pods "a" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)',
            "PodSecurityViolated",
        ),
        ('admission webhook "images.corp" denied the request: unsigned', "AdmissionDenied"),
        (
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: unsigned",
            "AdmissionDenied",
        ),
        (
            'pods "a" is forbidden: unable to create new content in namespace shop because it is being terminated',
            "NamespaceTerminating",
        ),
        ("no", "ApiServerRefused"),
    ],
)
def test_a_refusal_says_who_refuses_and_keeps_the_words_of_the_api_server(said: str, reason: str) -> None:
    error = kubernetes_gateway._error(403, "POST /api/v1/namespaces/shop/pods", json.dumps({"message": said}).encode())

    assert (type(error), error.reason) == (errors.StateUnknownError, reason)
    assert said in error.message


@pytest.mark.parametrize("status", [400, 403, 422])
@pytest.mark.parametrize(
    "said",
    [
        'admission webhook "images.corp" denied the request: unsigned',
        "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: unsigned",
    ],
)
def test_admission_denies_with_a_status_of_its_own(status: int, said: str) -> None:
    error = kubernetes_gateway._error(
        status, "POST /api/v1/namespaces/shop/pods", json.dumps({"message": said}).encode()
    )

    assert (type(error), error.reason) == (errors.StateUnknownError, "AdmissionDenied")


def test_the_words_of_other_refusals_count_with_403_alone() -> None:
    error = kubernetes_gateway._error(422, "PATCH /api/v1/pods/a", b'{"message": "spec.x: cannot be changed"}')

    assert error.reason == "ManifestRejected"
