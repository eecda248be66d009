"""Translates S3 failures for the caller: absent, already exists, transient, or unknown, each with one sentence.

s3fs wraps some of botocore's errors and passes others on; the original answer of the server is in the error or in its
cause. An error that does not report on the object is never translated to absence.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import aiohttp
import aiohttp.http_exceptions
import botocore.exceptions
import botocore.parsers

from statefulspark import errors
from statefulspark.judgement import Judgement, Remedy
from statefulspark.storage import judgements

_CONDITION_FAILED = frozenset(["PreconditionFailed", "412"])
_RANGE_NOT_SATISFIABLE = 416
_URL_OF_REQUEST = re.compile(r'(?: (?:to|on|from))?(?: the)? endpoint URL: "[^"]*"')
"""The end of botocore's sentences; our message already contains the location that this URL repeats."""
_CODE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_MESSAGE = 300
"""What a server says of its own failure may be this long."""
_REPEATING = (
    botocore.parsers.ResponseParserError,
    ValueError,
    aiohttp.ClientResponseError,
    aiohttp.http_exceptions.HttpProcessingError,
)
"""Exceptions whose text has parts of the answer. Whoever chose the server does not get to read with it what it answers."""
FAILURES: tuple[type[Exception], ...] = (
    OSError,
    botocore.exceptions.BotoCoreError,
    botocore.exceptions.ClientError,
    botocore.parsers.ResponseParserError,
    ValueError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
)
"""All exceptions that a request through s3fs is known to raise for a cause outside this process.

botocore's parser raises ValueError for a number or a time in an answer that is none.
"""


_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's codes (`X509_V_ERR_…`) of a chain that ends at no trusted authority."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The action and object of a failed request.

    Attributes:
        action: Verb for people, for example "read".
        bucket: The bucket.
        key: The full key in the bucket, or "" for a listing of the root.
        endpoint: The server's URL, or "AWS S3".
        is_head: Whether it is a HEAD, whose answers have no body.
        authority: Where the authorities come from that the client trusts beside its own; None if there are none.
    """

    action: str
    bucket: str
    key: str
    endpoint: str
    is_head: bool = False
    authority: str | None = None

    @property
    def uri(self) -> str:
        """The object as s3://bucket/key."""
        return f"s3://{self.bucket}/{self.key}"


def require_none_failed(failures: Iterable[Mapping[str, object]]) -> None:
    """Raise the first failure within an answer about several objects, as that of a request about one is raised.

    An object that is not there counts as deleted.
    """
    for failure in failures:
        code, why = str(failure.get("Code") or ""), f"{failure.get('Key')}: {failure.get('Message')}"
        if code != "NoSuchKey":
            raise botocore.exceptions.ClientError({"Error": {"Code": code, "Message": why}}, "DeleteObjects")


def code_of(error: BaseException) -> str:
    """Return the server's error code, or the HTTP status if it sent no code, or ""."""
    answer = _answer_of(error)
    code = str(answer.get("Error", {}).get("Code") or "")
    return code if _CODE.fullmatch(code) else str(_status(answer) or "")


def status_of(error: BaseException) -> int:
    """Return the HTTP status of the server's answer, or 0 if there was none."""
    return _status(_answer_of(error))


def is_absent(error: BaseException, target: RequestTarget) -> bool:
    """Tell whether the server reports that the object (not the bucket) does not exist.

    S3 says `NoSuchKey` in the body of its answer. The answer to a HEAD has no body, so its 404 does not say whether the
    object, the bucket or the whole store is missing; the caller must check (`is_from_s3`).
    """
    return code_of(error) == "NoSuchKey" or (target.is_head and status_of(error) == 404)


def is_from_s3(error: BaseException) -> bool:
    """Tell whether the answer bears the id that S3 gives to each request; that of a proxy before it has none."""
    return bool(_answer_of(error).get("ResponseMetadata", {}).get("RequestId"))


def is_condition_failed(error: BaseException) -> bool:
    """Tell whether a conditional write failed because the object exists or has changed."""
    return code_of(error) in _CONDITION_FAILED or isinstance(error, FileExistsError)


def is_beyond_end(error: BaseException) -> bool:
    """Tell whether the object has no byte of the range that was asked for."""
    return status_of(error) == _RANGE_NOT_SATISFIABLE or code_of(error) == "InvalidRange"


def is_transient(error: BaseException, target: RequestTarget) -> bool:
    """Tell whether the same request may succeed if it is repeated."""
    return _judge(error).remedy is Remedy.WAIT and not is_absent(error, target)


def is_throttled(error: BaseException) -> bool:
    """Tell whether the server has refused a request because it is too busy; such a request has not happened."""
    return _judge(error) is judgements.BUSY


def _judge(error: BaseException) -> Judgement:
    answer, root = _answer_of(error), _root(error)
    names = [kind.__name__ for kind in type(root).__mro__]
    return judgements.judge(str(answer.get("Error", {}).get("Code") or ""), _status(answer), names)


