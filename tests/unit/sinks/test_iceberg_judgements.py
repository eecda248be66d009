"""Every error of pyiceberg and every status of HTTP is judged; a new one fails here until somebody has judged it."""

from __future__ import annotations

import http
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import botocore.exceptions
import botocore.session
import pyarrow as pa
import pyiceberg.exceptions
import pytest
import sqlalchemy.exc
from machines import iceberg_sink
from statefulspark import errors
from statefulspark.judgement import Remedy
from statefulspark.sinks.iceberg import judgements
from statefulspark.sinks.secret import Secret
from statefulspark.storage import StorageOptions

_BUILTIN = {
    *("OSError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "TimeoutError"),
    *("FileNotFoundError", "PermissionError", "ValueError", "NotImplementedError"),
}
_LOGIN_EXPIRED = 419
"""pyiceberg knows it, and Python does not."""
ASKED = {
    "glue": ("GetTable", "GetDatabase", "UpdateTable"),
    "dynamodb": ("DescribeTable", "GetItem", "PutItem", "Query"),
}
"""What the catalogs of pyiceberg ask when a sink looks at a table and commits to it."""
PAGE = "<html><body>Welcome</body></html>"


def test_each_class_is_judged_and_no_other() -> None:
    found = vars(pyiceberg.exceptions).items()
    known = {name for name, kind in found if isinstance(kind, type) and issubclass(kind, Exception)}
    assert judgements.CLASSES.keys() == known | _BUILTIN


def test_each_status_is_judged_and_no_other() -> None:
    known = {str(status.value) for status in http.HTTPStatus if status >= http.HTTPStatus.MULTIPLE_CHOICES}
    assert judgements.STATUSES.keys() == known | {str(_LOGIN_EXPIRED)}


def test_each_code_of_what_is_asked_of_a_cloud_is_judged() -> None:
    model = botocore.session.get_session().get_service_model
    listed = {
        shape.name
        for service, operations in ASKED.items()
        for operation in operations
        for shape in model(service).operation_model(operation).error_shapes
    }
    assert listed
    assert listed - judgements.CLOUD_CODES.keys() == set()


def a_refusal(code: str, status: int = 400) -> botocore.exceptions.ClientError:
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(answer, "GetTable")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (a_refusal("ThrottlingException"), Remedy.WAIT),
        (a_refusal("AccessDeniedException"), Remedy.RIGHTS),
        (a_refusal("ExpiredTokenException"), Remedy.CREDENTIALS),
        (a_refusal("SomethingNew", 500), Remedy.WAIT),
        (a_refusal("SomethingNew"), Remedy.PERSON),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="https://glue"), Remedy.WAIT),
        (botocore.exceptions.NoCredentialsError(), Remedy.CREDENTIALS),
        (sqlalchemy.exc.OperationalError("SELECT 1", None, OSError("refused")), Remedy.WAIT),
        (sqlalchemy.exc.IntegrityError("INSERT", None, OSError("twice")), Remedy.LOST_RACE),
        (sqlalchemy.exc.ProgrammingError("SELECT 1", None, OSError("no table")), Remedy.PERSON),
        (sqlalchemy.exc.NoSuchModuleError("no plugin"), Remedy.PERSON),
    ],
    ids=lambda value: str(value).split(":")[0].split("(")[0][:60] if isinstance(value, Exception) else None,
)
def test_errors_of_other_catalogs_are_judged(error: Exception, remedy: Remedy) -> None:
    judgement = judgements.judge_error(error, str(error))
    assert judgement is not None
    assert judgement.remedy is remedy


def test_each_class_of_sqlalchemy_is_judged_as_its_base_class() -> None:
    kinds = [kind for kind in vars(sqlalchemy.exc).values() if isinstance(kind, type)]
    failures = [kind for kind in kinds if issubclass(kind, sqlalchemy.exc.SQLAlchemyError)]
    assert failures
    for kind in failures:
        names = [base.__name__ for base in kind.__mro__ if base.__module__ == judgements.SQLALCHEMY]
        assert judgements.judge_database(names)


def test_an_error_of_our_own_code_is_not_of_another_system() -> None:
    assert judgements.judge_error(KeyError("x"), "x") is None
    assert judgements.judge_error(TypeError("x"), "x") is None


def test_a_right_that_the_table_s_files_need_is_not_waited_for() -> None:
    assert judgements.judge("PermissionError", None, "Access Denied").remedy is Remedy.CREDENTIALS


def test_a_token_endpoint_that_refuses_the_client_is_about_credentials() -> None:
    assert judgements.judge("OAuthError", 401, "invalid_client").remedy is Remedy.CREDENTIALS


def of_catalog(kind: str, status: int) -> str:
    return json.dumps({"error": {"message": "it failed", "type": kind, "code": status}})


@contextmanager
def catalog(status: int, body: str) -> Iterator[str]:
    """Answer everything but the configuration with one answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_configuration = self.path.startswith("/v1/config")
            self.send_response(200 if is_configuration else status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"defaults": {}, "overrides": {}}' if is_configuration else body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def refusal(status: int, body: str, **properties: str | Secret) -> errors.StatefulSparkError:
    with catalog(status, body) as uri:
        sink = iceberg_sink("shop.orders", catalog={"type": "rest", "uri": uri, **properties})
        with pytest.raises(errors.StatefulSparkError) as raised:
            sink.check_schema(pa.schema([("id", pa.int64())]), StorageOptions())
    return raised.value


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason", "told"),
    [
        (429, of_catalog("TooManyRequests", 429), errors.TransientError, "IcebergUnavailable", "limits how often"),
        (429, '{"error": "slow_down"}', errors.TransientError, "IcebergUnavailable", "limits how often"),
        (400, of_catalog("ThrottlingException", 400), errors.TransientError, "IcebergUnavailable", "limits how often"),
        (408, PAGE, errors.TransientError, "IcebergUnavailable", "can be reached"),
        (503, PAGE, errors.TransientError, "IcebergUnavailable", "until the catalog works again"),
        (404, PAGE, errors.TransientError, "IcebergUnavailable", "a proxy or a page for logging in"),
        (404, "", errors.TransientError, "IcebergUnavailable", "a proxy or a page for logging in"),
        (200, PAGE, errors.TransientError, "IcebergUnavailable", "a proxy or a page for logging in"),
        (
            404,
            of_catalog("NoSuchTableException", 404),
            errors.SpecRejectedError,
            "IcebergTableMissing",
            "create it first",
        ),
        (400, of_catalog("BadRequest", 400), errors.SpecRejectedError, "IcebergRefused", "does not take the request"),
        (403, of_catalog("Forbidden", 403), errors.SpecRejectedError, "IcebergAccessDenied", "give the catalog's user"),
    ],
)
def test_an_answer_says_what_is_waited_for_or_what_to_change(
    status: int, body: str, kind: type[errors.StatefulSparkError], reason: str, told: str
) -> None:
    error = refusal(status, body)
    assert (type(error), error.reason) == (kind, reason)
    assert told in error.message


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("plain", errors.SpecRejectedError),
        (Secret.file("token"), errors.CredentialsRefusedError),
    ],
    ids=["a plain token", "a token in a file"],
)
def test_a_token_in_a_file_is_read_again(
    token: str | Secret,
    kind: type[errors.StatefulSparkError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text("old")
    monkeypatch.chdir(tmp_path)
    error = refusal(401, of_catalog("NotAuthorized", 401), token=token)
    assert (type(error), error.reason) == (kind, "IcebergAccessDenied")
