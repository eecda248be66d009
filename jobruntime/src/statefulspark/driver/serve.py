"""Runs the job loop with the HTTP API, and handles the signals that end it."""

from __future__ import annotations

import logging
import os
import secrets
import signal
from types import FrameType

from statefulspark.contract import config
from statefulspark.driver import snapshot_writer
from statefulspark.driver.loop import JobLoop
from statefulspark.server.http import ApiServer

_log = logging.getLogger(__name__)


def serve(loop: JobLoop, job_config: config.JobConfig) -> snapshot_writer.Ending:
    """Run the loop and the HTTP API until the job ends."""

    def on_signal(number: int, _: FrameType | None) -> None:
        _log.info("signal received, draining", extra={"signal": signal.Signals(number).name})
        loop.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    token = os.environ.get(config.ENV_TOKEN)
    if not token:
        _log.warning(
            "the API below /v1 refuses all requests; set a token to use it", extra={"variable": config.ENV_TOKEN}
        )
    server = ApiServer(
        loop,
        token=token or secrets.token_urlsafe(24),
        # Without a configured token the API listens on this machine only.
        host="0.0.0.0" if token else "127.0.0.1",  # noqa: S104 - the operator calls from another pod
        port=job_config.api_port,
    )
    _log.info("api listening", extra={"port": server.port})
    try:
        return loop.run()
    finally:
        server.close()
