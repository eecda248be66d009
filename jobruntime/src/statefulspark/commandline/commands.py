"""Commands on click: help that keeps the lines of its examples, options in sections, and errors of one sentence.

`execute` runs a program as one call, so that each executable reports wrong options, errors and Ctrl-C alike. A group loads
the module of a command when that command runs, so that none waits for the imports of another one.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from statefulspark import errors
from statefulspark.commandline import terminal

USAGE = 2
"""The exit code for wrong options, of every executable."""
INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""
_FAILED = 1
_HELP_WIDTH = 120

_Callback = TypeVar("_Callback", bound=Callable[..., Any])


class Option(click.Option):
    """An option that belongs to a section of the help, and to a group of which a command takes one."""

    def __init__(self, *names: Any, section: str = "Options", one_of: str | None = None, **settings: Any) -> None:  # noqa: ANN401 -- click's own
        """Declare the option.

        Args:
            names: As click takes them.
            section: The title above it in the help.
            one_of: The name of a group of options that exclude one another.
            settings: As click takes them.
        """
        super().__init__(*names, **settings)
        self.section = section
        self.one_of = one_of

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Also refuse an option beside another one of its group."""
        given = [
            other
            for other in ctx.command.params
            if isinstance(other, Option) and self.one_of is not None and other.one_of == self.one_of
            if other.name in opts
        ]
        if len(given) > 1 and not ctx.resilient_parsing:
            flags = " and ".join(max(other.opts, key=len) for other in given)
            raise click.UsageError(f"The options {flags} exclude one another; give one of them.", ctx)
        return super().handle_parse_result(ctx, opts, args)


class _Teaching(click.Command):
    """Writes the options by section, and the examples below them line by line."""

    def __init__(self, *args: Any, **settings: Any) -> None:  # noqa: ANN401 -- click's own
        settings["context_settings"] = {"max_content_width": _HELP_WIDTH, **(settings.get("context_settings") or {})}
        super().__init__(*args, **settings)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with its options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, click.Argument):  # Click writes those itself.
                section = parameter.section if isinstance(parameter, Option) else "Options"
                sections.setdefault(section, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=34)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog as it is."""
        if self.epilog:
            formatter.write(f"\n{self.epilog.strip()}\n")


class Command(_Teaching):
    """A command."""


class Group(_Teaching, click.Group):
    """A command with verbs."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of their declaration."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and then the verbs."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class LazyGroup(Group):
    """A group whose commands are modules; each is imported for its own command only."""

    def __init__(self, *, modules: Mapping[str, tuple[str, str]], **settings: Any) -> None:  # noqa: ANN401 -- click's own
        """Declare the commands.

        Args:
            modules: By command, the module whose `command` it is, and its line in the help; a command without such a line is
                not listed.
            settings: As click takes them.
        """
        super().__init__(**settings)
        self._modules = modules

    @property
    def _listed(self) -> dict[str, str]:
        return {name: line for name, (_, line) in self._modules.items() if line}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._modules:
            return None
        try:
            command: click.Command = importlib.import_module(self._modules[cmd_name][0]).command
        except KeyboardInterrupt as error:
            terminal.note("Interrupted before anything was done.")
            raise click.exceptions.Exit(INTERRUPTED) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the command that was meant, if there is none of this name."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self._listed, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._listed.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete a command without importing any."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, line in self._listed.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


def together(*parameters: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options and arguments in the order given."""

    def decorate(command: Any) -> Any:  # noqa: ANN401 -- as a decorator of click
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return decorate


def bundle(
    name: str, kind: type[Any], *parameters: Callable[[_Callback], _Callback]
) -> Callable[[_Callback], _Callback]:
    """Return a decorator that adds options, and gives a command their values as one object.

    Args:
        name: The argument of the command.
        kind: A dataclass with a field for each of the options.
        parameters: What `click.option` and `click.argument` return.
    """

    def decorate(command: _Callback) -> _Callback:
        @functools.wraps(command)
        def with_bundle(**values: Any) -> Any:  # noqa: ANN401 -- as its command
            members = {field.name: values.pop(field.name) for field in dataclasses.fields(kind)}
            return command(**{name: kind(**members)}, **values)

        bundled: _Callback = together(*parameters)(with_bundle)
        return bundled

    return decorate


option = functools.partial(click.option, cls=Option)
"""`click.option` with `section` and `one_of`."""


def execute(
    program: click.Command,
    name: str,
    arguments: Sequence[str] | None,
    exit_code: Callable[[errors.StatefulSparkError], int],
) -> int:
    """Run a program; an error is one sentence on standard error.

    Args:
        program: The program.
        name: Its name, as it is typed.
        arguments: The arguments without the program's name; those of the process when omitted.
        exit_code: Returns the exit code for an error.

    Returns:
        The exit code.
    """
    instruction = os.environ.get(complete_variable(name))
    if instruction:
        from click import shell_completion

        return shell_completion.shell_complete(program, {}, name, complete_variable(name), instruction)
    try:
        with program.make_context(name, list(sys.argv[1:] if arguments is None else arguments)) as context:
            code = int(program.invoke(context) or 0)
        sys.stdout.flush()
        return code
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        terminal.note(error.format_message())
        return USAGE
    except click.UsageError as error:
        if isinstance(error, (click.NoSuchOption, click.exceptions.NoSuchCommand)) and error.possibilities:
            del error.possibilities[1:]  # The best one is first.
        sentence = " ".join(error.format_message().split())
        where = error.ctx.command_path if error.ctx is not None else name
        terminal.note(
            f"error: {sentence if sentence.endswith('?') else sentence.rstrip('.') + '.'} See `{where} --help`."
        )
        return USAGE
    except errors.StatefulSparkError as error:
        terminal.note(f"error: {error.message}")
        return exit_code(error)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # The reader of the pipe has ended.
        return _without_output()
    except OSError as error:
        terminal.note(f"error: {error}.")
        return _without_output()


def complete_variable(name: str) -> str:
    """Return the environment variable in which the completion of a shell asks a program."""
    return f"_{name.replace('-', '_').upper()}_COMPLETE"


def _without_output() -> int:
    """Drop what is still buffered; without this, Python would report the error again when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _FAILED


def completion(program: str) -> click.Command:
    """Return the command that prints a program's completion for a shell."""
    from click import shell_completion

    shells = ("bash", "zsh", "fish")

    @click.command(
        "completion",
        cls=Command,
        short_help="print the completion of a shell",
        help="Print what completes commands, options and their values in a shell: bash, zsh or fish.",
        epilog=f"examples:\n  source <({program} completion bash)\n  {program} completion zsh > ~/.zfunc/_{program}\n"
        f"  {program} completion fish > ~/.config/fish/completions/{program}.fish\n",
    )
    @click.argument("shell", type=click.Choice(shells))
    def command(shell: str) -> int:
        kind = shell_completion.get_completion_class(shell)
        assert kind is not None  # noqa: S101 -- click has these three
        terminal.write(kind(click.Command(program), {}, program, complete_variable(program)).source())
        return 0

    return command
