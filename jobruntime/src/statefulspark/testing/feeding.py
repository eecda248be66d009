"""The rows that a test gives to the sources of a job: a file for each time, which a source reads as one batch."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from statefulspark.testing.failures import JobTestError

if TYPE_CHECKING:
    from statefulspark.planning.fed_sources import FedSource

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_FIRST_MTIME_S = 1_700_000_000
"""Spark reads files in the order of their times; each gets a second of its own."""


class Feed:
    """The rows of every source of a job; they are kept while no driver runs."""

    def __init__(self, folder: Path) -> None:
        """Begin without sources, below a folder."""
        self._folder = folder
        self._sources: dict[Path, FedSource] = {}
        self._waiting: list[tuple[Path, Path]] = []
        self._numbers = itertools.count(1)

    def folder_of(self, query: str, source: str) -> Path:
        """Return the folder of a source of a query; it exists."""
        folder = self._folder / query / _UNSAFE.sub("_", source)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def use(self, query: str, sources: Iterable[FedSource]) -> None:
        """Know the sources of a query, in place of those that it had."""
        kept = {folder: source for folder, source in self._sources.items() if source.query != query}
        self._sources = kept | {source.folder: source for source in sources}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all sources."""
        return tuple(sorted({source.name for source in self._sources.values()}))

    @property
    def has_waiting(self) -> bool:
        """Whether rows were added that no query can see yet."""
        return bool(self._waiting)

    def add(self, name: str | None, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows to every source of a name.

        Args:
            name: The name; None where the job has only one.
            rows: By column name; a column that is left out is null.

        Raises:
            JobTestError: There is no such source, or a row does not fit it.
        """
        if name is None and len(self.names) != 1:
            raise JobTestError(f"The job reads {_listed(self.names)}; say which of them gets the rows, by source=.")
        named = [source for source in self._sources.values() if name in (None, source.name)]
        if not named:
            raise JobTestError(
                f"No source of the job is named {name!r}; it reads {_listed(self.names)}. A source has the name that "
                "ss.named_source(..., uid=...) gives it, else that of its topic, table or folder, else that of its format."
            )
        for source in named:
            number = next(self._numbers)
            hidden = source.folder / f"_{number:08d}.parquet"  # Spark does not see names that begin so
            parquet.write_table(_table(source, rows), hidden)
            os.utime(hidden, (_FIRST_MTIME_S + number, _FIRST_MTIME_S + number))
            self._waiting.append((hidden, source.folder / f"{number:08d}.parquet"))

    def release(self) -> None:
        """Let queries see what was added."""
        for hidden, visible in self._waiting:
            hidden.rename(visible)
        self._waiting = []


def _table(source: FedSource, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    columns = set(source.schema.names)
    unknown = next((name for row in rows for name in row if name not in columns), None)
    if unknown is not None:
        raise JobTestError(
            f"The source {source.name!r} of query {source.query!r} has no column {unknown!r}; it has "
            f"{', '.join(source.schema.names)}."
        )
    try:
        return pa.Table.from_pylist([dict(row) for row in rows], schema=source.schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise JobTestError(
            f"The rows do not fit the source {source.name!r} of query {source.query!r}: {error}. Its columns are "
            f"{', '.join(f'{field.name} {field.type}' for field in source.schema)}."
        ) from error


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing that can be fed"
