"""Writes the result of every command in the format of `-o`.

A command returns its result as data, as names and as a table; only this module chooses the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from statefulspark.commandline import commands, terminal, values


class OutputFormat(StrEnum):
    """The format of a result, the same words for every command."""

    TEXT = "text"
    """For people; may change between releases."""
    WIDE = "wide"
    """The same with more columns."""
    JSON = "json"
    """For programs; names are those of the API and the manifest."""
    YAML = "yaml"
    """The same as YAML."""
    NAME = "name"
    """`kind/name`, one per line, for scripts."""


@runtime_checkable
class Document(Protocol):
    """A model that writes itself."""

    def to_json(self) -> str:
        """Return its JSON."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command.

    Attributes:
        data: The result for programs: a model, or a JSON-like value.
        names: `kind/name` of each object, for `-o name`.
        draw: Returns the text for people; its argument asks for all columns.
    """

    data: Document | object
    names: Sequence[str]
    draw: Callable[[bool], str]


@dataclass(frozen=True, slots=True)
class Printing:
    """What a person wants to see.

    Attributes:
        output: The format of the result.
        quiet: The result and errors only.
    """

    output: OutputFormat = OutputFormat.TEXT
    quiet: bool = False

    def write(self, result: Result) -> None:
        """Write a result to standard output."""
        terminal.write(render(result, self.output))

    def note(self, text: str) -> None:
        """Write a hint for people."""
        if not self.quiet:
            terminal.note(text)

    @property
    def is_for_people(self) -> bool:
        """Whether the result is text for people."""
        return self.output in (OutputFormat.TEXT, OutputFormat.WIDE)


format_option = commands.option(
    "-o", "--output", type=values.Word(OutputFormat), default=OutputFormat.TEXT.value, show_default=True,
    help="format of the result",
)  # fmt: skip
options = commands.bundle(
    "printing",
    Printing,
    format_option,
    commands.option("-q", "--quiet", is_flag=True, help="no progress and no hints, the result and errors only"),
)
"""Adds `-o` and `-q`; the command gets `printing`."""


def render(result: Result, output: OutputFormat) -> str:
    """Return a result as text, ending with a newline unless it is empty."""
    match output:
        case OutputFormat.JSON:
            return json.dumps(_plain(result.data), indent=2, ensure_ascii=False) + "\n"
        case OutputFormat.YAML:
            # Imported here because a driver also starts through this package, and never writes YAML.
            from statefulspark.commandline import yaml_text

            return yaml_text.dump(_plain(result.data))
        case OutputFormat.NAME:
            return "".join(f"{name}\n" for name in result.names)
        case OutputFormat.TEXT | OutputFormat.WIDE:
            return result.draw(output is OutputFormat.WIDE)


def _plain(data: Document | object) -> object:
    return json.loads(data.to_json()) if isinstance(data, Document) else data
