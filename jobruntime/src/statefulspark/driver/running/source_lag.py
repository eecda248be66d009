"""How far a source is behind, from what Spark reports of a batch. Pure.

Spark reports where a batch ended and, for sources that know it, where the source ended when the batch was planned. Only
Kafka's offsets count rows; of another source, and of offsets that cannot be compared, the lag is unknown and never zero.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Protocol

from statefulspark.contract import api

_KAFKA = re.compile(r"Kafka\w*\[(?:Subscribe|SubscribePattern|Assign)\[(?P<topics>.*)\]\]")
_FILES = re.compile(r"FileStreamSource\[(?P<folder>.*)\]")
_Offsets = dict[tuple[str, str], int]
"""The next offset to read by topic and partition."""


class _SourceProgress(Protocol):
    """What Spark reports of a source of a batch (`SourceProgress`); Java's null is None."""

    def description(self) -> str: ...
    def numInputRows(self) -> int: ...  # noqa: N802 - Spark's names
    def endOffset(self) -> str | None: ...  # noqa: N802
    def latestOffset(self) -> str | None: ...  # noqa: N802


def describe(source: _SourceProgress) -> api.SourceStatus:
    """Return what Spark reports of a source of a batch."""
    return api.SourceStatus(
        name=readable(source.description()),
        input_rows=max(0, source.numInputRows()),
        lag_rows=behind(source.endOffset(), source.latestOffset()),
    )


def behind(end: str | None, latest: str | None) -> int | None:
    """Return how many rows a source had left after a batch; None if that is unknown.

    Args:
        end: Where the batch ended, as Spark reports it.
        latest: Where the source ended when the batch was planned; None if it does not tell.
    """
    read, there = _offsets(end), _offsets(latest)
    if read is None or there is None or not there.keys() <= read.keys():
        return None
    return sum(max(0, offset - read[partition]) for partition, offset in there.items())


def total(sources: Sequence[api.SourceStatus]) -> int | None:
    """Return the lag of the sources that tell theirs; None if none does."""
    lags = [source.lag_rows for source in sources if source.lag_rows is not None]
    return sum(lags) if lags else None


def readable(description: str) -> str:
    """Return what a source reads, for people, from Spark's description of it."""
    kafka = _KAFKA.fullmatch(description)
    if kafka is not None:
        return f"Kafka {kafka['topics']}"
    files = _FILES.fullmatch(description)
    return f"files in {files['folder']}" if files is not None else description


def _offsets(text: str | None) -> _Offsets | None:
    """Read offsets as Kafka's source writes them, `{"clicks":{"0":17}}`; None for anything else."""
    try:
        topics = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(topics, dict) or not all(isinstance(partitions, dict) for partitions in topics.values()):
        return None
    offsets = {(topic, number): offset for topic, partitions in topics.items() for number, offset in partitions.items()}
    return offsets if offsets and all(type(offset) is int for offset in offsets.values()) else None
