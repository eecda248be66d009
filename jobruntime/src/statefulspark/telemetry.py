"""Logging of the driver and of the operator: text for people at a terminal, one JSON object per line for everything else.

Messages are constant and values travel in `extra`, so a log can be searched by field, under the same names in both. Nothing
else formats log lines or configures logging.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes that every record has; what else a record carries came from `extra`."""
_OURS = "statefulspark"
ENV_VERBOSE = "STATEFULSPARK_VERBOSE"


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    """`12:00:01 INFO loop: snapshot completed location=s3://...`."""
    JSON = "json"
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., <extra fields>, "stack": ...}`."""


class Detail(Enum):
    """How much is logged."""

    BRIEF = "brief"
    """What changes, and what went wrong in a sentence; of stacks the user's own calls."""
    VERBOSE = "verbose"
    """Why nothing changes, too, and the stacks of Spark and of this product."""


def is_verbose() -> bool:
    """Tell whether stacks of Spark and of this product are wanted."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def configure(
    log_format: LogFormat | None = None, stream: TextIO | None = None, *, detail: Detail = Detail.BRIEF
) -> None:
    """Send every log record of this process to one stream.

    Args:
        log_format: Text at a terminal and JSON elsewhere when omitted.
        stream: Standard error when omitted.
        detail: How much is logged.
    """
    target = stream or sys.stderr
    chosen = log_format or (LogFormat.TEXT if target.isatty() else LogFormat.JSON)
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter() if chosen is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    verbose = detail is Detail.VERBOSE
    logging.getLogger(_OURS).setLevel(logging.DEBUG if verbose else logging.NOTSET)
    # py4j logs every call that ends with the JVM, which a stop does on purpose, and what Spark then reports as an exception.
    logging.getLogger("py4j").setLevel(logging.ERROR if verbose else logging.CRITICAL)


class TextFormatter(logging.Formatter):
    """A line per record, its extra fields behind the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with a stack trace below it if the record carries one."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = dict(_extra(record))
        stack = extra.pop("stack", None)
        fields = "".join(f" {name}={value}" for name, value in extra.items())
        line = f"{time} {record.levelname} {record.name.rpartition('.')[2]}: {record.getMessage()}{fields}"
        line = line if stack is None else f"{line}\n{stack}"
        return line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line; values that JSON does not know are written as text."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in _extra(record).items() if name not in fields}
        if record.exc_info:
            fields["stack"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the values that a caller gave with `extra`; None says nothing."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
