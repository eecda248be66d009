"""The flags of the command and of kubectl's plugin, from their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from sitepages import markdown
from statefulspark.cli import main
from statefulspark_operator import cli as operator
from statefulspark_operator.kubectl import flags


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Flags of the commands",
        "Every command with its arguments and flags, as `--help` has them. What the commands are for is in "
        "[the command `statefulspark`](../cli.md) and [the plugin](../kubectl.md).",
    )
    for parser in (main.build_parser(), flags.build_parser(), operator.build_parser()):
        for command in _leaves(parser):
            lines.extend(_section(command))
    return markdown.finish(lines)


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not children:
        yield parser
    for action in children:
        for child in dict.fromkeys(action.choices.values()):
            yield from _leaves(child)


def _section(parser: argparse.ArgumentParser) -> list[str]:
    rows = [
        (markdown.code(_usage(action)), markdown.prose(_meaning(action)))
        for action in parser._actions
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
    ]
    head = [f"## {parser.prog}", "", markdown.prose(parser.description or ""), ""]
    return [*head, *(markdown.table(("argument or flag", "meaning"), rows) if rows else ())]


def _usage(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest).upper()
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} {_value(action)}"


def _value(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return str(action.metavar or action.dest.upper())


def _meaning(action: argparse.Action) -> str:
    text = action.help or ""
    return text % {**vars(action), "prog": ""} if "%" in text else text
