"""The commands: each reads a job, shows a page or changes its spec, and says what came of it."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from statefulspark import durations, errors
from statefulspark.commandline import flags, output
from statefulspark.commandline.output import OutputFormat

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
    form: OutputFormat = OutputFormat.TEXT
    timeout: timedelta | None = flags.DEFAULT_TIMEOUT

    def read(self) -> View:
        """Read the job and its pods."""
        return reading.job(self.cluster, self.namespace, self.name, self.terminal.now)

    def read_with_events(self) -> View:
        """Read the job, its pods and the events about them."""
        return reading.job_with_events(self.cluster, self.namespace, self.name, self.terminal.now)

    def show(self, result: ApiModel | dict[str, str], page: str, name: str | None = None) -> str:
        """Return a result in the form that is asked for.

        Args:
            result: The result for programs.
            page: The text for people.
            name: The name for scripts; that of the job when omitted.
        """
        names = [name or f"{resources.JOB.qualified}/{self.name}"]
        return output.render(output.Result(result, names, lambda _: page), self.form)

    def patch(self, body: Resource) -> int:
        """Change the job, and return the generation of its spec."""
        return resources.number(self.cluster.patch_job(self.namespace, self.name, body), "metadata", "generation")


def status(command: Command) -> PluginExit:
    """Show the page of a job."""
    report = reports.status(command.read_with_events())
    command.terminal.write(command.show(report, pages.status(report, command.terminal.paint)))
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
            command.terminal.show_again(command.show(report, pages.status(report, command.terminal.paint)))
        shown = (seen.resource_version, seen.drivers, seen.standbys)
        command.terminal.sleep(WATCH_S)


def why(command: Command) -> PluginExit:
    """Show why a job is not ready; the exit code says whether it is."""
    report = reports.why(command.read_with_events())
    command.terminal.write(command.show(report, pages.why(report, command.terminal.paint)))
    return PluginExit.DONE if report.ready else PluginExit.FAILED


def history(command: Command) -> PluginExit:
    """Show the revisions of a job."""
    report = reports.history(command.read())
    command.terminal.write(command.show(report, pages.history(report, command.terminal.paint)))
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


def create_savepoint(command: Command, name: str | None, form: SavepointForm) -> PluginExit:
    """Create the object that asks for a savepoint, and wait for it."""
    created = command.cluster.create_savepoint(command.namespace, requests.savepoint(command.read(), name, form))
    command.terminal.note(f"SparkSavepoint {created} asks for it.")
    return _follow_savepoint(command, created)


def wait_for_savepoint(
    context: str | None, namespace: str | None, name: str, *, form: OutputFormat, timeout: timedelta
) -> PluginExit:
    """Connect, and wait for a savepoint that was requested earlier.

    Raises:
        SpecRejectedError: `SavepointNotFound`.
    """
    cluster = connection.connect(context)
    namespace = namespace or cluster.namespace
    stored = cluster.get(resources.SAVEPOINT, namespace, name)
    if stored is None:
        raise errors.SpecRejectedError(
            "SavepointNotFound",
            f"There is no SparkSavepoint {name!r} in namespace {namespace}; `kubectl get ssp -n {namespace}` lists them.",
        )
    job = resources.text(stored, "spec", "jobName")
    return _follow_savepoint(Command(cluster, Terminal(), namespace, job, form=form, timeout=timeout), name)


def _follow_savepoint(command: Command, name: str) -> PluginExit:
    kind = resources.SAVEPOINT
    return _follow(
        command,
        "savepoint",
        lambda seen: outcomes.savepoint(seen, command.cluster.get(kind, command.namespace, name)),
        f"{kind.qualified}/{name}",
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
        f"Going back to revision {target.revision}. A tool that applies the manifest (Argo CD, Flux) undoes this in the "
        "fields that the manifest has: change the manifest as well."
    )
    changed = command.cluster.get(resources.JOB, command.namespace, command.name) or {}
    if pinned := resources.text(changed, "spec", "job", "source", "configMap", "sha256"):
        command.terminal.note(
            f"Its code is pinned (spec.job.source.configMap.sha256 is {pinned[:12]}). A manifest without this field leaves "
            "it there: the job says so when the ConfigMap has other code, and has the command that takes it away."
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


def _follow(command: Command, what: str, look: Callable[[View], Outcome], name: str | None = None) -> PluginExit:
    """Wait for an outcome with progress on standard error, and say what it is."""

    def say(outcome: str, message: str, snapshot: str | None = None) -> None:
        said = {"namespace": command.namespace, "name": command.name, "command": what, "outcome": outcome}
        said |= {"message": message} | ({"snapshot": snapshot} if snapshot is not None else {})
        command.terminal.write(command.show(said, f"{message}\n", name))

    if command.timeout is None:
        say("Requested", "Requested. To see its progress: kubectl statefulspark status")
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
                say("Done", outcome.message, outcome.snapshot)
                return PluginExit.DONE
            case Failed():
                say("Failed", outcome.message)
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


def connected(
    context: str | None, namespace: str | None, name: str | None, *, form: OutputFormat, timeout: timedelta | None
) -> Command:
    """Connect, and find the job that a person means.

    Raises:
        StatefulSparkError: What `connection` and `reading` raise.
    """
    cluster = connection.connect(context)
    namespace = namespace or cluster.namespace
    return Command(
        cluster=cluster,
        terminal=Terminal(),
        namespace=namespace,
        name=reading.chosen(cluster, namespace, name),
        form=form,
        timeout=timeout,
    )
