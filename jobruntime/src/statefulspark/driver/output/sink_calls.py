"""Calls the sinks of a job: an error of a sink class of the job becomes a UserCodeError."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from statefulspark import usercode

_PRODUCT = __name__.partition(".")[0]


@contextlib.contextmanager
def calling(sink: object, uid: str, method: str, *, reason: str = "SinkFailed") -> Iterator[None]:
    """Translate the errors of one call of a sink.

    Args:
        sink: The sink; errors of the product's sinks are not translated.
        uid: Its uid.
        method: The method that is called.
        reason: The reason of the error.

    Raises:
        UserCodeError: With that reason, if the sink's class belongs to the job.
    """
    try:
        yield
    except Exception as error:
        if type(sink).__module__.partition(".")[0] == _PRODUCT:
            raise
        called = f"{type(sink).__qualname__}.{method}() of sink {uid!r}"
        raise usercode.raised(error, reason=reason, called=called) from error


def require_bytes(returned: object) -> None:
    """Refuse what a method of a sink has returned if it is neither bytes nor None; called inside `calling`.

    Raises:
        TypeError: It is something else.
    """
    if returned is not None and not isinstance(returned, bytes):
        raise TypeError(f"it returned {type(returned).__name__}, and has to return bytes, or None")


def require_transaction(returned: bytes | None) -> None:
    """Refuse a transaction that cannot be recorded; called inside `calling`.

    Raises:
        TypeError: It is neither bytes nor None.
        UnicodeDecodeError: It is not UTF-8.
    """
    require_bytes(returned)
    (returned or b"").decode()
