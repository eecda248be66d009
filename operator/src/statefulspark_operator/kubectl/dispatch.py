"""From flags to a command on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from statefulspark import errors

from statefulspark_operator.api.spec import SavepointForm
from statefulspark_operator.kubectl import commands, connection, reading, terminal
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.commands import Command
from statefulspark_operator.kubectl.driver_logs import Whose


def run(arguments: argparse.Namespace) -> PluginExit:
    """Connect, and perform the command of parsed flags.

    Raises:
        StatefulSparkError: What `connection`, `reading` and `commands` raise.
    """
    cluster = connection.connect(arguments.context)
    namespace = arguments.namespace or cluster.namespace
    is_waited_for = not getattr(arguments, "no_wait", False)
    command = Command(
        cluster=cluster,
        terminal=terminal.Terminal(),
        namespace=namespace,
        name=reading.chosen(cluster, namespace, arguments.name),
        form=commands.Form(arguments.output),
        timeout=getattr(arguments, "timeout", None) if is_waited_for else None,
    )
    return COMMANDS[arguments.command](command, arguments)


def _logs(command: Command, arguments: argparse.Namespace) -> PluginExit:
    whose = Whose.STANDBY if arguments.standby else Whose.PREVIOUS if arguments.previous else Whose.MATTERS
    return commands.logs(command, whose, follow=arguments.follow, tail=arguments.tail)


def _savepoint(command: Command, arguments: argparse.Namespace) -> PluginExit:
    if arguments.savepoint_name is None and arguments.canonical:
        raise errors.SpecRejectedError(
            "NameMissing",
            "--canonical needs --name: without an object, spec.savepoint.format of the job says the form.",
        )
    if arguments.savepoint_name is None:
        return commands.savepoint(command)
    form = SavepointForm.CANONICAL if arguments.canonical else SavepointForm.NATIVE
    return commands.savepoint_object(command, arguments.savepoint_name, form)


COMMANDS: Mapping[str, Callable[[Command, argparse.Namespace], PluginExit]] = {
    "status": lambda command, arguments: (commands.watch_status if arguments.watch else commands.status)(command),
    "why": lambda command, _: commands.why(command),
    "history": lambda command, _: commands.history(command),
    "logs": _logs,
    "savepoint": _savepoint,
    "suspend": lambda command, _: commands.suspend(command),
    "resume": lambda command, _: commands.resume(command),
    "rollback": lambda command, arguments: commands.rollback(command, arguments.to),
}
