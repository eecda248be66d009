"""Every exception of S3A, and of Amazon's client below it, is judged; one that a new jar brings fails here."""

from __future__ import annotations

import re
import zipfile

import pytest
from statefulspark import failures
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.engine import gateway
from statefulspark.judgement import Remedy
from statefulspark.storage import s3a_judgements

pytestmark = pytest.mark.slow  # it reads the jars of `make jars`

_OF_S3A = "org/apache/hadoop/fs/s3a/"
_PACKAGES = {
    "hadoop-aws": re.compile(rf"{_OF_S3A}(?:\w+/)*(\w+Exception)\.class"),
    "sdk-core": re.compile(r"software/amazon/awssdk/core/exception/(\w+Exception)\.class"),
    "aws-core": re.compile(r"software/amazon/awssdk/awscore/exception/(\w+Exception)\.class"),
    "s3": re.compile(r"software/amazon/awssdk/services/s3/model/(\w+Exception)\.class"),
    "sts": re.compile(r"software/amazon/awssdk/services/sts/model/(\w+Exception)\.class"),
}
_NAMED = re.compile(rb"(?:java|org/apache/hadoop)/[\w/]*?(\w+Exception)\b")
_BASES = {"Exception", "IOException"}
_OF_TLS = {
    "SSLException",
    "SSLHandshakeException",
    "SSLKeyException",
    "SSLPeerUnverifiedException",
    "SSLProtocolException",
}


def a_jar_of(artifact: str) -> zipfile.ZipFile:
    (path,) = (path for folder in gateway.jar_folders() for path in folder.glob(f"{artifact}-[0-9]*.jar"))
    return zipfile.ZipFile(path)


def test_each_exception_is_judged_and_no_other() -> None:
    listed = set(_OF_TLS)
    for artifact, pattern in _PACKAGES.items():
        with a_jar_of(artifact) as jar:
            listed |= {match[1] for name in jar.namelist() if (match := pattern.fullmatch(name))}
    with a_jar_of("hadoop-aws") as jar:
        # What S3A expects to be raised below it; it waits for some of that itself.
        listed |= {name.decode() for name in _NAMED.findall(jar.read(f"{_OF_S3A}S3ARetryPolicy.class"))} - _BASES
    assert s3a_judgements.CLASSES.keys() == listed


_LOADING = "[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure\n\nJVM stacktrace:\n"
_S3A, _SDK = "org.apache.hadoop.fs.s3a", "software.amazon.awssdk"


def an_answer_to_s3a(status: int, code: str = "null", *, raised: str) -> str:
    ids = "Request ID: 4, Extended Request ID: x"
    said = f"{_SDK}.services.s3.model.S3Exception: no (Service: S3, Status Code: {status}, {ids})"
    return (
        f"{_LOADING}org.apache.spark.SparkException: Task failed\n\tat org.apache.spark.Foo\n"
        f"Caused by: {raised}: open s3a://bucket/key on s3a://bucket/key: {said} (SDK Attempt Count: 1):{code}: no\n"
        f"\tat {_S3A}.S3AUtils.translateException(S3AUtils.java:269)\n"
        f"Caused by: {said} (SDK Attempt Count: 1)\n\tat {_SDK}.core.Foo\n"
    )


def without_answer(raised: str, *causes: str) -> str:
    caused = "".join(f"Caused by: {cause}: no\n\t... 9 more\n" for cause in causes)
    failed = f"org.apache.spark.SparkException: Task failed\n\tat x\nCaused by: {raised}: open s3a://bucket/key: no\n"
    return f"{_LOADING}{failed}{caused}"


_DENIED, _UNKNOWN = "java.nio.file.AccessDeniedException", f"{_S3A}.UnknownStoreException"
_CLIENT, _SDK_CLIENT = f"{_S3A}.AWSClientIOException", f"{_SDK}.core.exception.SdkClientException"
_BAD = f"{_S3A}.AWSBadRequestException"


