"""The driver's HTTP API over a real socket, with a fake job behind it."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fakecontrol import NOON, TOKEN, FakeControl, a_status, a_summary, served
from statefulspark import errors, outgoing
from statefulspark.contract import api
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.server.http import ApiServer
from statefulspark.server.tokens import FixedToken


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    content_type: str

    @property
    def json(self) -> dict[str, object]:
        value: dict[str, object] = json.loads(self.text)
        return value


@dataclass(frozen=True)
class Served:
    control: FakeControl
    url: str

    def ask(self, method: str, path: str, body: str | None = None, token: str | None = TOKEN) -> Answer:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=10)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), response.headers.get_content_type())
        finally:
            connection.close()


@pytest.fixture
def job() -> Iterator[Served]:
    control = FakeControl()
    with served(control) as url:
        yield Served(control, url)


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x"], ids=["none", "empty", "wrong", "longer"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/status"),
        ("GET", "/v1/checkpoints"),
        ("GET", "/v1/operations/a"),
        ("POST", "/v1/savepoints"),
        ("POST", "/v1/stop"),
        ("GET", "/v1/nothing"),
    ],
)
def test_everything_below_v1_needs_the_token(job: Served, method: str, path: str, token: str | None) -> None:
    answer = job.ask(method, path, '{"requestId": "a"}', token)

    assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
    assert job.control.started == []


@pytest.mark.parametrize("header", [b"Bearer \xff\xfe", b"Bearer \xc3\xa9", b"Basic YTpi"])
def test_a_token_in_strange_bytes_is_a_wrong_token(job: Served, header: bytes) -> None:
    """It was answered with 500, and with a stack in the log, to everybody who reached the port."""
    answer = _raw(job.url, b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + header + b"\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nWWW-Authenticate: Bearer\r\n" in answer


def test_a_body_that_cannot_be_unpacked_is_refused(job: Served) -> None:
    head = f"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    answer = _raw(job.url, f"{head}Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"reason":"RequestInvalid"' in answer
    assert job.control.started == []


@pytest.mark.parametrize(("epoch", "status"), [("8", 202), ("8.0", 202), ("8.5", 400), ('"8"', 400), ("true", 400)])
def test_an_epoch_is_a_whole_number(job: Served, epoch: str, status: int) -> None:
    assert job.ask("POST", "/v1/activate", f'{{"requestId": "a", "epoch": {epoch}}}').status == status


def test_a_wrong_value_is_quoted_in_part(job: Served) -> None:
    answer = job.ask("POST", "/v1/stop", '{"requestId": "' + "!" * 100_000 + '"}')

    assert answer.status == 400
    assert len(answer.text) < 600


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"NONSENSE\r\n\r\n"], ids=["TLS", "a line"]
)
def test_what_is_no_http_takes_one_line_in_the_log(job: Served, caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    """A browser that tried https filled the terminal with the parser's stack."""
    caplog.set_level(logging.DEBUG)

    assert b" 400 " in _raw(job.url, sent)

    (record,) = (one for one in caplog.records if one.name == "statefulspark.server.malformed_requests")
    assert (record.levelno, record.exc_info) == (logging.INFO, None)
    assert record.getMessage() == "a connection did not speak HTTP and was closed"


