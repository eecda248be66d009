"""Runs the job loop with the HTTP API, and handles the signals that end it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from statefulspark import errors, launch, outgoing
from statefulspark.contract import config
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.status import Ending
from statefulspark.driver.terminal import live
from statefulspark.server import tokens
from statefulspark.server.control import Control
from statefulspark.server.http import ApiServer

_log = logging.getLogger(__name__)


def serve(loop: JobLoop, job_config: config.JobConfig) -> Ending:
    """Run the loop and the HTTP API until the job ends."""
    with serving(loop, job_config):
        return drive(loop)


def drive(loop: JobLoop) -> Ending:
    """Run the loop until the job ends; signals drain it."""

    def on_signal(number: int, _: FrameType | None) -> None:
        _log.info("signal received, draining", extra={"signal": signal.Signals(number).name})
        loop.drain()

    # Some notebooks run their cells in another thread, which cannot handle signals.
    numbers = launch.STOP_SIGNALS if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        signal.signal(number, on_signal)
    with live.watching(loop) if live.is_watched() else contextlib.nullcontext():
        return loop.run()


@contextlib.contextmanager
def serving(control: Control, job_config: config.JobConfig) -> Iterator[None]:
    """Serve the HTTP API while the block runs.

    Raises:
        TransientError: `PortUnavailable`.
        SpecRejectedError: The certificate or the token cannot be used, as `require_usable` of both.
    """
    accepted: tokens.Tokens | None = None
    if job_config.api_token_file is not None:
        accepted = tokens.MountedTokens(job_config.api_token_file)
    elif token := os.environ.get(config.ENV_TOKEN):
        outgoing.keep_out(token)
        accepted = tokens.FixedToken(token)
    if accepted is None:
        # While a job is developed on one machine, nobody has asked for the API.
        level = logging.INFO if job_config.storage.allow_local_files else logging.WARNING
        what = "the API below /v1 answers questions of this machine only, and refuses requests; set a token to use it"
        _log.log(level, what, extra={"variable": config.ENV_TOKEN})
    server = _listen(control, job_config, accepted)
    scheme = "https" if job_config.api_tls is not None else "http"
    _log.info("api listening", extra={"port": server.port, "page": f"{scheme}://localhost:{server.port}/ui"})
    try:
        yield
    finally:
        server.close()


def _listen(control: Control, job_config: config.JobConfig, accepted: tokens.Tokens | None) -> ApiServer:
    """Return the server, at the usual port if any will do and nobody has it: that is where people look."""
    # Without a configured token the API listens on this machine only.
    host = "0.0.0.0" if accepted else "127.0.0.1"  # noqa: S104 - the operator calls from another pod

    def listen(port: int) -> ApiServer:
        tls, metrics_port = job_config.api_tls, job_config.metrics_port
        return ApiServer(control, tokens=accepted, host=host, port=port, metrics_port=metrics_port, tls=tls)

    if job_config.api_port == 0:
        with contextlib.suppress(errors.TransientError):
            return listen(config.DEFAULT_API_PORT)
    return listen(job_config.api_port)
