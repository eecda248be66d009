"""The driver's HTTP API on aiohttp, in a thread of its own.

Everything below /v1 needs the token; probes, metrics, the description and the page's files are open, because a kubelet, a
scraper and a browser's address bar have no token. A server that was given no token answers questions of this machine, and
refuses every request. Every error is `{"reason", "message"}`.

Scrapers can have a port of their own, with connections of its own: who reaches the metrics only holds none of the API's.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from aiohttp import http_exceptions, web
from pydantic import ValidationError

from statefulspark import connections, errors, outgoing
from statefulspark.contract import api, base, config
from statefulspark.server import losses, malformed_requests, memory, metrics, openapi, page, routes
from statefulspark.server.certificate import ServedCertificate
from statefulspark.server.control import Control
from statefulspark.server.tokens import Tokens
from statefulspark.storage import requests

_POLL_INTERVAL_S = 0.05
_CLOSE_GRACE_S = 1.0
_NAMES_OF_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})

_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every answer about the job: no browser and no proxy keeps it."""

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
"""Every 401 says how to authenticate (RFC 9110, 15.5.2)."""

_MOST_DIGITS = 19
"""No number of the API is longer; Python refuses to read one of thousands of digits."""

_LONGEST_ECHO = 200
"""Characters of a wrong value that an answer repeats."""

_CONTROL = web.AppKey("control", Control)
_TOKENS = web.AppKey[Tokens | None]("tokens")
_Body = TypeVar("_Body", bound=base.WireModel)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """Serves a Control until it is closed.

    Attributes:
        port: The port it listens on, also when 0 was requested.
        metrics_port: The port of the metrics alone, if there is one.
    """

    def __init__(
        self,
        control: Control,
        *,
        tokens: Tokens | None,
        host: str,
        port: int,
        metrics_port: int | None = None,
        tls: config.ApiTlsConfig | None = None,
    ) -> None:
        """Bind and start to serve.

        Args:
            control: The job.
            tokens: What callers of /v1 must send one of; None to answer questions without one, and to refuse requests.
            host: Address to listen on.
            port: Port to listen on; 0 picks a free one.
            metrics_port: Another port, which answers `/metrics` and nothing else; None for none, 0 picks a free one.
            tls: The certificate to serve with, at both ports; None serves HTTP.

        Raises:
            SpecRejectedError: The certificate cannot be used, as `certificate.require_usable`.
            TransientError: `PortUnavailable`: the address cannot be bound.
        """
        served = ServedCertificate(tls) if tls is not None else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-server", daemon=True)
        self._thread.start()
        self._runners: list[connections.LimitedRunner] = []
        self.port = self._listen(build_app(control, tokens), host, port, served)
        self.metrics_port = (
            None if metrics_port is None else self._listen(build_metrics_app(control), host, metrics_port, served)
        )

    def _listen(self, app: web.Application, host: str, port: int, served: ServedCertificate | None) -> int:
        """Serve an application at a port, and return the port."""
        runner = connections.LimitedRunner(app, logger=malformed_requests.logger(), shutdown_s=_CLOSE_GRACE_S)
        self._runners.append(runner)
        try:
            asyncio.run_coroutine_threadsafe(_start(runner, host, port, served), self._loop).result(timeout=10)
        except OSError as error:
            self.close()
            raise errors.TransientError(
                "PortUnavailable", f"The API cannot listen on {host}:{port}: {error.strerror}; choose another port."
            ) from error
        bound: int = runner.addresses[0][1]
        return bound

    def close(self) -> None:
        """Stop serving; running requests get a second to end."""
        for runner in self._runners:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()  # A loop that is left open complains when the process ends.


async def _start(runner: connections.LimitedRunner, host: str, port: int, served: ServedCertificate | None) -> None:
    await runner.setup()
    context = served.context if served is not None else None
    await web.TCPSite(runner, host, port, ssl_context=context).start()


def build_app(control: Control, tokens: Tokens | None) -> web.Application:
    """Return the application with all routes."""
    app = web.Application(middlewares=[_errors, _authenticate], client_max_size=routes.MAX_BODY_BYTES)
    app[_CONTROL] = control
    app[_TOKENS] = tokens
    app.add_routes([web.route(route.method.value, route.path, _HANDLERS[route.name]) for route in routes.ROUTES])
    app.add_routes(page.routes())
    return app


