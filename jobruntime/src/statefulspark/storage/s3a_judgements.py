"""What each exception of S3A, and of Amazon's client below it, means for a query. Pure.

S3A runs in Spark's JVM. The driver sees its exceptions as the text of Java's chain of causes, the outermost first. The
code of an answer counts before its status, and the status before the class, but not where S3A's class says more: an answer
without a body has no code, and S3A asks on to tell a missing bucket from a missing object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from statefulspark.judgement import Judgement, Remedy, table
from statefulspark.storage import judgements

_TLS = Judgement(
    Remedy.WAIT,
    "waits until TLS is agreed on; if it stays so, check the server's certificate, that the image trusts its authority, and "
    "the endpoint",
)
_BAD_REQUEST = Judgement(
    Remedy.CREDENTIALS,
    "an answer without a body does not say why: check that the session token has not expired, and then region and endpoint",
)
_IDENTITY = Judgement(
    Remedy.CREDENTIALS, "check the access key, or the role of the pod's service account and who may assume it"
)
_CUT_SHORT = Judgement(Remedy.LOST_RACE, "the object is shorter than it was when it was listed")
_DELETING = Judgement(Remedy.WAIT, "some objects could not be deleted; check the credentials' right to delete")
_INTERRUPTED = Judgement(Remedy.WAIT, "the request was interrupted, as when the query ends")
_SETTINGS = Judgement(Remedy.PERSON, "correct the settings spark.hadoop.fs.s3a. of the job")

_PARTICULAR = table(
    (judgements.BUSY, "AWSServiceThrottledException"),
    (
        judgements.REACH,
        """AWSApiCallTimeoutException AWSNoResponseException AWSStatus500Exception HttpChannelEOFException
        ApiCallTimeoutException ApiCallAttemptTimeoutException Crc32MismatchException UnknownHostException
        NoRouteToHostException ConnectException SocketException SocketTimeoutException ConnectTimeoutException BindException
        EOFException IdpCommunicationErrorException""",
    ),
    (_TLS, "SSLException SSLHandshakeException SSLKeyException SSLPeerUnverifiedException SSLProtocolException"),
    (_DELETING, "MultiObjectDeleteException"),
    (_INTERRUPTED, "AbortedException SdkInterruptedException InterruptedException InterruptedIOException"),
    (judgements.RACE, "RemoteFileChangedException"),
    (judgements.GONE, "FileNotFoundException NoSuchKeyException NoSuchUploadException"),
    (_CUT_SHORT, "RangeNotSatisfiableEOFException"),
    (_BAD_REQUEST, "AWSBadRequestException"),
    (
        judgements.NO_KEYS,
        "NoAuthWithAWSException NoAwsCredentialsException CredentialInitializationException DelegationTokenIOException",
    ),
    (
        _IDENTITY,
        """ExpiredTokenException IdpRejectedClaimException InvalidIdentityTokenException StsException
        InvalidAuthorizationMessageException MalformedPolicyDocumentException PackedPolicyTooLargeException
        RegionDisabledException""",
    ),
    (judgements.BUCKET, "UnknownStoreException NoSuchBucketException"),
    (
        judgements.ARCHIVED,
        "InvalidObjectStateException ObjectNotInActiveTierErrorException ObjectAlreadyInActiveTierErrorException",
    ),
    (judgements.PLACE, "AWSRedirectException"),
    (
        judgements.SERVER,
        """AWSUnsupportedFeatureException UnsupportedRequestException NoVersionAttributeException InvalidRequestException
        InvalidWriteOffsetException TooManyPartsException EncryptionTypeMismatchException
        IdempotencyParameterMismatchException""",
    ),
    (_SETTINGS, "InstantiationIOException"),
    (
        judgements.CLIENT,
        """RenameFailedException PathCommitException AuditOperationRejectedException AuditFailureException
        BucketAlreadyExistsException BucketAlreadyOwnedByYouException""",
    ),
)
_GENERAL = table(
    (judgements.KEYS, "AccessDeniedException"),
    (
        judgements.REACH,
        """AWSClientIOException AWSServiceIOException AWSS3IOException S3Exception AwsServiceException SdkServiceException
        SdkClientException SdkException RetryableException NonRetryableException""",
    ),
)
"""Classes around others: what they are around says more, if there is anything."""
CLASSES = {**_PARTICULAR, **_GENERAL}
"""The judgement of each class, by its name without its package."""

_PACKAGES = ("org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.")
_SCHEME = re.compile(r"\bs3a://")
_OPENED = re.compile(r"(?:Caused by: |: )?(?P<kind>(?:[a-z]\w*\.)+[A-Z]\w*): (?P<said>.*)")
"""A line that begins a stack of Java, or a cause in it."""
_ANSWER = re.compile(
    r"\(Service: \w+, Status Code: (?P<status>\d+)[^()]*\)(?: \(SDK Attempt Count: \d+\))?"
    r"(?::(?!null\b)(?P<code>[A-Za-z]+))?"
)
_BY_CLASS = frozenset({"400", "404", "416"})
"""Statuses of answers without a code of which S3A's class says more, if it is a particular one."""


@dataclass(frozen=True, slots=True)
class S3aFailure:
    """A failure of S3A.

    Attributes:
        said: S3A's sentence, with the object.
        judgement: What it means.
    """

    said: str
    judgement: Judgement


def find(text: str) -> S3aFailure | None:
    """Return the failure of S3A in the text of an exception of Spark; None if something else failed.

    An exception that only names S3A in its message does not count: a function of the job may say whatever it likes. Python
    on executors does not use S3A, so the last word of a Python stack counts only if it is about a call of Java.
    """
    if "Traceback (most recent call last)" in text and "py4j.protocol.Py4JJavaError" not in text:
        return None
    lines = [match for line in text.splitlines() if (match := _OPENED.match(line.strip()))]
    first = next((number for number, line in enumerate(lines) if _is_of_s3a(line)), None)
    if first is None:
        return None
    chain = lines[first:]
    names = [line["kind"].rpartition(".")[2] for line in chain]
    said = f"{names[0]}: {chain[0]['said']}"
    return S3aFailure(said, _judge("\n".join(line["said"] for line in chain), names))


def _is_of_s3a(line: re.Match[str]) -> bool:
    """Tell whether S3A or Amazon's client raised an exception, or one of Java's own about an object."""
    if line["kind"].startswith(_PACKAGES):
        return True
    return line["kind"].rpartition(".")[2] in CLASSES and _SCHEME.search(line["said"]) is not None


def _judge(said: str, names: Sequence[str]) -> Judgement:
    answers = list(_ANSWER.finditer(said))
    codes = [answer["code"] for answer in answers if answer["code"] in judgements.CODES]
    if codes:
        return judgements.CODES[codes[0]]
    status = answers[0]["status"] if answers else ""
    particular = next((_PARTICULAR[name] for name in names if name in _PARTICULAR), None)
    if status in judgements.STATUSES and (particular is None or status not in _BY_CLASS):
        return judgements.STATUSES[status]
    general = next((_GENERAL[name] for name in names if name in _GENERAL), judgements.CLIENT)
    return particular or general
