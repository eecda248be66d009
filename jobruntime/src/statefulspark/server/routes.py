"""Every route of the driver's API as data: what it takes, what it answers, and why it may refuse.

`http` serves exactly these, and `openapi` describes exactly these, so that the description cannot differ from the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from statefulspark.contract import api, base, statistics

MAX_WAIT_S = 30
"""Longest time that an answer about an operation may be held back."""


class Method(StrEnum):
    """How a route is asked."""

    GET = "GET"
    POST = "POST"


@dataclass(frozen=True, slots=True)
class Answer:
    """One possible answer.

    Attributes:
        meaning: What it tells, for people.
        model: What the body is; None for plain text.
    """

    meaning: str
    model: type[base.WireModel] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in the path or in the query.

    Attributes:
        name: As it is written.
        meaning: For people.
        minimum: If given, it is a whole number from here on.
        maximum: Up to here.
        in_query: Whether it follows the question mark; it is optional then.
    """

    name: str
    meaning: str
    minimum: int | None = None
    maximum: int | None = None
    in_query: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        name: Unique; the operation's id, and the name of its handler.
        method: How it is asked.
        path: With parameters in braces.
        summary: One line.
        description: What is guaranteed.
        answers: By status code.
        body: What is sent.
        parameters: In the path and the query.
    """

    name: str
    method: Method
    path: str
    summary: str
    description: str
    answers: Mapping[int, Answer]
    body: type[base.WireModel] | None = None
    parameters: tuple[Parameter, ...] = field(default=())

    @property
    def needs_token(self) -> bool:
        """Whether the job's token has to be presented."""
        return self.path.startswith("/v1/")


_UNAUTHORIZED = {401: Answer("The token is missing or wrong.", api.ApiError)}
_BAD = {400: Answer("The request is wrong; the message names the field.", api.ApiError)}
_REFUSED = {409: Answer("The job is in a state in which that cannot be done.", api.ApiError)}
_ACCEPTED = {202: Answer("It was started, now or by an earlier request with this id.", api.Operation)}
_IDEMPOTENT = (
    "Repeating the request with the same `requestId` returns the same operation and never starts a second one."
)

_WAIT = Parameter(
    "waitSeconds",
    "Hold the answer back until the operation has ended, at most this long.",
    minimum=0,
    maximum=MAX_WAIT_S,
    in_query=True,
)
_REQUEST_ID = Parameter("request_id", "The caller's id of the request.")
_OPERATION_ANSWERS = {
    200: Answer("How far it has come.", api.Operation),
    404: Answer("This driver knows no such request; it may have been restarted.", api.ApiError),
    **_BAD,
    **_UNAUTHORIZED,
}


def _ask(name: str, path: str, summary: str, description: str, body: type[base.WireModel]) -> Route:
    answers = {**_ACCEPTED, **_BAD, **_UNAUTHORIZED, **_REFUSED}
    return Route(name, Method.POST, path, summary, f"{description} {_IDEMPOTENT}", answers, body)


def _look(name: str, path: str, summary: str, description: str, model: type[base.WireModel]) -> Route:
    return Route(name, Method.GET, path, summary, description, {200: Answer(summary, model), **_UNAUTHORIZED})


ROUTES = (
    _look("getStatus", "/v1/status", "What the job is doing", "As of a fraction of a second ago.", api.JobStatus),
    _look(
        "getConfig", "/v1/config", "How the driver was told to run",
        "Holds no secret, and of the user's parameters only the names.", statistics.EffectiveConfig,
    ),
    _look(
        "getCheckpoints", "/v1/checkpoints", "Statistics of checkpoints and savepoints",
        "Counts, distributions, the latest of each kind, and the history; all since this driver started.",
        statistics.Checkpoints,
    ),
    Route(
        "getCheckpoint", Method.GET, "/v1/checkpoints/{snapshot_id}", "Everything about one checkpoint or savepoint",
        "Known are those in progress and the last ones that ended; `statefulspark checkpoint show` reads older ones.",
        {
            200: Answer("The snapshot.", statistics.SnapshotDetails),
            404: Answer("It is not among those that this driver remembers.", api.ApiError),
            **_BAD,
            **_UNAUTHORIZED,
        },
        parameters=(Parameter("snapshot_id", "Its number.", minimum=1),),
    ),
    _ask(
        "triggerCheckpoint", "/v1/checkpoints", "Take a checkpoint now",
        "It waits for its turn like a periodic one, before those, and ignores the minimum pause.", api.CheckpointRequest,
    ),
    _ask(
        "triggerSavepoint", "/v1/savepoints", "Take a savepoint",
        "The job goes on. A savepoint is self-contained and belongs to the caller.", api.SavepointRequest,
    ),
    _ask(
        "stop", "/v1/stop", "Stop the job at a batch boundary",
        "The batches end, a savepoint or checkpoint is completed at that boundary, and the driver exits. If that fails, "
        "the job goes on.", api.StopRequest,
    ),
    Route(
        "getOperation", Method.GET, "/v1/operations/{request_id}", "How a checkpoint, savepoint or stop is going",
        "With `waitSeconds` the answer comes as soon as it has ended: a stop's outcome is told before the driver is gone.",
        _OPERATION_ANSWERS, parameters=(_REQUEST_ID, _WAIT),
    ),
    Route(
        "getSavepoint", Method.GET, "/v1/savepoints/{request_id}", "How a savepoint is going",
        "The same as `/v1/operations/{request_id}`.", _OPERATION_ANSWERS, parameters=(_REQUEST_ID, _WAIT),
    ),
    Route(
        "getHealth", Method.GET, "/healthz", "Whether the driver works", "For liveness probes.",
        {200: Answer("The job's loop turns."), 503: Answer("It has not turned for half a minute.")},
    ),
    Route(
        "getReadiness", Method.GET, "/readyz", "Whether every query runs", "For readiness probes.",
        {200: Answer("Running."), 503: Answer("Any other state; the body names it.")},
    ),
    Route(
        "getMetrics", Method.GET, "/metrics", "Metrics in Prometheus's text format", "Described in docs/metrics.md.",
        {200: Answer("The metrics.")},
    ),
    Route(
        "getOpenApi", Method.GET, "/openapi.json", "This description", "OpenAPI 3.1.", {200: Answer("The description.")},
    ),
)  # fmt: skip
"""All of them, in the order of the description."""
