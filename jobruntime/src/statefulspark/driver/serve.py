"""Runs the job loop with the HTTP API, and handles the signals that end it."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from types import FrameType

from statefulspark.contract import config
from statefulspark.driver import snapshot_writer
from statefulspark.driver.loop import JobLoop
from statefulspark.server.control import Control
from statefulspark.server.http import ApiServer

_log = logging.getLogger(__name__)


def serve(loop: JobLoop, job_config: config.JobConfig) -> snapshot_writer.Ending:
    """Run the loop and the HTTP API until the job ends."""
    with serving(loop, job_config):
        return drive(loop)


def drive(loop: JobLoop) -> snapshot_writer.Ending:
    """Run the loop until the job ends; signals drain it."""

    def on_signal(number: int, _: FrameType | None) -> None:
        _log.info("signal received, draining", extra={"signal": signal.Signals(number).name})
        loop.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return loop.run()


@contextlib.contextmanager
def serving(control: Control, job_config: config.JobConfig) -> Iterator[None]:
    """Serve the HTTP API while the block runs.

    Raises:
        TransientError: `PortUnavailable`.
    """
    token = os.environ.get(config.ENV_TOKEN)
    if not token:
        _log.warning(
            "the API below /v1 refuses all requests; set a token to use it", extra={"variable": config.ENV_TOKEN}
        )
    server = ApiServer(
        control,
        token=token or secrets.token_urlsafe(24),
        # Without a configured token the API listens on this machine only.
        host="0.0.0.0" if token else "127.0.0.1",  # noqa: S104 - the operator calls from another pod
        port=job_config.api_port,
    )
    _log.info("api listening", extra={"port": server.port})
    try:
        yield
    finally:
        server.close()
