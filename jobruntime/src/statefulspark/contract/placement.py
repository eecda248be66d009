"""Which partition a key group is in, and the names of an operator's state variables, which say so on storage."""

from __future__ import annotations

import enum
import re


class Placement(enum.StrEnum):
    """How key groups are spread over partitions; fixed for the life of the state."""

    HASHED = "hashed"
    """Group `g` is in partition `hash(g)` modulo their number, which is uneven: state that was written before `EVEN`."""
    EVEN = "even"
    """Group `g` is in partition `g` modulo their number."""

    def head(self, uid: str) -> str:
        """Return the name of the variable with the heads of an operator's key groups."""
        return f"{_PREFIXES[self]}head_{uid}"

    def log(self, uid: str) -> str:
        """Return the name of the variable with their chunks."""
        return f"{_PREFIXES[self]}log_{uid}"

    @staticmethod
    def of_variable(name: str) -> tuple[str, Placement] | None:
        """Return uid and placement of the operator whose heads a state variable has; None for other variables."""
        found = _HEAD.match(name)
        return None if found is None else (found["uid"], _OF_PREFIX[found["prefix"]])


_PREFIXES = {Placement.HASHED: "", Placement.EVEN: "even_"}
_OF_PREFIX = {prefix: placement for placement, prefix in _PREFIXES.items()}
_HEAD = re.compile(r"^(?P<prefix>(?:even_)?)head_(?P<uid>.+)$")
