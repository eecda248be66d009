"""The commands: each reads a job, shows a page or changes its spec, and says what came of it."""

from __future__ import annotations

import argparse
import codecs
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from statefulspark import durations, errors

from statefulspark_operator.api import names
from statefulspark_operator.api.base import ApiModel
from statefulspark_operator.api.spec import SavepointForm
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import connection, driver_logs, outcomes, pages, reading, reports, requests, view
from statefulspark_operator.kubectl.codes import PluginExit
from statefulspark_operator.kubectl.connection import Cluster
from statefulspark_operator.kubectl.driver_logs import Whose
from statefulspark_operator.kubectl.outcomes import Done, Failed, Outcome, Pending
from statefulspark_operator.kubectl.requests import Target
from statefulspark_operator.kubectl.terminal import Terminal
from statefulspark_operator.kubectl.view import View

PATCHES = 5
"""Number of attempts to change a job that others change at the same moment."""
POLL_S = 1.0
WATCH_S = 2.0


class Form(StrEnum):
    """The form of a result."""

    TEXT = "text"
    """For people; may change between releases."""
    JSON = "json"
    """For programs."""


@dataclass(frozen=True, slots=True)
class Command:
    """What all commands are given.

    Attributes:
        cluster: The API server.
        terminal: Where to write, and the time.
        namespace: Namespace of the job.
        name: Name of the job.
        form: Form of the result.
        timeout: How long to wait for what was asked for; None does not wait.
    """

    cluster: Cluster
    terminal: Terminal
    namespace: str
    name: str
    form: Form = Form.TEXT
    timeout: timedelta | None = timedelta(minutes=10)

    def read(self) -> View:
        """Read the job and its pods."""
        return reading.job(self.cluster, self.namespace, self.name, self.terminal.now)

    def read_with_events(self) -> View:
        """Read the job, its pods and the events about them."""
        return reading.job_with_events(self.cluster, self.namespace, self.name, self.terminal.now)

    def patch(self, body: Resource) -> int:
        """Change the job, and return the generation of its spec."""
        return resources.number(self.cluster.patch_job(self.namespace, self.name, body), "metadata", "generation")


def status(command: Command) -> PluginExit:
    """Show the page of a job."""
    report = reports.status(command.read_with_events())
    command.terminal.write(_shown(command, report, pages.status(report, command.terminal.paint)))
    return PluginExit.DONE


def watch_status(command: Command) -> PluginExit:
    """Show the page of a job again and again, until Ctrl-C."""
    shown: object = None
    while True:
        try:
            seen = command.read_with_events()
        except errors.TransientError as error:
            command.terminal.note(error.message)
            command.terminal.sleep(WATCH_S)
            continue
        if shown != (seen.resource_version, seen.drivers, seen.standbys) or command.terminal.out.isatty():
            report = reports.status(seen)
            command.terminal.show_again(_shown(command, report, pages.status(report, command.terminal.paint)))
        shown = (seen.resource_version, seen.drivers, seen.standbys)
        command.terminal.sleep(WATCH_S)


def why(command: Command) -> PluginExit:
    """Show why a job is not ready; the exit code says whether it is."""
    report = reports.why(command.read_with_events())
    command.terminal.write(_shown(command, report, pages.why(report, command.terminal.paint)))
    return PluginExit.DONE if report.ready else PluginExit.FAILED


def history(command: Command) -> PluginExit:
    """Show the revisions of a job."""
    report = reports.history(command.read())
    command.terminal.write(_shown(command, report, pages.history(report, command.terminal.paint)))
    return PluginExit.DONE


def logs(command: Command, whose: Whose, *, follow: bool, tail: int | None) -> PluginExit:
    """Show the log of the driver that matters, and which one that is."""
    choice = driver_logs.choose(command.read(), whose)
    command.terminal.note(f"{choice.pod}: {choice.why}")
    pieces = command.cluster.log(
        command.namespace, choice.pod, container=names.DRIVER_CONTAINER, follow=follow, tail=tail
    )
    is_empty = True
    for piece in codecs.iterdecode(pieces, "utf-8", errors="replace"):  # a piece may end within a character
        is_empty = False
        command.terminal.out.write(piece)
        command.terminal.out.flush()
    if is_empty:
        ask = f"kubectl statefulspark why {command.name} -n {command.namespace}"
        command.terminal.note(f"The log is empty. To see what the driver waits for: {ask}")
    return PluginExit.DONE


def savepoint(command: Command, name: str | None, form: SavepointForm) -> PluginExit:
    """Create the object that asks for a savepoint, and wait for it."""
    created = command.cluster.create_savepoint(command.namespace, requests.savepoint(command.read(), name, form))
    command.terminal.note(f"SparkSavepoint {created} asks for it.")
    kind = resources.SAVEPOINT
    return _follow(
        command,
        "savepoint",
        lambda seen: outcomes.savepoint(seen, command.cluster.get(kind, command.namespace, created)),
    )


