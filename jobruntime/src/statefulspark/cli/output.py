"""How every command writes its result: one value, in the form that `-o` asks for.

A command hands over what it found as data, what to call it, and how to draw it; the form is chosen here and nowhere else.
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
    """What a command found.

    Attributes:
        data: For programs: a model, or a JSON-shaped value.
        names: `kind/name` of each thing, for `-o name`.
        draw: For people; gets whether more columns are wanted.
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
            # Not at the top: a driver starts through this package, too, and never writes YAML.
            from statefulspark.cli import yaml_text

            return yaml_text.dump(_plain(result.data))
        case OutputFormat.NAME:
            return "".join(f"{name}\n" for name in result.names)
        case OutputFormat.TABLE | OutputFormat.WIDE:
            return result.draw(output is OutputFormat.WIDE)


def _plain(data: WireModel | object) -> object:
    return json.loads(data.to_json()) if isinstance(data, WireModel) else data