def build_metrics_app(control: Control) -> web.Application:
    """Return the application with the metrics only."""
    app = web.Application(middlewares=[_errors], client_max_size=routes.MAX_BODY_BYTES)
    app[_CONTROL] = control
    app.add_routes([web.get("/metrics", _metrics)])
    return app


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except errors.SpecRejectedError as error:
        return _error(400, error.reason, error.message)
    except errors.PreconditionFailedError as error:
        return _error(409, error.reason, error.message)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} {request.path}: this path takes {allowed}."
        return _error(405, "MethodNotAllowed", message, {"Allow": allowed})
    except web.HTTPRequestEntityTooLarge:
        message = f"{request.method} {request.path}: a body has at most {routes.MAX_BODY_BYTES} bytes."
        return _error(413, "RequestEntityTooLarge", message)
    except web.HTTPException as error:
        return _error(error.status, error.reason.replace(" ", ""), f"{request.method} {request.path}: {error.reason}.")


@web.middleware
async def _authenticate(request: web.Request, handler: _Handler) -> web.StreamResponse:
    if not request.path.startswith("/v1/"):
        return await handler(request)
    tokens = request.app[_TOKENS]
    if tokens is None:
        # A web page whose name was made to lead here names itself.
        name = request.host if request.host.endswith("]") else request.host.rpartition(":")[0] or request.host
        if request.method == "GET" and name in _NAMES_OF_THIS_MACHINE:
            return await handler(request)
        message = (
            "This driver has no token: it answers GET requests from localhost and refuses all others. Set "
            f"{config.ENV_TOKEN} to a secret for the driver and its clients, and start the driver again."
        )
        return _error(401, "TokenNotSet", message, _CHALLENGE)
    # aiohttp keeps bytes that are no UTF-8 as surrogates.
    presented = request.headers.get("Authorization", "").removeprefix("Bearer ").encode(errors="surrogateescape")
    # All are compared, whichever fits: the time says nothing.
    fitting = [hmac.compare_digest(presented, token.encode()) for token in tokens.accepted()]
    if True not in fitting:
        return _error(401, "Unauthorized", "Present the job's token: Authorization: Bearer <token>.", _CHALLENGE)
    return await handler(request)


_HANDLERS: dict[str, _Handler] = {}


def _answers(route: str) -> Callable[[_Handler], _Handler]:
    """Return a decorator that makes a function the handler of a route, by its name."""

    def register(handler: _Handler) -> _Handler:
        _HANDLERS[route] = handler
        return handler

    return register


@_answers("getStatus")
async def _status(request: web.Request) -> web.Response:
    """Answer when there are news, or after `waitSeconds`; so a failure is told before the driver exits."""
    control, loop = request.app[_CONTROL], asyncio.get_running_loop()
    answer_at_s = loop.time() + _wait_s(request)
    first = now = control.status()
    while (now.state, now.last_error) == (first.state, first.last_error) and loop.time() < answer_at_s:
        await asyncio.sleep(_POLL_INTERVAL_S)
        now = control.status()
    return _json(now)


@_answers("getConfig")
async def _config(request: web.Request) -> web.Response:
    job_config = request.app[_CONTROL].config()
    if job_config is None:
        raise errors.PreconditionFailedError("NotConfigured", "This job was started without a configuration.")
    return _json(job_config)


@_answers("putCheckpointConfig")
async def _put_checkpoint_config(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].configure(await _body(request, config.CheckpointConfig)))


@_answers("getCheckpoints")
async def _checkpoints(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].checkpoints())


@_answers("getCheckpoint")
async def _checkpoint(request: web.Request) -> web.Response:
    text = request.match_info["snapshotId"]
    number = _whole_number(text)
    if not number:
        raise errors.SpecRejectedError("RequestInvalid", f"The number of a checkpoint is expected (got {_echo(text)}).")
    details = request.app[_CONTROL].checkpoint(number)
    if details is None:
        return _error(
            404,
            "SnapshotUnknown",
            f"This driver remembers no snapshot {number}; `statefulspark checkpoint show` reads it from storage.",
        )
    return _json(details)