def suspend(command: Command) -> PluginExit:
    """Suspend a job, and wait until its driver has ended."""
    generation = _change(command, requests.suspend)
    return _follow(command, "suspend", lambda seen: outcomes.suspend(seen, generation=generation))


def resume(command: Command) -> PluginExit:
    """Resume a job, and wait until it runs."""
    generation = _change(command, requests.resume)
    return _follow(command, "resume", lambda seen: outcomes.resume(seen, generation=generation))


def rollback(command: Command, wanted: str | None) -> PluginExit:
    """Go back to an earlier revision, and wait until it runs."""
    target = requests.rollback_target(command.read(), wanted)
    generation = _change(command, lambda seen: _rollback_patch(command, seen, target))
    command.terminal.note(
        f"Going back to revision {target.revision}. A tool that applies the manifest (Argo CD, Flux) will undo this: change "
        "the manifest as well."
    )
    return _follow(command, "rollback", lambda seen: outcomes.rollback(seen, target, generation=generation))


def _change(command: Command, request: Callable[[View], Resource | None]) -> int:
    """Change the spec, and return its generation; None of a request says that it is so already.

    The patch is refused if the job has changed since it was read. Its status changes often, so it is read again.
    """
    remaining = PATCHES
    while True:
        seen = command.read()
        body = request(seen)
        if body is None:
            return seen.generation
        try:
            return command.patch(body)
        except errors.PreconditionFailedError:
            remaining -= 1
            if remaining == 0:
                raise


def _rollback_patch(command: Command, seen: View, target: Target) -> Resource:
    if target.by_policy:
        return requests.rollback_by_policy(seen)
    stored_as = names.controller_revision(command.name, target.revision)
    stored = command.cluster.get(resources.CONTROLLER_REVISION, command.namespace, stored_as)
    if stored is None:
        raise errors.SpecRejectedError(
            "RevisionNotFound",
            f"There is no ControllerRevision {stored_as} in namespace {command.namespace}, which would have the spec of "
            f"revision {target.revision}; apply its manifest instead. Nothing was changed.",
        )
    return requests.rollback(seen, target.revision, view.stored_spec(stored))


def _shown(command: Command, report: ApiModel, page: str) -> str:
    return page if command.form is Form.TEXT else report.to_json(indent=2)


def _follow(command: Command, what: str, look: Callable[[View], Outcome]) -> PluginExit:
    """Wait for an outcome with progress on standard error, and say what it is."""
    if command.timeout is None:
        _say(command, what, "Requested", "Requested. To see its progress: kubectl statefulspark status", None)
        return PluginExit.DONE
    due = command.terminal.now() + command.timeout
    last_message = ""
    while True:
        try:
            outcome = look(command.read())
        except errors.TransientError as error:  # An API server that does not answer may answer the next time.
            outcome = Pending(error.message)
        match outcome:
            case Done():
                _say(command, what, "Done", outcome.message, outcome.snapshot)
                return PluginExit.DONE
            case Failed():
                _say(command, what, "Failed", outcome.message, None)
                return PluginExit.FAILED
            case Pending():
                if outcome.message != last_message:
                    command.terminal.note(outcome.message)
                last_message = outcome.message
            case _:
                assert_never(outcome)
        if command.terminal.now() >= due:
            raise errors.TransientError(
                "TimedOut",
                f"It was not complete within {durations.format_short(command.timeout)}, and continues: {last_message} To "
                f"see its progress: kubectl statefulspark status {command.name} -n {command.namespace}.",
            )
        command.terminal.sleep(POLL_S)


def _say(command: Command, what: str, outcome: str, message: str, snapshot: str | None) -> None:
    if command.form is Form.TEXT:
        command.terminal.write(message)
        return
    said = {"namespace": command.namespace, "name": command.name, "command": what, "outcome": outcome}
    said |= {"message": message} | ({"snapshot": snapshot} if snapshot is not None else {})
    command.terminal.write(json.dumps(said, indent=2, ensure_ascii=False))


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
        terminal=Terminal(),
        namespace=namespace,
        name=reading.chosen(cluster, namespace, arguments.name),
        form=Form(arguments.output),
        timeout=getattr(arguments, "timeout", None) if is_waited_for else None,
    )
    return COMMANDS[arguments.command](command, arguments)


def _logs(command: Command, arguments: argparse.Namespace) -> PluginExit:
    whose = Whose.STANDBY if arguments.standby else Whose.PREVIOUS if arguments.previous else Whose.MATTERS
    return logs(command, whose, follow=arguments.follow, tail=arguments.tail)


COMMANDS: Mapping[str, Callable[[Command, argparse.Namespace], PluginExit]] = {
    "status": lambda command, arguments: (watch_status if arguments.watch else status)(command),
    "why": lambda command, _: why(command),
    "history": lambda command, _: history(command),
    "logs": _logs,
    "savepoint": lambda command, arguments: savepoint(
        command, arguments.savepoint_name, SavepointForm(arguments.format)
    ),
    "suspend": lambda command, _: suspend(command),
    "resume": lambda command, _: resume(command),
    "rollback": lambda command, arguments: rollback(command, arguments.to),
}
