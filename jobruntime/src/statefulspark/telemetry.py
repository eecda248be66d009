"""Logging of the driver and of the operator: text for people at a terminal, one JSON object per line for everything else.

Messages are constant and values are in `extra`, so a log can be searched by field, with the same names in both formats. No
other module formats log lines or configures logging.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import TextIO

from statefulspark import outgoing

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes that every record has; all others come from `extra`."""
_PRODUCT_LOGGER = "statefulspark"
ENV_VERBOSE = "STATEFULSPARK_VERBOSE"
ENV_PLAIN = "STATEFULSPARK_PLAIN"


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    """`12:00:01 INFO loop: snapshot completed location=s3://...`."""
    JSON = "json"
    """`{"time": ..., "level": ..., "logger": ..., "message": ..., <extra fields>, "stack": ...}`."""


class Detail(Enum):
    """How much is logged."""

    BRIEF = "brief"
    """Changes, failures in one sentence, and the stack frames of the user's code."""
    VERBOSE = "verbose"
    """Also why nothing changes, and the stacks of Spark and of this product."""


def enable_loggers() -> None:
    """Enable the loggers of this product again: a job that configures logging with `dictConfig` disables all that exist."""
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == _PRODUCT_LOGGER:
            logger.disabled = False


def is_verbose() -> bool:
    """Tell whether stacks of Spark and of this product are logged."""
    return logging.getLogger(_PRODUCT_LOGGER).isEnabledFor(logging.DEBUG)


def is_for_people() -> bool:
    """Tell whether log lines are text, as at a terminal, and not JSON, as in a pod."""
    return any(isinstance(handler.formatter, TextFormatter) for handler in logging.getLogger().handlers)


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
    logging.getLogger(_PRODUCT_LOGGER).setLevel(logging.DEBUG if verbose else logging.NOTSET)
    # py4j logs every call that fails because the JVM ends, which a stop does on purpose; Spark reports real failures itself.
    logging.getLogger("py4j").setLevel(logging.ERROR if verbose else logging.CRITICAL)


class TextFormatter(logging.Formatter):
    """One line per record, with its extra fields after the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with a stack trace below it if the record has one; on a terminal, it has no commands of it."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extra = dict(_extra(record))
        stack = extra.pop("stack", None)
        fields = "".join(f" {name}={value}" for name, value in extra.items())
        line = f"{time} {record.levelname} {record.name.rpartition('.')[2]}: {record.getMessage()}{fields}"
        line = line if stack is None else f"{line}\n{stack}"
        line = line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"
        return outgoing.printable(outgoing.without_secrets(line))


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line; values without a JSON form are written as text."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in _extra(record).items() if name not in fields}
        if record.exc_info:
            fields["stack"] = self.formatException(record.exc_info)
        return outgoing.without_secrets(json.dumps(fields, default=str, ensure_ascii=False))


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the values that a caller passed with `extra`, except None."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
