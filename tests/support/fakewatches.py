"""Watches of the ConfigMap that a simulated job names, as the operator's port has them; closed until a test opens them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statefulspark_operator.cluster.gateway import JobKey


@dataclass
class FakeWatches:
    """The watch of one job's ConfigMap.

    Attributes:
        wake: Requests a pass.
        is_open: Whether changes are shown.
        followed: The ConfigMap that the job names.
        changes: Number of changes that were shown.
    """

    wake: Callable[[], None]
    is_open: bool = False
    followed: str | None = None
    changes: int = 0

    def follow(self, _key: JobKey, name: str | None) -> int | None:
        self.followed = name
        return self.changes if self.is_open and name is not None else None

    def show(self, name: str) -> None:
        """Show a change of a ConfigMap."""
        if self.is_open and name == self.followed:
            self.changes += 1
            self.wake()

    def lose(self) -> None:
        """Close the watch, as when the API server is away; jobs are woken once."""
        self.is_open = False
        self.wake()
