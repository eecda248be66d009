"""Log a connection that does not speak HTTP in one line, without a stack.

A browser that tries https on a port without TLS, a port scanner and a health check of a load balancer all do that. aiohttp
logs the stack of its parser for each, some twenty lines, in the terminal of a person whose job has nothing to do with it.
"""

from __future__ import annotations

import logging
from functools import cache

from aiohttp import http_exceptions, web

_log = logging.getLogger(__name__)


class _OneLine(logging.Filter):
    """Shortens records of requests that could not be read; others pass as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, without the stack of the parser."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, (http_exceptions.HttpProcessingError, web.RequestPayloadError)):
            record.msg, record.args = "a connection did not speak HTTP and was closed", ()
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            record.exc_info = record.exc_text = None
        return True


@cache
def logger() -> logging.Logger:
    """Return the logger that aiohttp's server uses."""
    _log.addFilter(_OneLine())
    return _log
