"""Log lines: one JSON object each, or text for a terminal. Messages are constant; values are fields."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_QUIET = ("kopf", "aiohttp", "asyncio", "kubernetes", "botocore", "aiobotocore", "s3fs", "fsspec")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return the values that a caller gave with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time, level, message and fields, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        text = f"{at} {record.levelname:<7} {record.getMessage()} {fields}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure(log_format: str) -> None:
    """Send all logs to standard error.

    Args:
        log_format: `json` or `text`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