def _raw(url: str, sent: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        return connection.recv(65_536)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_and_scrapers_need_no_token(job: Served, path: str) -> None:
    assert job.ask("GET", path, token=None).status == 200


def test_status_is_what_the_job_says(job: Served) -> None:
    answer = job.ask("GET", "/v1/status")

    assert (answer.status, answer.content_type) == (200, "application/json")
    assert api.JobStatus.model_validate_json(answer.text) == job.control.current


def test_a_savepoint_is_accepted_and_told_about_when_asked(job: Served) -> None:
    accepted = job.ask("POST", "/v1/savepoints", '{"requestId": "nightly-1", "name": "nightly"}')
    job.control.operations.complete("nightly-1", a_summary(kind=SnapshotKind.SAVEPOINT, number=43))
    told = job.ask("GET", "/v1/operations/nightly-1")

    assert (accepted.status, accepted.json["state"]) == (202, "InProgress")
    assert job.control.started == [api.SavepointRequest(request_id="nightly-1", name="nightly")]
    assert api.Operation.model_validate_json(told.text) == api.Operation(
        request_id="nightly-1",
        kind="Savepoint",
        state=api.OperationState.COMPLETED,
        snapshot=a_summary(kind=SnapshotKind.SAVEPOINT, number=43),
    )


def test_a_repeated_request_id_never_starts_a_second_savepoint(job: Served) -> None:
    """A.157: the client may supply the id, so that a retry is harmless."""
    first = job.ask("POST", "/v1/savepoints", '{"requestId": "same"}')
    second = job.ask("POST", "/v1/savepoints", '{"requestId": "same"}')

    assert (first.status, second.status) == (202, 202)
    assert first.text == second.text
    assert len(job.control.started) == 1


def test_a_stop_takes_a_savepoint_unless_told_otherwise(job: Served) -> None:
    job.ask("POST", "/v1/stop", '{"requestId": "a"}')
    job.ask("POST", "/v1/stop", '{"requestId": "b", "savepoint": false}')

    assert [request.savepoint for request in job.control.started if isinstance(request, api.StopRequest)] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param("{}", "requestId", id="the request id is missing"),
        pytest.param('{"requestId": "a b"}', "requestId", id="the request id has a blank"),
        pytest.param('{"requestId": "a", "name": "Big"}', "name", id="the name has a capital"),
        pytest.param('{"requestId": "a", "trigger": "whim"}', "trigger", id="the trigger is unknown"),
        pytest.param("no json", "the body", id="the body is no JSON"),
        pytest.param("", "the body", id="there is no body"),
        pytest.param('{"requestId": "a", "format": 1}', "format", id="the format is a number"),
    ],
)
def test_a_bad_body_is_refused_by_the_name_of_its_field(job: Served, body: str, named: str) -> None:
    answer = job.ask("POST", "/v1/savepoints", body)

    assert (answer.status, answer.json["reason"]) == (400, "RequestInvalid")
    assert str(answer.json["message"]).startswith(f"{named}: ")
    assert job.control.started == []


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        pytest.param("GET", "/v1/operations/unheard-of", 404, "OperationUnknown", id="an unknown operation"),
        pytest.param("GET", "/v1/unheard-of", 404, "NotFound", id="an unknown path"),
        pytest.param("GET", "/v1/stop", 405, "MethodNotAllowed", id="a wrong method"),
        pytest.param("GET", "/v1/operations/a?waitSeconds=31", 400, "RequestInvalid", id="a wait that is too long"),
        pytest.param("GET", "/v1/operations/a?waitSeconds=x", 400, "RequestInvalid", id="a wait that is no number"),
        pytest.param("GET", f"/v1/status?waitSeconds={'9' * 5000}", 400, "RequestInvalid", id="a wait of 5,000 digits"),
        pytest.param("GET", f"/v1/checkpoints/{'9' * 5000}", 400, "RequestInvalid", id="a snapshot of 5,000 digits"),
        pytest.param("GET", "/v1/status?waitSeconds=%D9%A3", 400, "RequestInvalid", id="a wait in Arabic digits"),
    ],
)
def test_what_cannot_be_answered_has_a_reason(job: Served, method: str, path: str, status: int, reason: str) -> None:
    answer = job.ask(method, path)

    assert (answer.status, answer.json["reason"]) == (status, reason)


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (errors.SpecRejectedError("NoLocation", "Name a location."), 400),
        (errors.PreconditionFailedError("Stopping", "The job is stopping."), 409),
    ],
    ids=["rejected", "precondition"],
)
def test_a_refusal_of_the_job_reaches_the_caller(job: Served, refusal: errors.StatefulSparkError, status: int) -> None:
    job.control.refusal = refusal

    answer = job.ask("POST", "/v1/savepoints", '{"requestId": "a"}')

    assert (answer.status, answer.json) == (status, {"reason": refusal.reason, "message": refusal.message})


