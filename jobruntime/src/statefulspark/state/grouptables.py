"""The tables of one key group: all states of an operator in memory, for all keys or some of them.

They are built from chunks, changed by handles, and return the changes as a chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from statefulspark.state import cells, chunks, evolution, kinds, numbers, tables


class GroupTables:
    """The tables of all states of one key group, by name. States that the job no longer declares stay in it.

    Attributes:
        metas: The states by name.
        tables: Their tables.
        must_rewrite: Whether the next commit writes all, since stored values were converted or dropped.
        next_ms: When the earliest timer may be of keys that the tables do not have, by name of the state.
        version: Number of batches that had changed the key group when the tables were last brought up to date.
        unique_id: Id of the attempt that made the version.
    """

    __slots__ = ("_adopted", "metas", "must_rewrite", "next_ms", "tables", "unique_id", "version")

    def __init__(self) -> None:
        self.version, self.unique_id = 0, ""
        self.next_ms: dict[str, int] = {}
        self.metas: dict[str, kinds.StateMeta] = {}
        self.tables: dict[str, tables.Table] = {}
        self.must_rewrite = False
        self._adopted: list[tuple[evolution.Resolution, int]] = []

    def table(self, meta: kinds.StateMeta) -> tables.Table:
        """Return the table of a state, an empty one if it is new.

        Raises:
            SpecRejectedError: The stored state has another kind or type, or a time to live where there is none now.
        """
        stored = self.metas.get(meta.name)
        if stored is not None and stored != meta:
            self.adopt(evolution.resolve(stored, evolution.Declaration(meta)), now_ms=0)
        elif stored is None:
            self.metas[meta.name] = meta
            self.tables[meta.name] = meta.kind.new_table()
        return self.tables[meta.name]

    def adopt(self, resolution: evolution.Resolution, *, now_ms: int) -> None:
        """Convert stored values to the declared type; the next commit writes the converted values.

        Args:
            resolution: How to convert.
            now_ms: Last renewal of values that get a time to live.
        """
        meta = resolution.meta
        if resolution.rewrites:
            table, had_ttl = self.tables[meta.name], self.metas[meta.name].has_ttl
            convert, change = resolution.convert, resolution.ttl_change

            def rewrite(cell: object) -> object:
                value, renewed_ms = cast("tuple[object, int]", cell) if had_ttl else (cell, now_ms)
                if convert is not None and value is not None:
                    value = convert(value)
                return (value, now_ms if change == "on" else renewed_ms) if meta.has_ttl else value

            for key, row in table.rows.items():
                table.rows[key] = table.convert(row, rewrite)  # type: ignore[arg-type]  # a row of this table
            self.must_rewrite = True
        self.metas[meta.name] = meta
        self._adopted.append((resolution, now_ms))

    def adopt_like(self, part: GroupTables) -> None:
        """Repeat the conversions that were done in a part of this key group."""
        for resolution, now_ms in part._adopted:
            self.adopt(resolution, now_ms=now_ms)

    def drop(self, names: Collection[str]) -> None:
        """Drop states of all keys; the next commit removes them from storage."""
        for name in self.metas.keys() & set(names):
            del self.metas[name], self.tables[name]
            self.must_rewrite = True

    def drop_expired(self, cutoffs_ms: Mapping[str, int]) -> None:
        """Drop entries renewed at or before a time, without marking them as changed: the caller writes all.

        Args:
            cutoffs_ms: The times by name of the state; others keep everything.
        """
        for name in self.tables.keys() & cutoffs_ms.keys():
            table, cutoff_ms = self.tables[name], cutoffs_ms[name]
            alive_rows = ((key, table.alive(row, cutoff_ms)) for key, row in table.rows.items())  # type: ignore[arg-type]  # rows of this table
            retained = {key: row for key, row in alive_rows if row is not None}
            if len(retained) < len(table.rows) or table.has_parts:
                table.rows.clear()
                table.rows.update(retained)

    def set_version(self, version: int, unique_id: str) -> None:
        """Say which version the tables have now."""
        self.version, self.unique_id = version, unique_id

    def written(self) -> None:
        """Reset the pending conversions after they were written."""
        self.must_rewrite = False
        self._adopted.clear()

    def apply(self, chunk: chunks.Chunk) -> None:
        """Apply a chunk to the tables, which may keep its objects and change these later."""
        for section in chunk.sections:
            name = section.meta.name
            if name not in self.tables:
                self.tables[name] = section.meta.kind.new_table()
            self.metas[name] = section.meta
            self.tables[name].apply(section.table_content)  # type: ignore[arg-type]  # numbers are in tables of cells only

    def use_numbers_like(self, chunk: chunks.Chunk) -> None:
        """Hold those states as numbers that a chunk has as numbers, where that is possible."""
        for section in chunk.sections:
            table = self.tables[section.meta.name]
            if isinstance(section.content, numbers.Numbers) and isinstance(table, cells.CellTable):
                table.as_numbers(section.content.kind)

    def take_changes(self) -> chunks.Chunk:
        """Return the changes since the last call as a delta chunk, and reset them."""
        sections = ((self.metas[name], table.take_changes()) for name, table in self.tables.items())
        changed = tuple(chunks.Section(meta, changes) for meta, changes in sections if len(changes))
        return chunks.Chunk(chunks.ChunkKind.DELTA, changed)

    def full(self) -> chunks.Chunk:
        """Return the whole content as a full chunk."""
        sections = (
            chunks.Section(self.metas[name], table.full()) for name, table in self.tables.items() if table.count
        )
        return chunks.Chunk(chunks.ChunkKind.FULL, tuple(sections))

    @property
    def keys(self) -> int:
        """Number of keys, counted once per state."""
        return sum(table.count for table in self.tables.values())

    @property
    def arrays(self) -> tuple[int, int]:
        """How many of these keys are in arrays, and the memory that the arrays take."""
        array_tables = [table for table in self.tables.values() if table.array_bytes]
        return sum(table.count for table in array_tables), sum(table.array_bytes for table in array_tables)
