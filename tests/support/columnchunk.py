"""Small chunks of columns with everything that one can have, for `tests/golden/state/`: with timers and without."""

from __future__ import annotations

import dataclasses

import collidingkeys
import numpy as np
from statefulspark.state import (
    aggregatingstate,
    chunks,
    columns,
    kinds,
    liststate,
    mapstate,
    numbers,
    tables,
    timers,
    valuestate,
)

_SHARED_HASH = 0x0BADCAFE


def chunk() -> chunks.Chunk:
    """Return the chunk as objects: what is read of it, whatever it is stored as."""
    return chunks.Chunk(
        chunks.ChunkKind.DELTA,
        (
            chunks.Section(
                kinds.StateMeta("value", valuestate.VALUE, "any", has_ttl=False),
                {
                    "AA": "first",
                    None: {"nested": [1, (2.5, None)]},
                    ("UA", 7): -(2**70),
                    collidingkeys.with_hash(_SHARED_HASH, b"one"): b"\x00\xff",
                    collidingkeys.with_hash(_SHARED_HASH, b"two"): True,
                    "gone": tables.DELETED,
                    7: None,
                },
            ),
            chunks.Section(
                kinds.StateMeta("mean", aggregatingstate.AGGREGATING, "any", has_ttl=True),
                {1: ((10, 4), 1700000000000), 2: ((2**70, 1), 1700000000001), 3: tables.DELETED},
            ),
            chunks.Section(
                kinds.StateMeta("list", liststate.LIST, "array<any>", has_ttl=False),
                {
                    "AA": liststate.ListChange(3, [1, "two"]),
                    "B6": liststate.ListChange(0, [(1, 2)]),
                    "UA": tables.DELETED,
                },
            ),
            chunks.Section(
                kinds.StateMeta("map", mapstate.MAP, "map<string,any>", has_ttl=False),
                {
                    "AA": mapstate.MapChange(replaced=True, puts={"JFK": 215, "EWR": None}),
                    "B6": mapstate.MapChange(replaced=False, puts={}, removed={"LGA"}),
                },
            ),
            chunks.Section(
                kinds.StateMeta("count", aggregatingstate.REDUCING, "int", has_ttl=False),
                numbers.Numbers(np.array([-1, 2, 2**40]), np.array([100, -3, 200])),
            ),
            chunks.Section(
                timers.meta_of(timers.TimeDomain.EVENT_TIME),
                {"AA": mapstate.MapChange(replaced=False, puts={1700000000000: None})},
            ),
        ),
    )


def as_columns() -> chunks.Chunk:
    """Return it with all sections as columns that can be stored so in version 5."""
    return dataclasses.replace(
        chunk(),
        sections=tuple(
            section if section.meta.kind.has_moments else _as_columns(section) for section in chunk().sections
        ),
    )


def timers_chunk() -> chunks.Chunk:
    """Return a chunk with timers as objects."""
    few = {7: None, 1700000000000: None, -(2**63) + 1: None}
    return chunks.Chunk(
        chunks.ChunkKind.DELTA,
        (
            *chunk().sections[:1],
            chunks.Section(
                timers.meta_of(timers.TimeDomain.EVENT_TIME),
                {
                    "AA": mapstate.MapChange(replaced=True, puts=few),
                    ("UA", 7): mapstate.MapChange(replaced=True, puts=dict.fromkeys(range(100, 140))),
                    "B6": mapstate.MapChange(replaced=False, puts={2**63 - 1: None}, removed={1700000000001, 5}),
                    None: mapstate.MapChange(replaced=False, puts={}, removed={6}),
                    "gone": tables.DELETED,
                },
            ),
            chunks.Section(
                timers.meta_of(timers.TimeDomain.PROCESSING_TIME),
                {"AA": mapstate.MapChange(replaced=True, puts={8: None})},
            ),
        ),
    )


def timers_as_columns() -> chunks.Chunk:
    """Return it with all sections as columns."""
    return dataclasses.replace(timers_chunk(), sections=tuple(map(_as_columns, timers_chunk().sections)))


def columns_of(changes: tables.Changes, kind: kinds.StateKind) -> columns.Columns:
    """Return changes as columns, which are not too large for it."""
    made = columns.Columns.from_changes(changes, kind)
    assert made is not None
    return made


def _as_columns(section: chunks.Section) -> chunks.Section:
    if isinstance(section.content, numbers.Numbers):
        return section
    whole = section.columns()
    assert whole is not None
    return dataclasses.replace(section, content=whole)
