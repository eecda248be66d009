"""From flags to a command on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

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


def _status(command: Command, arguments: argparse.Namespace) -> PluginExit:
    return commands.watch_status(command) if arguments.watch else commands.status(command)


def _logs(command: Command, arguments: argparse.Namespace) -> PluginExit:
    whose = Whose.STANDBY if arguments.standby else Whose.PREVIOUS if arguments.previous else Whose.MATTERS
    return commands.logs(command, whose, follow=arguments.follow, tail=arguments.tail)


COMMANDS: Mapping[str, Callable[[Command, argparse.Namespace], PluginExit]] = {
    "status": _status,
    "why": lambda command, _: commands.why(command),
    "history": lambda command, _: commands.history(command),
    "logs": _logs,
    "savepoint": lambda command, _: commands.savepoint(command),
    "suspend": lambda command, _: commands.suspend(command),
    "resume": lambda command, _: commands.resume(command),
    "rollback": lambda command, arguments: commands.rollback(command, arguments.to),
}
