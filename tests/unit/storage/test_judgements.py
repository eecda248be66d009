"""Every code of S3, every status of HTTP and every class of botocore is judged; a new one fails here."""

from __future__ import annotations

import http

import aiohttp
import botocore.exceptions
import botocore.parsers
import botocore.session
import fsspec.exceptions
import pytest
import s3fs.errors
from statefulspark import errors
from statefulspark.storage import fsspec_errors, judgements

TARGET = fsspec_errors.RequestTarget("read", "bucket", "a", "http://s3")
_OF_OTHER_SERVERS = {
    *("ConditionalRequestConflict", "NotFound", "RequestLimitExceeded", "ServiceUnavailable", "Throttling"),
    *("ThrottlingException", "TooManyRequests", "XAdminUserNotFound"),
}
_OF_PYTHON = {"OSError", "ConnectionError", "TimeoutError", "FSTimeoutError", "ResponseParserError"}
_OF_AIOHTTP = {"ClientConnectionError", "ClientPayloadError", "ClientResponseError", "InvalidURL"}
_OF_PROXIES = 509


def test_each_code_is_judged_and_no_other() -> None:
    listed = {code for code in s3fs.errors.ERROR_CODE_TO_EXCEPTION if not code.isdigit()}
    modelled = {shape.name for shape in botocore.session.get_session().get_service_model("s3").error_shapes}
    assert judgements.CODES.keys() == listed | modelled | _OF_OTHER_SERVERS


def test_each_status_is_judged_and_no_other() -> None:
    known = {str(status.value) for status in http.HTTPStatus if status >= http.HTTPStatus.MULTIPLE_CHOICES}
    assert judgements.STATUSES.keys() == known | {str(_OF_PROXIES)}


def test_each_class_is_judged_and_no_other() -> None:
    found = vars(botocore.exceptions).items()
    known = {name for name, kind in found if isinstance(kind, type) and issubclass(kind, Exception)}
    assert judgements.CLASSES.keys() == known | _OF_PYTHON | _OF_AIOHTTP


def test_each_error_of_aiohttp_is_waited_for() -> None:
    kinds = [
        kind for kind in vars(aiohttp).values() if isinstance(kind, type) and issubclass(kind, aiohttp.ClientError)
    ]
    kinds.remove(aiohttp.ClientError)
    unjudged = [kind for kind in kinds if not {base.__name__ for base in kind.__mro__} & judgements.CLASSES.keys()]
    assert unjudged == []


def answered(status: int, code: str = "") -> botocore.exceptions.ClientError:
    answer = {"Error": {"Code": code or str(status), "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(answer, "GetObject")


@pytest.mark.parametrize(
    ("raised", "kind", "reason", "told"),
    [
        (answered(408), errors.TransientError, "StorageUnreachable", "check that the server runs"),
        (answered(429), errors.TransientError, "StorageUnreachable", "too many"),
        (answered(404), errors.TransientError, "StorageUnreachable", "the proxy or ingress"),
        (answered(502), errors.TransientError, "StorageUnreachable", "check that the server runs"),
        (answered(400, "RequestTimeout"), errors.TransientError, "StorageUnreachable", "too many"),
        (answered(400, "ExpiredToken"), errors.StateUnknownError, "AccessDenied", "check the access key"),
        (answered(401), errors.StateUnknownError, "AccessDenied", "check the access key"),
        (answered(403, "AccessDenied"), errors.StateUnknownError, "AccessDenied", "its rights on the bucket"),
        (answered(403, "InvalidObjectState"), errors.StateUnknownError, "StorageFailed", "from the archive"),
        (answered(403, "RequestTimeTooSkewed"), errors.StateUnknownError, "StorageFailed", "set the clock"),
        (answered(404, "NoSuchBucket"), errors.StateUnknownError, "NoSuchBucket", "create it or correct"),
        (answered(301, "PermanentRedirect"), errors.StateUnknownError, "StorageFailed", "correct region"),
        (botocore.exceptions.NoCredentialsError(), errors.StateUnknownError, "CredentialsMissing", "AWS_ACCESS_KEY_ID"),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), errors.TransientError, "StorageUnreachable", "runs"),
        (botocore.parsers.ResponseParserError("html"), errors.TransientError, "StorageUnreachable", "runs"),
        (fsspec.exceptions.FSTimeoutError(), errors.TransientError, "StorageUnreachable", "runs"),
        (TimeoutError(), errors.TransientError, "StorageUnreachable", "runs"),
        (aiohttp.ServerDisconnectedError(), errors.TransientError, "StorageUnreachable", "runs"),
        (ConnectionResetError(), errors.TransientError, "StorageUnreachable", "runs"),
        (OSError("?"), errors.StateUnknownError, "StorageFailed", "unknown"),
    ],
    ids=repr,
)
def test_a_failure_says_what_is_waited_for_or_what_to_change(
    raised: Exception, kind: type[errors.StatefulSparkError], reason: str, told: str
) -> None:
    error = fsspec_errors.translate(raised, TARGET)
    assert (type(error), error.reason) == (kind, reason)
    assert told in error.message
    assert fsspec_errors.is_transient(raised, TARGET) is (kind is errors.TransientError)