@pytest.mark.parametrize(
    ("text", "reason", "advice"),
    [
        (an_answer_to_s3a(400, "ExpiredToken", raised=_BAD), "AccessDenied", "check the access key"),
        (an_answer_to_s3a(400, "RequestTimeout", raised=_BAD), "StorageUnreachable", "too many"),
        (an_answer_to_s3a(400, "InvalidArgument", raised=_BAD), "StorageFailed", "does not take this request"),
        (an_answer_to_s3a(400, raised=_BAD), "AccessDenied", "session token has not expired"),
        (an_answer_to_s3a(401, raised=_DENIED), "AccessDenied", "its rights on the bucket"),
        (an_answer_to_s3a(403, "AccessDenied", raised=_DENIED), "AccessDenied", "its rights on the bucket"),
        (an_answer_to_s3a(403, raised=_DENIED), "AccessDenied", "its rights on the bucket"),
        (an_answer_to_s3a(403, "RequestTimeTooSkewed", raised=_DENIED), "StorageFailed", "set the clock"),
        (an_answer_to_s3a(403, "InvalidObjectState", raised=_DENIED), "StorageFailed", "from the archive"),
        (an_answer_to_s3a(404, "NoSuchBucket", raised=_UNKNOWN), "NoSuchBucket", "create the bucket"),
        (an_answer_to_s3a(404, raised=_UNKNOWN), "NoSuchBucket", "create the bucket"),
        (an_answer_to_s3a(408, raised=f"{_S3A}.AWSS3IOException"), "StorageUnreachable", "check that the server runs"),
        (an_answer_to_s3a(409, "OperationAborted", raised=_BAD), "StorageUnreachable", "changing the same object"),
        (an_answer_to_s3a(409, raised=_BAD), "StorageUnreachable", "changing the same object"),
        (an_answer_to_s3a(429, raised=f"{_S3A}.AWSServiceThrottledException"), "StorageUnreachable", "too many"),
        (
            an_answer_to_s3a(503, "SlowDown", raised=f"{_S3A}.AWSServiceThrottledException"),
            "StorageUnreachable",
            "too many",
        ),
        (
            an_answer_to_s3a(500, "InternalError", raised=f"{_S3A}.AWSStatus500Exception"),
            "StorageUnreachable",
            "server runs",
        ),
        (an_answer_to_s3a(502, raised=f"{_S3A}.AWSStatus500Exception"), "StorageUnreachable", "server runs"),
        (an_answer_to_s3a(504, raised=f"{_S3A}.AWSApiCallTimeoutException"), "StorageUnreachable", "server runs"),
        (an_answer_to_s3a(444, raised=f"{_S3A}.AWSNoResponseException"), "StorageUnreachable", "server runs"),
        (
            an_answer_to_s3a(301, "PermanentRedirect", raised=f"{_S3A}.AWSRedirectException"),
            "StorageFailed",
            "correct region",
        ),
        (an_answer_to_s3a(501, raised=f"{_S3A}.AWSUnsupportedFeatureException"), "StorageFailed", "too old"),
        (without_answer("java.net.UnknownHostException", _SDK_CLIENT), "StorageUnreachable", "server runs"),
        (without_answer("java.net.SocketTimeoutException"), "StorageUnreachable", "server runs"),
        (
            without_answer(_CLIENT, _SDK_CLIENT, "javax.net.ssl.SSLHandshakeException"),
            "StorageUnreachable",
            "certificate",
        ),
        (without_answer(_CLIENT, _SDK_CLIENT, "java.net.UnknownHostException"), "StorageUnreachable", "server runs"),
        (without_answer(_CLIENT, _SDK_CLIENT), "StorageUnreachable", "server runs"),
        (
            without_answer(_DENIED, f"{_S3A}.auth.NoAwsCredentialsException", _SDK_CLIENT),
            "CredentialsMissing",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            without_answer(_DENIED, f"{_SDK}.services.sts.model.ExpiredTokenException"),
            "AccessDenied",
            "check the access key",
        ),
    ],
)
def test_a_failure_of_s3a_is_told_as_storage_with_what_helps(text: str, reason: str, advice: str) -> None:
    failure = failures.classify_query("delays", text, fenced=False)

    assert (failure.code, failure.reason) == (ExitCode.STORAGE_UNAVAILABLE, reason)
    assert failure.message.startswith("The query 'delays' failed: ")
    assert "s3a://bucket/key" in failure.message
    assert advice in failure.message


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        pytest.param(404, "java.io.FileNotFoundException", id="the object is not there"),
        pytest.param(412, f"{_S3A}.RemoteFileChangedException", id="another writer was first"),
        pytest.param(416, f"{_S3A}.RangeNotSatisfiableEOFException", id="the object is shorter"),
    ],
)
def test_a_race_that_s3a_lost_is_no_failure_of_storage(status: int, raised: str) -> None:
    text = an_answer_to_s3a(status, raised=raised)
    failed = s3a_judgements.find(text)

    assert failed is not None
    assert failed.judgement.remedy is Remedy.LOST_RACE
    assert failures.classify_query("delays", text, fenced=False).reason == "QueryFailed"


def test_a_failure_of_s3a_in_a_call_of_the_job_is_not_blamed_on_a_line_of_the_job() -> None:
    text = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "/app/job.py", line 3, in save\n    df.collect()\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.collectToPython.\n"
        f": org.apache.spark.SparkException: x\n\tat x\nCaused by: {_DENIED}: s3a://b/k: no\n"
        f"Caused by: {_S3A}.auth.NoAuthWithAWSException: no\n"
    )

    assert failures.classify_query("delays", text, fenced=False).reason == "CredentialsMissing"
    assert failures.calls_of_job(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"Traceback (most recent call last):\nValueError: {_CLIENT}: s3a://b", id="a Python error names it"
        ),
        pytest.param(f"org.apache.spark.X: the words {_CLIENT}: s3a://b/k", id="a message of Spark names it"),
    ],
)
def test_what_only_looks_like_s3a_is_not_judged(text: str) -> None:
    assert failures.classify_query("delays", text, fenced=False).reason == "QueryFailed"


def test_another_server_that_refuses_the_connection_is_no_trouble_of_storage() -> None:
    text = "org.apache.spark.X: x\nCaused by: java.net.ConnectException: db.svc refused"

    assert failures.classify_query("delays", text, fenced=False).reason == "SystemUnreachable"


def test_damage_counts_before_what_s3a_says_and_an_unreachable_store_is_no_damage() -> None:
    loading = "org.apache.spark.X: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred\n"
    gone = f"{loading}Caused by: java.io.FileNotFoundException: No such file s3a://b/3_x.zip"
    slow = f"{loading}Caused by: {_SDK}.services.s3.model.S3Exception: SlowDown (Service: S3, Status Code: 503)"

    assert failures.classify_query("delays", gone, fenced=False).reason == failures.STATE_DAMAGED
    assert failures.classify_query("delays", slow, fenced=False).reason == "StorageUnreachable"
