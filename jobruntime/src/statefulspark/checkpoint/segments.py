"""Segments of stateful sources: their names on storage and in offset logs. Pure.

A stateful source writes the rows of a batch and its state after them into one file inside the query's root:

```
source-segments/<source uid>/<segment:08d>-<epoch:08d>.arrow
```
The offset that Spark stores is the segment's name: `{"uid": "counter", "segment": 7, "epoch": 3}`. A batch that runs again
reads the same segment; a source that starts after the batch begins with that segment's state. So a snapshot contains
only the segment of its last offsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from statefulspark.contract import layout

FOLDER = "source-segments"

_KEY = re.compile(rf"^{FOLDER}/(?P<uid>[^/]+)/(?P<segment>\d{{8,}})-(?P<epoch>\d{{8,}})\.arrow$")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """Name of a segment, in offsets and keys.

    Attributes:
        uid: The source.
        segment: Its number, from 1; 0 means the position before the first segment, which has no file.
        epoch: The driver's epoch that wrote it.
    """

    uid: str
    segment: int
    epoch: int

    @property
    def key(self) -> str:
        """Its key below the query's root."""
        return f"{FOLDER}/{self.uid}/{layout.number(self.segment)}-{layout.number(self.epoch)}.arrow"

    @property
    def offset(self) -> dict[str, str | int]:
        """Spark's offset after this segment."""
        return {"uid": self.uid, "segment": self.segment, "epoch": self.epoch}


def beginning(uid: str) -> SegmentName:
    """Return the position before a source's first segment."""
    return SegmentName(uid, 0, 0)


def parse_offset(line: str) -> SegmentName | None:
    """Parse a source's line of the offset log; None if it is not the line of a stateful source."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    uid, segment, epoch = value.get("uid"), value.get("segment"), value.get("epoch")
    if isinstance(uid, str) and layout.is_uid(uid) and isinstance(segment, int) and isinstance(epoch, int):
        return SegmentName(uid, segment, epoch)
    return None


def parse_key(key: str) -> SegmentName | None:
    """Parse a key below a query's root; None if it is not the key of a segment."""
    match = _KEY.match(key)
    return SegmentName(match["uid"], int(match["segment"]), int(match["epoch"])) if match else None


def parse_offsets(lines: Iterable[str]) -> dict[str, SegmentName]:
    """Return the segments that an entry of the offset log names, by uid of the source."""
    names = (parse_offset(line) for line in lines)
    return {name.uid: name for name in names if name is not None}


def needed_keys(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the keys, below the query's root, of the segments that a snapshot with these offsets needs."""
    return tuple(name.key for name in parse_offsets(lines).values() if name.segment > 0)