def test_a_revealed_secret_is_in_no_answer(job: Served) -> None:
    secret = f'pa"ss\\{uuid.uuid4().hex}'
    outgoing.keep_out(secret)
    job.control.refusal = errors.SpecRejectedError("NoLocation", f"Cannot log in with {secret}.")

    answer = job.ask("POST", "/v1/savepoints", '{"requestId": "a"}')

    assert answer.json == {"reason": "NoLocation", "message": "Cannot log in with ***."}


def test_who_waits_for_an_operation_is_answered_as_soon_as_it_ends(job: Served) -> None:
    job.control.operations.begin("slow", api.OperationKind.SAVEPOINT)
    timer = threading.Timer(0.2, lambda: job.control.operations.fail("slow", "CHECKPOINT_EXPIRED", "too slow"))
    timer.start()
    began_s = time.monotonic()

    answer = job.ask("GET", "/v1/operations/slow?waitSeconds=30")

    assert answer.json["reason"] == "CHECKPOINT_EXPIRED"
    assert time.monotonic() - began_s < 5
    timer.join()


def test_who_waits_for_a_stop_hears_of_its_end_although_the_driver_goes_down() -> None:
    control = FakeControl()
    control.operations.begin("stop-1", api.OperationKind.STOP)
    with served(control) as url:
        answers: list[Answer] = []
        asking = threading.Thread(
            target=lambda: answers.append(Served(control, url).ask("GET", "/v1/operations/stop-1?waitSeconds=30"))
        )
        asking.start()
        time.sleep(0.1)
        control.operations.complete("stop-1", a_summary(kind=SnapshotKind.SAVEPOINT))
    asking.join(5)

    assert [answer.json["state"] for answer in answers] == ["Completed"]


def test_who_waits_for_news_hears_of_a_failure_although_the_driver_goes_down() -> None:
    """The page saw a connection that ended, and never why."""
    control = FakeControl()
    with served(control) as url:
        answers: list[Answer] = []
        asking = threading.Thread(
            target=lambda: answers.append(Served(control, url).ask("GET", "/v1/status?waitSeconds=30"))
        )
        asking.start()
        time.sleep(0.1)
        control.current = a_status(state=api.JobState.FAILED)
    asking.join(5)

    assert [answer.json["state"] for answer in answers] == ["Failed"]


def test_who_waits_for_news_hears_of_a_query_that_failed(job: Served) -> None:
    error = api.JobError(query="counts", reason="QueryFailed", message="It failed.", failed_at=NOON)
    timer = threading.Timer(0.2, lambda: setattr(job.control, "current", a_status(last_error=error)))
    timer.start()

    answer = job.ask("GET", "/v1/status?waitSeconds=30")

    assert api.JobStatus.model_validate_json(answer.text).last_error == error
    timer.join()


def test_nobody_waits_for_news_longer_than_asked(job: Served) -> None:
    began_s = time.monotonic()

    assert job.ask("GET", "/v1/status?waitSeconds=1").status == 200
    assert time.monotonic() - began_s < 5


@pytest.fixture
def without_token() -> Iterator[Served]:
    control = FakeControl()
    with served(control, tokens=None) as url:
        yield Served(control, url)


@pytest.mark.parametrize("path", ["/v1/status", "/v1/checkpoints", "/v1/batches", "/v1/state", "/v1/losses"])
def test_a_driver_without_a_token_answers_questions_of_this_machine(without_token: Served, path: str) -> None:
    """While a job is developed, the page asked for a token that nobody knew."""
    assert without_token.ask("GET", path, token=None).status == 200


