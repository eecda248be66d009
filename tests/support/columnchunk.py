"""A small chunk of version 5 with everything that one can have, for `tests/golden/state/chunk-v5-columns.bin`."""

from __future__ import annotations

import dataclasses

import collidingkeys
import numpy as np
from statefulspark.state import timers
from statefulspark.state.handles import kinds
from statefulspark.state.memory import numbers, tables
from statefulspark.state.stored import chunks

_SHARED_HASH = 0x0BADCAFE


def chunk() -> chunks.Chunk:
    """Return the chunk as objects: what is read of it, whatever it is stored as."""
    return chunks.Chunk(
        chunks.ChunkKind.DELTA,
        (
            chunks.Section(
                chunks.StateMeta("value", kinds.VALUE, "any", has_ttl=False),
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
                chunks.StateMeta("mean", kinds.AGGREGATING, "any", has_ttl=True),
                {1: ((10, 4), 1700000000000), 2: ((2**70, 1), 1700000000001), 3: tables.DELETED},
            ),
            chunks.Section(
                chunks.StateMeta("list", kinds.LIST, "array<any>", has_ttl=False),
                {"AA": tables.ListChange(3, [1, "two"]), "B6": tables.ListChange(0, [(1, 2)]), "UA": tables.DELETED},
            ),
            chunks.Section(
                chunks.StateMeta("map", kinds.MAP, "map<string,any>", has_ttl=False),
                {
                    "AA": tables.MapChange(replaced=True, puts={"JFK": 215, "EWR": None}),
                    "B6": tables.MapChange(replaced=False, puts={}, removed={"LGA"}),
                },
            ),
            chunks.Section(
                chunks.StateMeta("count", kinds.REDUCING, "int", has_ttl=False),
                numbers.Numbers(np.array([-1, 2, 2**40]), np.array([100, -3, 200])),
            ),
            chunks.Section(
                timers.meta_of(timers.TimeDomain.EVENT_TIME),
                {"AA": tables.MapChange(replaced=False, puts={1700000000000: None})},
            ),
        ),
    )


def as_columns() -> chunks.Chunk:
    """Return it with all sections as columns that can be stored so."""
    return dataclasses.replace(chunk(), sections=tuple(map(_as_columns, chunk().sections)))


def _as_columns(section: chunks.Section) -> chunks.Section:
    if section.meta.kind.shape.row is None or isinstance(section.content, numbers.Numbers):
        return section
    whole = section.columns()
    assert whole is not None
    return dataclasses.replace(section, content=whole)
