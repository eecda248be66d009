"""Every route of the driver's API as data: its parameters, its answers, and its errors.

`http` serves exactly these, and `openapi` describes exactly these, so that the description cannot differ from the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from statefulspark.contract import api, base, config, observations, statistics

MAX_WAIT_S = 30
"""Longest time that an answer about an operation may be delayed."""

_OF_SNAPSHOTS = frozenset(("getCheckpoints", "getCheckpoint", "createCheckpoint", "createSavepoint", "getOperation"))

MAX_BODY_BYTES = 1024 * 1024
"""Size of the longest body that is read."""


class Tag(StrEnum):
    """What a route is about; the description groups the routes by it."""

    JOB = "Job"
    SNAPSHOTS = "Checkpoints and savepoints"
    CONTROL = "Control"
    OBSERVATION = "Probes and metrics"


class Method(StrEnum):
    """The HTTP method of a route."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"


@dataclass(frozen=True, slots=True)
class Answer:
    """One possible answer.

    Attributes:
        meaning: Its meaning, for people.
        model: The model of the body; None for plain text.
    """

    meaning: str
    model: type[base.WireModel] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in the path or in the query.

    Attributes:
        name: Its name in the request.
        meaning: Its meaning, for people.
        minimum: If given, the value is a whole number of at least this.
        maximum: The largest value.
        in_query: Whether it is in the query string; it is optional then.
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
        method: Its HTTP method.
        path: Its path, with parameters in braces.
        summary: One line.
        description: What it guarantees.
        answers: Its answers by status code.
        body: The model of the request body.
        parameters: Its parameters in the path and the query.
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
    def tag(self) -> Tag:
        """What it is about."""
        if not self.needs_token:
            return Tag.OBSERVATION
        if self.name in _OF_SNAPSHOTS:
            return Tag.SNAPSHOTS
        return Tag.CONTROL if self.method is Method.POST else Tag.JOB

    @property
    def needs_token(self) -> bool:
        """Whether a request needs the job's token."""
        return self.path.startswith("/v1/")


_UNAUTHORIZED = {401: Answer("The token is missing or wrong.", api.ApiError)}
_BAD = {400: Answer("The request is wrong; the message names the field.", api.ApiError)}
_REFUSED = {409: Answer("The request is not possible in the current state of the job.", api.ApiError)}
_TOO_LARGE = {413: Answer(f"The body has more than {MAX_BODY_BYTES} bytes.", api.ApiError)}
_ACCEPTED = {202: Answer("It was started, now or by an earlier request with this id.", api.Operation)}
_IDEMPOTENT = (
    "Repeating the request with the same `requestId` returns the same operation and never starts a second one."
)

_WAIT = Parameter(
    "waitSeconds",
    "Delay the answer until the operation has ended, at most this many seconds.",
    minimum=0,
    maximum=MAX_WAIT_S,
    in_query=True,
)
_WAIT_FOR_NEWS = Parameter(
    "waitSeconds",
    "Delay the answer until the job's state changes or a query fails, at most this many seconds.",
    minimum=0,
    maximum=MAX_WAIT_S,
    in_query=True,
)
_REQUEST_ID = Parameter("requestId", "The caller's id of the request.")
_OPERATION_ANSWERS = {
    200: Answer("The state and progress of the operation.", api.Operation),
    404: Answer("This driver does not know the request; it may have been restarted.", api.ApiError),
    **_BAD,
    **_UNAUTHORIZED,
}


def _post_route(name: str, path: str, summary: str, description: str, body: type[base.WireModel]) -> Route:
    answers = {**_ACCEPTED, **_BAD, **_UNAUTHORIZED, **_REFUSED, **_TOO_LARGE}
    return Route(name, Method.POST, path, summary, f"{description} {_IDEMPOTENT}", answers, body)


def _get_route(name: str, path: str, summary: str, description: str, model: type[base.WireModel]) -> Route:
    return Route(name, Method.GET, path, summary, description, {200: Answer(summary, model), **_UNAUTHORIZED})