@_answers("getBatches")
async def _batches(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].batches())


@_answers("getState")
async def _state(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].state())


@_answers("getLosses")
async def _losses(request: web.Request) -> web.Response:
    control = request.app[_CONTROL]
    return _json(losses.tell(control.status(), control.batches()))


@_answers("createCheckpoint")
async def _post_checkpoint(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].request_checkpoint(await _body(request, api.CheckpointRequest)), 202)


@_answers("createSavepoint")
async def _post_savepoint(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].request_savepoint(await _body(request, api.SavepointRequest)), 202)


@_answers("stop")
async def _post_stop(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].request_stop(await _body(request, api.StopRequest)), 202)


@_answers("activate")
async def _post_activation(request: web.Request) -> web.Response:
    return _json(request.app[_CONTROL].request_activation(await _body(request, api.ActivateRequest)), 202)


@_answers("getOperation")
async def _operation(request: web.Request) -> web.Response:
    """Answer when the operation has ended, or after `waitSeconds`; so a stop's outcome is sent before the driver exits."""
    request_id = request.match_info["requestId"]
    loop = asyncio.get_running_loop()
    answer_at_s = loop.time() + _wait_s(request)
    while True:
        operation = request.app[_CONTROL].operation(request_id)
        if operation is None:
            return _error(
                404,
                "OperationUnknown",
                f"This driver does not know the request {_echo(request_id)}; it may have been restarted.",
            )
        if operation.state is not api.OperationState.IN_PROGRESS or loop.time() >= answer_at_s:
            return _json(operation)
        await asyncio.sleep(_POLL_INTERVAL_S)


def _wait_s(request: web.Request) -> float:
    text = request.query.get("waitSeconds", "0")
    seconds = _whole_number(text)
    if seconds is None or seconds > routes.MAX_WAIT_S:
        raise errors.SpecRejectedError(
            "RequestInvalid", f"waitSeconds: it must be a whole number up to {routes.MAX_WAIT_S} (got {_echo(text)})."
        )
    return float(seconds)


def _whole_number(text: str) -> int | None:
    """Return a number in ASCII digits; None for anything else, and for more digits than any number here has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _echo(value: object) -> str:
    """Return a value as it is quoted in an answer; the end of a long one is left out."""
    text = repr(value)
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"


@_answers("getHealth")
async def _healthz(request: web.Request) -> web.Response:
    alive = request.app[_CONTROL].is_alive()
    return web.Response(text="ok\n" if alive else "the job loop does not run\n", status=200 if alive else 503)


@_answers("getReadiness")
async def _readyz(request: web.Request) -> web.Response:
    state = request.app[_CONTROL].status().state
    return web.Response(text=f"{state}\n", status=200 if state is api.JobState.RUNNING else 503)


@_answers("getMetrics")
async def _metrics(request: web.Request) -> web.Response:
    control = request.app[_CONTROL]
    kept = await asyncio.to_thread(memory.by_part)
    text = metrics.render(control.status(), control.checkpoints(), requests.counts(), kept)
    return web.Response(text=text, content_type="text/plain")


@_answers("getOpenApi")
async def _openapi(_: web.Request) -> web.Response:
    return web.Response(text=openapi.render(), content_type="application/json")


async def _body(request: web.Request, model: type[_Body]) -> _Body:
    """Read a body to the letter of its schema: `"drain": "no"` is an error, and never true."""
    try:
        return model.model_validate_json(await request.read(), strict=True)
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError) as error:
        raise errors.SpecRejectedError("RequestInvalid", f"the body: it cannot be read: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise errors.SpecRejectedError(
            "RequestInvalid", f"{field}: {first['msg']} (got {_echo(first['input'])})."
        ) from error


def _json(value: base.WireModel, status: int = 200) -> web.Response:
    return web.Response(
        text=outgoing.without_secrets(value.to_json()), status=status, content_type="application/json", headers=_PRIVATE
    )


def _error(status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    response = _json(api.ApiError(reason=reason, message=message), status)
    response.headers.update(headers or {})
    return response
