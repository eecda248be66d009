"""Keys that are floats: NaN is one key and -0.0 is 0.0, as in Spark's grouping.

Python's NaN does not equal itself, and is found again in a dict only where it is the same object; -0.0 equals 0.0 and is
stored as other bytes. So keys have one form wherever they come from: rows, or what is stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection


def one_form(keys: Collection[object]) -> Collection[object]:
    """Return keys in the one form, in their order; what was given if there are no floats among them or in tuples."""
    kinds = set(map(type, keys))
    if tuple in kinds:
        parts = itertools.chain.from_iterable(key for key in keys if type(key) is tuple)
        if float in set(map(type, parts)):
            return [tuple(map(_of, key)) if type(key) is tuple else _of(key) for key in keys]
    return list(map(_of, keys)) if float in kinds else keys


def _of(part: object) -> object:
    if type(part) is not float:
        return part
    return math.nan if math.isnan(part) else part + 0.0
