"""The commands of a program as tests and pages see them: each with its path, and a line as it would be parsed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click


def walk(program: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a program and every command below it, each with its path without the program's name."""
    yield path, program
    if isinstance(program, click.Group):
        context = click.Context(program)
        for name in program.list_commands(context):
            child = program.get_command(context, name)
            assert child is not None
            yield from walk(child, *path, name)


def leaves(program: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the commands of a program that have no commands below them."""
    return ((path, command) for path, command in walk(program) if not isinstance(command, click.Group))


def parse(program: click.Command, words: Sequence[str]) -> click.Context:
    """Return the context of the command that a line calls; nothing runs.

    Raises:
        click.UsageError: The line is wrong.
    """
    context = program.make_context(program.name, list(words))
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context
