"""`statefulspark state`: prints the state in a snapshot as a table."""

from __future__ import annotations

import argparse
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from statefulspark import errors, jsontext, rowvalues, state_reading
from statefulspark.cli import options, tables, terminal
from statefulspark.contract.exit_codes import ExitCode

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLE = "s3://bucket/prefix/default/words/savepoints/00000043-nightly"
_MAX_CELL_WIDTH = 60


class StateOutput(StrEnum):
    """The output formats of state."""

    TABLE = "table"
    """Columns for people."""
    JSON = "json"
    """One object per line."""
    PARQUET = "parquet"
    """A Parquet file."""
    ARROW = "arrow"
    """An Arrow IPC stream."""


def add_parser(commands: options.SubParsers) -> None:
    """Add the command and its verb."""
    parser = commands.add_parser(
        "state",
        help="read the state in a snapshot",
        description="Read the state in a checkpoint or savepoint. No job has to run; nothing is changed.",
        epilog=f"example:\n  statefulspark state read {_EXAMPLE} --uid counts",
        formatter_class=options.Help,
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = verbs.add_parser(
        "read",
        help="write the state of one operator as a table",
        description="Write the state of one operator or function as a table. A canonical savepoint is read "
        "directly. Any other snapshot is read with Spark on this machine, which needs disk for the state of one query and "
        "some seconds to start.",
        epilog=f"examples:\n  statefulspark state read {_EXAMPLE} --uid counts --limit 20\n"
        f"  statefulspark state read {_EXAMPLE} --uid counts --state seen --key ada -o json\n"
        f"  statefulspark state read {_EXAMPLE} --uid counts -o parquet --file counts.parquet\n\n"
        "exit codes:\n  0 done   15 no such snapshot   16 storage unavailable   17 broken",
        formatter_class=options.Help,
    )
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="URI of a checkpoint's or savepoint's folder")
    parser.add_argument("--uid", required=True, help="uid of the operator or function, or QUERY/UID")
    parser.add_argument("--state", metavar="NAME", help="name of the state; needed if there are several")
    parser.add_argument("--key", help="only this key; a key of several columns separated by commas")
    parser.add_argument("--limit", type=_count, metavar="N", help="at most this many rows")
    parser.add_argument(
        "-o", "--output", type=StateOutput, choices=tuple(StateOutput), default=StateOutput.TABLE, metavar="FORMAT",
        help="table (default), json, parquet or arrow",
    )  # fmt: skip
    parser.add_argument("--file", type=Path, metavar="PATH", help="write there instead of to the terminal")
    options.add_connection(parser)
    parser.set_defaults(handle=_read)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _read(args: argparse.Namespace) -> int:
    table = state_reading.read_state(
        args.snapshot,
        uid=args.uid,
        state=args.state,
        key=args.key,
        limit=args.limit,
        options=options.storage_options(args),
    )
    _write(table, args.output, args.file)
    return ExitCode.FINISHED


def _write(table: pa.Table, output: StateOutput, path: Path | None) -> None:
    if output in (StateOutput.PARQUET, StateOutput.ARROW):
        _write_binary(table, output, path)
    elif path is None:
        terminal.write(render(table, output))
    else:
        path.write_text(render(table, output))


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
