"""`statefulspark state`: prints the state in a snapshot as a table."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statefulspark import errors, jsontext, rowvalues, state_reading
from statefulspark.cli import options
from statefulspark.commandline import commands, tables, terminal, values

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLE = "s3://bucket/prefix/default/words/savepoints/00000043-nightly"
_MAX_CELL_WIDTH = 60


class StateOutput(StrEnum):
    """The output formats of state."""

    TEXT = "text"
    """Columns for people."""
    JSON = "json"
    """One object per line."""
    PARQUET = "parquet"
    """A Parquet file."""
    ARROW = "arrow"
    """An Arrow IPC stream."""


command = commands.Group(
    "state",
    short_help="read the state in a snapshot",
    help="Read the state in a checkpoint or savepoint. No job has to run; nothing is changed.",
    epilog=f"example:\n  statefulspark state read {_EXAMPLE} --uid counts",
)


@command.command(
    "read",
    short_help="write the state of one operator as a table",
    help="Write the state of one operator or function as a table. A canonical savepoint is read directly. Any other "
    "snapshot is read with Spark on this machine, which needs disk for the state of one query and some seconds to start.",
    epilog=f"examples:\n  statefulspark state read {_EXAMPLE} --uid counts --limit 20\n"
    f"  statefulspark state read {_EXAMPLE} --uid counts --state seen --key ada -o json\n"
    f"  statefulspark state read {_EXAMPLE} --uid counts -o parquet --file counts.parquet\n\n"
    "exit codes:\n  0 done   15 no such snapshot   16 storage unavailable   17 broken",
)
@options.location
@click.option("--uid", required=True, metavar="UID", help="uid of the operator or function, or QUERY/UID")
@click.option("--state", metavar="NAME", help="name of the state; needed if there are several")
@click.option("--key", metavar="KEY", help="only this key; a key of several columns separated by commas")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="at most this many rows")
@click.option(
    "-o", "--output", type=values.Word(StateOutput), default=StateOutput.TEXT.value, show_default=True,
    help="format of the rows",
)  # fmt: skip
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="write there instead of to the terminal")
@options.connection
def read(
    location: str,
    uid: str,
    state: str | None,
    key: str | None,
    limit: int | None,
    output: StateOutput,
    file: Path | None,
    connection: options.StorageAccess,
) -> None:
    """Run `read`."""
    table = state_reading.read_state(
        location, uid=uid, state=state, key=key, limit=limit, options=connection.settings()
    )
    if output in (StateOutput.PARQUET, StateOutput.ARROW):
        _write_binary(table, output, file)
    elif file is None:
        terminal.write(render(table, output))
    else:
        file.write_text(render(table, output))


def render(table: pa.Table, output: StateOutput) -> str:
    """Return a table as lines of JSON, or as aligned columns."""
    rows = rowvalues.dicts(table)
    if output is StateOutput.JSON:
        return "".join(f"{jsontext.dumps(row)}\n" for row in rows)
    if not table.num_columns:
        return "There is no state.\n"
    cells = [tuple(map(_cell, row.values())) for row in rows]
    return tables.columns([name.upper() for name in table.column_names], cells)


def _write_binary(table: pa.Table, output: StateOutput, path: Path | None) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    if path is None and sys.stdout.isatty():
        raise errors.SpecRejectedError(
            "FileMissing", f"-o {output.value} cannot be written to a terminal; name a --file."
        )
    sink = pa.BufferOutputStream()
    if output is StateOutput.PARQUET:
        parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    if path is None:
        sys.stdout.buffer.write(body)
    else:
        path.write_bytes(body)


def _cell(value: object) -> str:
    plain = jsontext.text(value)
    if not plain.isprintable():  # A line break would begin a row, and a terminal would obey a control character.
        plain = json.dumps(plain)
    return plain if len(plain) <= _MAX_CELL_WIDTH else f"{plain[: _MAX_CELL_WIDTH - 1]}…"
