"""Writes the result of every command in the format of `-o`.

A command returns its result as data, as names and as a table; only this module chooses the format.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from statefulspark.cli import terminal
from statefulspark.cli.terminal import OutputFormat
from statefulspark.contract.base import WireModel


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command.

    Attributes:
        data: The result for programs: a model, or a JSON-like value.
        names: `kind/name` of each object, for `-o name`.
        draw: Returns the table for people; its argument asks for all columns.
    """

    data: WireModel | object
    names: Sequence[str]
    draw: Callable[[bool], str]


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `-o` and `--quiet`."""
    parser.add_argument(
        "-o", "--output", type=OutputFormat, choices=tuple(OutputFormat), default=OutputFormat.TABLE,
        metavar="FORMAT", help="table (default), wide, json, yaml or name",
    )  # fmt: skip
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress and no hints, the result and errors only"
    )


def write(result: Result, output: OutputFormat) -> None:
    """Write a result to standard output."""
    terminal.write(render(result, output))


def render(result: Result, output: OutputFormat) -> str:
    """Return a result as text, ending with a newline unless it is empty."""
    match output:
        case OutputFormat.JSON:
            return json.dumps(_plain(result.data), indent=2, ensure_ascii=False) + "\n"
        case OutputFormat.YAML:
            # Imported here because a driver also starts through this package, and never writes YAML.
            from statefulspark.cli import yaml_text

            return yaml_text.dump(_plain(result.data))
        case OutputFormat.NAME:
            return "".join(f"{name}\n" for name in result.names)
        case OutputFormat.TABLE | OutputFormat.WIDE:
            return result.draw(output is OutputFormat.WIDE)


def _plain(data: WireModel | object) -> object:
    return json.loads(data.to_json()) if isinstance(data, WireModel) else data