ROUTES = (
    Route(
        "getStatus", Method.GET, "/v1/status", "The status of the job",
        "At most a fraction of a second old. With `waitSeconds` the answer comes as soon as the job's state changes or a "
        "query fails: a client that always asks again learns of the end before the driver exits.",
        {200: Answer("The status of the job", api.JobStatus), **_BAD, **_UNAUTHORIZED}, parameters=(_WAIT_FOR_NEWS,),
    ),
    _get_route(
        "getConfig", "/v1/config", "The configuration of the driver",
        "Contains no secret, and only the names of the user's parameters.", statistics.EffectiveConfig,
    ),
    Route(
        "putCheckpointConfig", Method.PUT, "/v1/config/checkpoint", "Change how checkpoints are taken and kept",
        "The running job uses it from its next turn on; a later start of the job has the configuration that it is started "
        "with. The operator sends `spec.checkpoint` whenever the driver's differs.",
        {
            200: Answer("The configuration with the change.", statistics.EffectiveConfig),
            **_BAD, **_UNAUTHORIZED, **_REFUSED, **_TOO_LARGE,
        },
        config.CheckpointConfig,
    ),
    _get_route(
        "getCheckpoints", "/v1/checkpoints", "Statistics of checkpoints and savepoints",
        "Counts, distributions, the latest of each kind, and the history; all since this driver started.",
        statistics.Checkpoints,
    ),
    Route(
        "getCheckpoint", Method.GET, "/v1/checkpoints/{snapshotId}", "Everything about one checkpoint or savepoint",
        "Includes the snapshots in progress and the last ones that ended; `statefulspark checkpoint show` reads older ones.",
        {
            200: Answer("The snapshot.", statistics.SnapshotDetails),
            404: Answer("This driver does not remember the snapshot.", api.ApiError),
            **_BAD,
            **_UNAUTHORIZED,
        },
        parameters=(Parameter("snapshotId", "Its number.", minimum=1),),
    ),
    _get_route(
        "getBatches", "/v1/batches", "The newest batches of each query",
        "Those that this driver ran, as Spark measured them; none before the queries run.", observations.Batches,
    ),
    _get_route(
        "getState", "/v1/state", "The size of the state by operator and partition",
        "As of the newest checkpoint; none before the queries run.", observations.StateSizes,
    ),
    _get_route(
        "getLosses", "/v1/losses", "What would be lost if the driver ended now",
        "From what this driver knows; storage is not asked.", observations.Losses,
    ),
    _post_route(
        "createCheckpoint", "/v1/checkpoints", "Take a checkpoint now",
        "It is triggered before a periodic checkpoint that waits, and ignores the minimum pause.", api.CheckpointRequest,
    ),
    _post_route(
        "createSavepoint", "/v1/savepoints", "Take a savepoint",
        "The job continues. A savepoint is self-contained and belongs to the caller.", api.SavepointRequest,
    ),
    _post_route(
        "stop", "/v1/stop", "Stop the job at a batch boundary",
        "The batches end, a savepoint or checkpoint is completed at that boundary, and the driver exits. If that fails, "
        "the job continues.", api.StopRequest,
    ),
    _post_route(
        "activate", "/v1/activate", "Make a standby the driver",
        "It claims the epoch and starts as a driver. Refused by a standby whose job does not fit (`StandbyRefused`), by "
        "one that another epoch activated (`AlreadyActivated`), and by a process that never was a standby (`NotAStandby`). "
        "A failure to start ends the process with the exit code of that failure.", api.ActivateRequest,
    ),
    Route(
        "getOperation", Method.GET, "/v1/operations/{requestId}", "The progress of a checkpoint, savepoint or stop",
        "With `waitSeconds` the answer comes as soon as it has ended: a stop's outcome is sent before the driver exits.",
        _OPERATION_ANSWERS, parameters=(_REQUEST_ID, _WAIT),
    ),
    Route(
        "getHealth", Method.GET, "/healthz", "Whether the job loop runs", "For liveness probes.",
        {200: Answer("The job loop runs."), 503: Answer("It has not run for half a minute.")},
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
"""All routes, in the order of the description."""
