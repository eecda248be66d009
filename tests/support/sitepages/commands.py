"""The options of the executables, from their commands."""

from __future__ import annotations

import click
import commandtrees
from sitepages import markdown
from statefulspark.cli import main
from statefulspark_operator import cli as operator
from statefulspark_operator.kubectl import program

PROGRAMS = (main.program, program.program, operator.program)


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Options of the commands",
        "Every command with its arguments and options, as `--help` has them. What the commands are for is in "
        "[the command `statefulspark`](../cli.md) and [the plugin](../kubectl.md).",
    )
    for executable in PROGRAMS:
        for path, command in commandtrees.leaves(executable):
            if not command.hidden:
                lines.extend(_section(f"{executable.name} {' '.join(path)}", command))
    return markdown.finish(lines)


def _section(title: str, command: click.Command) -> list[str]:
    context = click.Context(command)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [
        (markdown.code(usage), markdown.prose(meaning)) for usage, meaning in filter(None, records) if usage != "--help"
    ]
    head = [f"## {title}", "", markdown.prose(" ".join((command.help or "").split())), ""]
    return [*head, *(markdown.table(("argument or option", "meaning"), rows) if rows else ())]
