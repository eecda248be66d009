"""The stateful sources of a job: recorded while its queries are built, restored before they start.

`read_function` runs inside a query function, before the start of the job is decided, so it only declares a source. After
that `binding.bind_sources` restores the sources.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from statefulspark import errors
from statefulspark.operatorstate.functions import SourceFunction
from statefulspark.sources.feed import SourceFeed
from statefulspark.sources.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """A declared source.

    Attributes:
        uid: Its uid, which identifies its state and segments.
        query_uid: The query that reads it.
        function: The prototype.
        parallelism: Number of subtasks.
        schema: The schema of its rows.
        buffer_rows: Maximum number of rows that a subtask may be ahead of the stream.
    """

    uid: str
    query_uid: str
    function: SourceFunction[object]
    parallelism: int
    schema: pa.Schema
    buffer_rows: int

    @property
    def feed_id(self) -> str:
        """Its id in requests of the data source."""
        return f"{self.query_uid}/{self.uid}"


class SourceRegistry:
    """All stateful sources of a job, and the socket that serves their offsets."""

    def __init__(self) -> None:
        """Start without sources."""
        self._declared: dict[str, DeclaredSource] = {}
        self._rendezvous: Rendezvous | None = None

    @property
    def declared(self) -> tuple[DeclaredSource, ...]:
        """Every source, in the order of declaration."""
        return tuple(self._declared.values())

    @property
    def rendezvous(self) -> Rendezvous:
        """The socket; created with the first declared source."""
        if self._rendezvous is None:
            self._rendezvous = Rendezvous()
        return self._rendezvous

    @property
    def feeds(self) -> tuple[SourceFeed, ...]:
        """The bound sources."""
        return self._rendezvous.feeds if self._rendezvous else ()

    def sources_of(self, query_uid: str) -> tuple[DeclaredSource, ...]:
        """Return the sources that one query reads."""
        return tuple(source for source in self._declared.values() if source.query_uid == query_uid)

    def add(self, source: DeclaredSource) -> None:
        """Record a source.

        Raises:
            SpecRejectedError: `OperatorUidTaken`.
        """
        before = self._declared.get(source.uid)
        if before is not None:
            raise errors.SpecRejectedError(
                "OperatorUidTaken",
                f"The uid {source.uid!r} is used by two sources, in the queries {before.query_uid!r} and "
                f"{source.query_uid!r}. State is found by uid, so give each its own.",
            )
        self._declared[source.uid] = source

    def close(self) -> None:
        """Close all sources."""
        if self._rendezvous is not None:
            self._rendezvous.close()


@dataclass(frozen=True, slots=True)
class Building:
    """The query that is being built."""

    registry: SourceRegistry
    query_uid: str


_building: contextvars.ContextVar[Building | None] = contextvars.ContextVar("statefulspark_sources", default=None)


@contextlib.contextmanager
def collecting(registry: SourceRegistry, *, query_uid: str) -> Iterator[None]:
    """Record the sources that are declared inside the block.

    Args:
        registry: The registry of the job.
        query_uid: The query that is being built.
    """
    token = _building.set(Building(registry, query_uid))
    try:
        yield
    finally:
        _building.reset(token)


def building() -> Building:
    """Return the query that is being built.

    Raises:
        SpecRejectedError: `NoQuery`: no query is being built.
    """
    current = _building.get()
    if current is None:
        raise errors.SpecRejectedError(
            "NoQuery", "ss.read_function() is called outside a query function; call it inside one (@job.query)."
        )
    return current
