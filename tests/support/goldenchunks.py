"""The content of the golden files of keyed state in `tests/golden/state/`: chunks of each form, and a head."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping

import columnchunk
import numpy as np
from statefulspark.packs import ranges
from statefulspark.state import (
    aggregatingstate,
    chunks,
    heads,
    kinds,
    liststate,
    mapstate,
    numbers,
    tables,
    timers,
    valuestate,
)


def _meta(name: str, kind: kinds.StateKind, type_text: str = "any", *, has_ttl: bool = False) -> kinds.StateMeta:
    return kinds.StateMeta(name, kind, type_text, has_ttl)


FULL = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (
        chunks.Section(
            _meta("value", valuestate.VALUE, "double"),
            {"AA": 1.5, None: -0.25, ("UA", 7): 2.0, datetime.date(2013, 1, 1): 0.0},
        ),
        chunks.Section(_meta("mean", aggregatingstate.AGGREGATING), {1: (10, 4), 2: (2**70, 1)}),
        chunks.Section(
            _meta("best", aggregatingstate.REDUCING, has_ttl=True),
            {"AA": (decimal.Decimal("1.20"), 1700000000000)},
        ),
        chunks.Section(
            _meta("list", liststate.LIST, "array<any>"),
            {"AA": liststate.ListChange(0, [1, "two", b"three", None, [4, (5,)], {"six": 6}])},
        ),
        chunks.Section(
            _meta("map", mapstate.MAP, "map<bigint,any>"),
            {
                "AA": mapstate.MapChange(
                    replaced=True, puts={1: datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC), 2: None}
                )
            },
        ),
    ),
)
DELTA = chunks.Chunk(
    chunks.ChunkKind.DELTA,
    (
        chunks.Section(_meta("value", valuestate.VALUE, "double"), {"AA": 2.5, "B6": tables.DELETED}),
        chunks.Section(
            _meta("list", liststate.LIST, "array<any>"),
            {"AA": liststate.ListChange(6, [7]), "B6": tables.DELETED},
        ),
        chunks.Section(
            _meta("map", mapstate.MAP, "map<bigint,any>"),
            {"AA": mapstate.MapChange(replaced=False, puts={3: "x"}, removed={1}), "B6": tables.DELETED},
        ),
    ),
)

TYPES = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (
        chunks.Section(
            _meta("record", valuestate.VALUE, "record<carrier:str,delay:int,color:enum<RED,BLUE>>"),
            {"AA": ("AA", 3, "RED"), "B6": ("B6", -1, None)},
        ),
        chunks.Section(
            _meta("colors", liststate.LIST, "array<enum<RED,BLUE>>"),
            {"AA": liststate.ListChange(0, ["RED", "BLUE"])},
        ),
        chunks.Section(
            _meta("degrees", mapstate.MAP, "map<str,codec<degrees,2>>", has_ttl=True),
            {"AA": mapstate.MapChange(replaced=True, puts={"JFK": (215, 1700000000000)})},
        ),
        chunks.Section(
            _meta("struct", valuestate.VALUE, "struct<a:bigint,b:array<string>>"), {7: {"a": 1, "b": ["x"]}}
        ),
        chunks.Section(
            timers.meta_of(timers.TimeDomain.EVENT_TIME),
            {"AA": mapstate.MapChange(replaced=True, puts={1700000000000: None})},
        ),
    ),
)
NUMBERS = chunks.Chunk(
    chunks.ChunkKind.DELTA,
    (
        chunks.Section(
            _meta("count", aggregatingstate.REDUCING, "int"),
            numbers.Numbers(np.array([-1, 2, 2**40]), np.array([100, -3, 200])),
        ),
        chunks.Section(
            _meta("sum", aggregatingstate.REDUCING, "float"), numbers.Numbers(np.array([7]), np.array([0.25]))
        ),
        chunks.Section(_meta("best", aggregatingstate.REDUCING), {"AA": 1, 5: tables.DELETED}),
    ),
)
LONG = chunks.Chunk(
    chunks.ChunkKind.FULL,
    (chunks.Section(_meta("count", valuestate.VALUE, "int"), {f"user-{key}": key % 7 for key in range(200)}),),
)

_PACK = "2-1/00000007-00000001-fedcba9876543210-00000003-00000003.pack"
HEAD = heads.GroupHead(
    9,
    "c",
    (
        heads.ChunkRun(2, 900, 40, ranges.PackRange(_PACK, 84, 3, 0x52D8B3A3)),
        heads.ChunkRun(7, 80, 3),
        heads.ChunkRun(9, 77, 2, ranges.PackRange(_PACK, 4, 80, 0x6988C157)),
    ),
    ("a", "b", "c"),
    "string, bigint",
)
CHUNKS = {
    "full": FULL,
    "delta": DELTA,
    "types": TYPES,
    "numbers": NUMBERS,
    "columns": columnchunk.as_columns(),
    "timers": columnchunk.timers_as_columns(),
}
FILES: Mapping[str, bytes] = {
    **{f"chunk-v1-{name}.bin": chunks.encode(chunk) for name, chunk in CHUNKS.items()},
    "chunk-v1-compressed.bin": chunks.seal(chunks.encode(LONG)),
    "head-layout-v1.bin": HEAD.pack_layout(),
}
"""Golden files, as they are written now."""