def translate(error: BaseException, target: RequestTarget) -> errors.StatefulSparkError:
    """Return the library's error for a failed request.

    Args:
        error: The exception that s3fs raised.
        target: The action and object of the request.
    """
    code = code_of(error)
    if code == "NoSuchBucket":
        return no_such_bucket(target)
    if is_absent(error, target):
        return errors.ObjectNotFoundError(target.uri)
    if is_condition_failed(error):
        return errors.ObjectExistsError(target.uri)
    judgement = _judge(error)
    if judgement.remedy is Remedy.WAIT:
        return unreachable(error, target)
    if judgement.remedy is Remedy.CREDENTIALS and code:
        return errors.StateUnknownError(
            "AccessDenied",
            f"{target.endpoint} refused to {target.action} {target.uri} ({code}: {_message(error)}); {judgement.advice}.",
        )
    if judgement.remedy is Remedy.CREDENTIALS:
        return errors.StateUnknownError(
            "CredentialsMissing",
            f"There are no credentials to {target.action} {target.uri} at {target.endpoint} ({_message(error)}); "
            f"{judgement.advice}.",
        )
    return errors.StateUnknownError(
        "StorageFailed",
        f"{target.endpoint} could not {target.action} {target.uri} ({code or type(error).__name__}: "
        f"{_message(error)}); {judgement.advice}.",
    )


def no_such_bucket(target: RequestTarget) -> errors.StateUnknownError:
    """Return the error for a missing bucket."""
    return errors.StateUnknownError(
        "NoSuchBucket",
        f"The bucket {target.bucket} does not exist at {target.endpoint}; create it or correct the storage uri.",
    )


def unreachable(error: BaseException, target: RequestTarget) -> errors.TransientError:
    """Return the error for a server that gave no usable answer."""
    if certificate := _certificate_error(error):
        return _untrusted(certificate, target)
    cause = f"{code_of(error)}: {_message(error)}" if code_of(error) else _message(error)
    return errors.TransientError(
        "StorageUnreachable",
        f"Could not {target.action} {target.uri} at {target.endpoint}: {cause}; {_judge(error).advice}; the bucket is "
        f"{target.bucket}.",
    )


def _certificate_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return why the client did not trust the server's certificate; None if it failed otherwise."""
    root = _root(error)
    cause = root.kwargs.get("error") if isinstance(root, botocore.exceptions.BotoCoreError) else root
    cause = getattr(cause, "certificate_error", cause)
    return cause if isinstance(cause, ssl.SSLCertVerificationError) else None


def _untrusted(certificate: ssl.SSLCertVerificationError, target: RequestTarget) -> errors.TransientError:
    why = f"Could not {target.action} {target.uri} at {target.endpoint}: "
    if certificate.verify_code not in _UNKNOWN_ISSUER:
        why += (
            f"its certificate is not valid ({certificate.verify_message}); renew or correct the server's certificate."
        )
    elif target.authority is None:
        why += (
            f"no trusted authority issued its certificate ({certificate.verify_message}); name the authority with "
            "storage.s3.caSecretRef (on the command line --storage-ca)."
        )
    else:
        why += (
            f"its certificate was not issued by the authority in {target.authority}, and by no other that is trusted "
            f"({certificate.verify_message}); put the authority there that issued it, in PEM."
        )
    return errors.TransientError("StorageUnreachable", why)


def lost_on_the_way(target: RequestTarget) -> errors.TransientError:
    """Return the error for an object that is listed, and whose 404 did not come from the server."""
    return errors.TransientError(
        "StorageUnreachable",
        f"{target.endpoint} lists {target.uri}, but something between the client and the server answers 404 for it; check "
        "the proxy or ingress before the server.",
    )


def incomplete(target: RequestTarget, missing: str) -> errors.StateUnknownError:
    """Return the error for an answer without a field that S3 always sends."""
    return errors.StateUnknownError(
        "StorageFailed",
        f"{target.endpoint} was asked to {target.action} {target.uri}, and its answer has no {missing}; check that the "
        "endpoint is an S3 server.",
    )


def _root(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, OSError) and error.__cause__ is not None else error


def _answer_of(error: BaseException) -> dict[str, dict[str, object]]:
    for candidate in (error, error.__cause__):
        answer = getattr(candidate, "response", None)
        if isinstance(answer, dict):
            return answer
    return {}


def _status(answer: dict[str, dict[str, object]]) -> int:
    return int(str(answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0))


def _message(error: BaseException) -> str:
    """Return what S3 says of its failure, or what the client does, without a part of an answer that is not S3's."""
    root = _root(error)
    # botocore names in an error of its own the error that it got; the text of either may repeat parts of the answer.
    cause = root.kwargs.get("error") if isinstance(root, botocore.exceptions.BotoCoreError) else None
    if isinstance(root, _REPEATING) or isinstance(cause, _REPEATING):
        return "the answer is not one of S3"
    text = str(_answer_of(error).get("Error", {}).get("Message") or str(error) or type(error).__name__)
    return _URL_OF_REQUEST.sub("", " ".join(text.split()))[:_LONGEST_MESSAGE].rstrip(".")
