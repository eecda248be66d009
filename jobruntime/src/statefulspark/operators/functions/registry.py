"""Which stateful sources a job has: filled while its queries are built, given their state before they start.

`from_source` runs inside a query function, when it is not decided yet where the job starts; so it only declares. When the
queries are built, and the place of their state is known, `SourceRegistry.bind` makes every source ready to be asked.
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
    """A source as it was declared.

    Attributes:
        uid: Its uid; state and segments are found by it.
        query_uid: The query that reads it.
        function: The prototype.
        parallelism: Number of subtasks.
        schema: Of its rows.
        buffer_rows: Rows that a subtask may be ahead of the stream.
    """

    uid: str
    query_uid: str
    function: SourceFunction[object]
    parallelism: int
    schema: pa.Schema
    buffer_rows: int

    @property
    def feed_id(self) -> str:
        """How the data source asks for it."""
        return f"{self.query_uid}/{self.uid}"


class SourceRegistry:
    """All stateful sources of a job, and the socket where they are asked."""

    def __init__(self) -> None:
        """Know of none."""
        self._declared: dict[str, DeclaredSource] = {}
        self._rendezvous: Rendezvous | None = None

    @property
    def declared(self) -> tuple[DeclaredSource, ...]:
        """Every source, in the order of declaration."""
        return tuple(self._declared.values())

    @property
    def rendezvous(self) -> Rendezvous:
        """The socket; made when the first source is declared."""
        if self._rendezvous is None:
            self._rendezvous = Rendezvous()
        return self._rendezvous

    @property
    def feeds(self) -> tuple[SourceFeed, ...]:
        """Every source that was bound."""
        return self._rendezvous.feeds if self._rendezvous else ()

    def of_query(self, query_uid: str) -> tuple[DeclaredSource, ...]:
        """Return the sources that one query reads."""
        return tuple(one for one in self._declared.values() if one.query_uid == query_uid)

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
        """End all sources."""
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
        registry: Gets them; one for all queries of a job.
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
        SpecRejectedError: `NoQuery`: none is.
    """
    found = _building.get()
    if found is None:
        raise errors.SpecRejectedError(
            "NoQuery", "ss.from_source() is called outside a query function; call it inside one (@job.query)."
        )
    return found
