"""Which older packs a new one takes over: the oldest, until storage has at most twice what is named."""

from __future__ import annotations

import pytest
from packwriting import a_name
from statefulspark.packs import garbage

_REFERENCES = {batch: a_name(batch).reference for batch in range(1, 9)}

_CASES = {
    "nothing is there": ({}, {}, 10, []),
    "everything is named": ({1: 100, 2: 100}, {1: 100, 2: 100}, 50, []),
    "half is named": ({1: 100, 2: 100}, {1: 50, 2: 50}, 0, []),
    "less than half is named": ({1: 100, 2: 100}, {1: 10, 2: 50}, 0, [1]),
    "the oldest ones go first, though they are named more": ({1: 100, 2: 900}, {1: 90, 2: 10}, 0, [1, 2]),
    "what lies between goes with the oldest": ({1: 10, 2: 900, 3: 100}, {1: 10, 3: 100}, 0, [1]),
    "what is older than all that is named is gone already": ({1: 900, 3: 100}, {3: 60}, 0, []),
    "what is new counts": ({1: 100, 2: 100}, {1: 10, 2: 50}, 100, []),
    "names without bytes are none": ({1: 100, 2: 100}, {1: 0, 2: 60}, 0, []),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_oldest_packs_are_rewritten_until_there_is_less(case: str) -> None:
    stored, named, new_bytes, chosen = _CASES[case]

    assert garbage.choose_rewrites(
        {_REFERENCES[batch]: size for batch, size in stored.items()},
        {_REFERENCES[batch]: size for batch, size in named.items()},
        new_bytes,
    ) == tuple(_REFERENCES[batch] for batch in chosen)
