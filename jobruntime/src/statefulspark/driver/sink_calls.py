"""The border to sinks that a job brings along: what their methods raise is told as the job's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from statefulspark import usercode

_PRODUCT = __name__.partition(".")[0]


@contextlib.contextmanager
def calling(sink: object, uid: str, method: str, *, reason: str = "SinkFailed") -> Iterator[None]:
    """Stand around one call of a sink.

    Args:
        sink: The sink; one of ours raises what it raises.
        uid: Its uid.
        method: What is called.
        reason: Of the error.

    Raises:
        UserCodeError: With that reason, where the sink's class is the job's own; errors of ours stay what they are.
    """
    try:
        yield
    except Exception as error:
        if type(sink).__module__.partition(".")[0] == _PRODUCT:
            raise
        called = f"{type(sink).__qualname__}.{method}() of sink {uid!r}"
        raise usercode.raised(error, reason=reason, called=called) from error
