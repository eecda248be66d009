"""When readers see a batch of a sink: once a checkpoint covers it, or as soon as Spark has committed it. Pure.

A batch that Spark has committed runs again only if the job goes back to an older snapshot. A sink that shows each batch at
once refuses such a start, since the same batches could come out otherwise (`standing.Standing.STATE_BEHIND`).
"""

from __future__ import annotations

from enum import StrEnum

from statefulspark import errors


class Visibility(StrEnum):
    """When a batch becomes visible."""

    CHECKPOINT = "checkpoint"
    """When a checkpoint that covers it is complete."""
    BATCH = "batch"
    """When Spark has committed it."""


def parse(value: object, sink: str) -> Visibility:
    """Return the visibility that a sink was given.

    Args:
        value: What its `visible` is.
        sink: The name of its class, for the error.

    Raises:
        InvalidArgumentError: `SinkSettingRefused`.
    """
    if isinstance(value, str) and value in tuple(Visibility):
        return Visibility(value)
    allowed = " or ".join(repr(visibility.value) for visibility in Visibility)
    raise errors.InvalidArgumentError("SinkSettingRefused", f"visible={value!r} of {sink} is not known; use {allowed}.")


def sink_visibility(sink: object) -> Visibility:
    """Return the visibility of a sink; sinks without `visible` show their batches at checkpoints.

    Raises:
        InvalidArgumentError: `SinkSettingRefused`.
    """
    return parse(getattr(sink, "visible", Visibility.CHECKPOINT), type(sink).__name__)
