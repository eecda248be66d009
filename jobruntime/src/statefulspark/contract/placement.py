"""The placement of key groups on partitions, and the names of an operator's state variables, which record it on storage."""

from __future__ import annotations

import enum
import re


class Placement(enum.StrEnum):
    """Placement of key groups on partitions; it never changes for existing state."""

    HASHED = "hashed"
    """Group `g` is in partition `hash(g)` modulo the number of partitions, which is uneven: used before `EVEN`."""
    EVEN = "even"
    """Group `g` is in partition `g` modulo the number of partitions."""

    def head(self, uid: str) -> str:
        """Return the name of the variable with the heads of an operator's key groups."""
        return f"{_PREFIXES[self]}head_{uid}"

    def log(self, uid: str) -> str:
        """Return the name of the variable with the chunks of an operator's key groups."""
        return f"{_PREFIXES[self]}log_{uid}"

    @staticmethod
    def of_variable(name: str) -> tuple[str, Placement] | None:
        """Return uid and placement of the operator whose heads a state variable holds; None for other variables."""
        match = _HEAD.match(name)
        return None if match is None else (match["uid"], _OF_PREFIX[match["prefix"]])


_PREFIXES = {Placement.HASHED: "", Placement.EVEN: "even_"}
_OF_PREFIX = {prefix: placement for placement, prefix in _PREFIXES.items()}
_HEAD = re.compile(r"^(?P<prefix>(?:even_)?)head_(?P<uid>.+)$")
