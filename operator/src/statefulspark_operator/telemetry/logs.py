"""Logging of the operator: the same format as the driver's, and only warnings of libraries."""

from __future__ import annotations

import logging

from statefulspark import telemetry

_QUIET = ("kopf", "aiohttp", "asyncio", "kubernetes", "botocore", "aiobotocore", "s3fs", "fsspec")


def configure(log_format: str) -> None:
    """Send all logs to standard error.

    Args:
        log_format: `json` or `text`.
    """
    telemetry.configure(telemetry.LogFormat(log_format))
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
