"""Expired entries of whole tables and chunks: dropped when a group is written in full, and left out of an exported chunk.

Cells of a state with a time to live are pairs `(value, last renewal in ms)`. An entry is expired when its last renewal
is at or before the cutoff: the current time minus the time to live.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from statefulspark.state import chunks, tables


def drop_expired(table: tables.Table, cutoff_ms: int) -> None:
    """Drop entries renewed at or before a time, without marking them as changed: the caller writes the table in full."""
    alive = table.alive
    alive_rows = ((key, alive(row, cutoff_ms)) for key, row in table.rows.items())  # type: ignore[arg-type]  # rows of this table
    retained = {key: row for key, row in alive_rows if row is not None}
    if len(retained) < len(table.rows) or table.has_parts:
        table.rows.clear()
        table.rows.update(retained)


def drop_all_expired(group: Mapping[str, tables.Table], cutoffs_ms: Mapping[str, int]) -> None:
    """Drop expired entries of all states that have a cutoff and a table in the key group; see `drop_expired`."""
    for name in group.keys() & cutoffs_ms.keys():
        drop_expired(group[name], cutoffs_ms[name])


def without_expired(chunk: chunks.Chunk, durations_ms: Mapping[str, int], now_ms: int) -> chunks.Chunk:
    """Return a full chunk without its expired entries, for a canonical export (A.29).

    The live state does not change; a restore from the export lacks these entries.

    Args:
        chunk: A full chunk of a key group.
        durations_ms: Time to live by name of the state, for states with `Ttl.full_snapshot`. It comes from the running
            job, not from the snapshot. States that were written without a time to live stay unchanged.
        now_ms: Processing time.
    """
    sections = []
    for section in chunk.sections:
        duration_ms = durations_ms.get(section.meta.name)
        if duration_ms is None or not section.meta.has_ttl:
            sections.append(section)
            continue
        changes = _alive_changes(section, now_ms - duration_ms)
        if changes:
            sections.append(dataclasses.replace(section, content=changes))
    return dataclasses.replace(chunk, sections=tuple(sections))


def _alive_changes(section: chunks.Section, cutoff_ms: int) -> tables.Changes:
    alive_part = section.meta.kind.alive
    alive_entries = (
        (key, change if change is tables.DELETED else alive_part(change, cutoff_ms))  # type: ignore[arg-type]  # of this kind
        for key, change in section.changes.items()
    )
    return {key: change for key, change in alive_entries if change is not None}


def convert_cells(table: tables.Table, convert: Callable[[object], object]) -> None:
    """Replace every cell of a table, without marking it as changed: the caller writes the table in full."""
    rows, convert_row = table.rows, table.convert
    for key, row in rows.items():
        rows[key] = convert_row(row, convert)  # type: ignore[arg-type]  # a row of this table