@pytest.mark.parametrize("path", ["/v1/checkpoints", "/v1/savepoints", "/v1/stop", "/v1/activate"])
@pytest.mark.parametrize("token", [None, "", "None", TOKEN])
def test_a_driver_without_a_token_refuses_every_request(without_token: Served, path: str, token: str | None) -> None:
    answer = without_token.ask("POST", path, '{"requestId": "a", "epoch": 8}', token)

    assert (answer.status, answer.json["reason"]) == (401, "TokenNotSet")
    assert without_token.control.started == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:8090", 200, id="a forwarded port"),
        pytest.param("127.0.0.1", 200, id="an address without a port"),
        pytest.param("[::1]:8090", 200, id="IPv6 with a port"),
        pytest.param("[::1]", 200, id="IPv6 without a port"),
        pytest.param("evil.example:8090", 401, id="a name that was made to lead here"),
        pytest.param("localhost.evil.example", 401, id="a name that begins alike"),
    ],
)
def test_a_driver_without_a_token_tells_pages_of_other_origins_nothing(
    without_token: Served, host: str, status: int
) -> None:
    """A web page can make its own name lead to 127.0.0.1, and then read what this address answers."""
    connection = http.client.HTTPConnection(without_token.url.removeprefix("http://"), timeout=10)
    connection.request("GET", "/v1/status", headers={"Host": host})
    answered = connection.getresponse().status
    connection.close()

    assert answered == status


def test_health_says_whether_the_loop_turns(job: Served) -> None:
    job.control.alive = False

    assert job.ask("GET", "/healthz").status == 503


@pytest.mark.parametrize(
    ("state", "status"), [(state, 200 if state is api.JobState.RUNNING else 503) for state in api.JobState]
)
def test_ready_means_running(job: Served, state: api.JobState, status: int) -> None:
    job.control.current = a_status(state=state)

    answer = job.ask("GET", "/readyz")

    assert (answer.status, answer.text) == (status, f"{state.value}\n")


def test_metrics_can_be_scraped(job: Served) -> None:
    job.control.current = a_status(last_checkpoint=a_summary())

    answer = job.ask("GET", "/metrics")

    assert answer.content_type == "text/plain"
    assert 'statefulspark_epoch{job_name="words",job_namespace="default"} 7.0\n' in answer.text


@pytest.fixture
def scraped() -> Iterator[ApiServer]:
    """A server with a port for its metrics alone."""
    server = ApiServer(FakeControl(), tokens=FixedToken(TOKEN), host="127.0.0.1", port=0, metrics_port=0)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("path", "status"), [("/metrics", 200), ("/v1/status", 404), ("/healthz", 404), ("/readyz", 404), ("/ui/", 404)]
)
def test_the_port_of_the_metrics_answers_nothing_else(scraped: ApiServer, path: str, status: int) -> None:
    asked = Served(FakeControl(), f"http://127.0.0.1:{scraped.metrics_port}")

    assert asked.ask("GET", path).status == status


def test_who_holds_all_connections_of_the_metrics_holds_none_of_the_probes(scraped: ApiServer) -> None:
    held = [socket.create_connection(("127.0.0.1", int(scraped.metrics_port or 0))) for _ in range(40)]
    try:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            Served(FakeControl(), f"http://127.0.0.1:{scraped.metrics_port}").ask("GET", "/metrics")
        assert Served(FakeControl(), f"http://127.0.0.1:{scraped.port}").ask("GET", "/healthz").status == 200
    finally:
        for connection in held:
            connection.close()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(errors.TransientError, match=f"127.0.0.1:{port}") as raised:
            ApiServer(FakeControl(), tokens=FixedToken(TOKEN), host="127.0.0.1", port=port)
        with pytest.raises(errors.TransientError, match=f"127.0.0.1:{port}"):
            ApiServer(FakeControl(), tokens=FixedToken(TOKEN), host="127.0.0.1", port=0, metrics_port=port)

    assert raised.value.reason == "PortUnavailable"
