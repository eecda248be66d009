"""Logging of the operator: the same format as the driver's, and only warnings of libraries."""

from __future__ import annotations

import logging

from statefulspark import telemetry

LEVELS = ("debug", "info", "warning", "error")
_QUIET = ("kopf", "aiohttp", "asyncio", "kubernetes", "botocore", "aiobotocore", "s3fs", "fsspec")


def configure(log_format: str, log_level: str = "info") -> None:
    """Send all logs to standard error.

    Args:
        log_format: `json` or `text`.
        log_level: The least severe lines that are logged, one of `LEVELS`.
    """
    is_verbose = log_level == "debug"
    detail = telemetry.Detail.VERBOSE if is_verbose else telemetry.Detail.BRIEF
    telemetry.configure(telemetry.LogFormat(log_format), detail=detail)
    if not is_verbose:
        logging.getLogger().setLevel(log_level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
