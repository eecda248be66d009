"""The program `kubectl statefulspark`: its commands, their options, and what its help teaches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import click
from statefulspark.commandline import commands, flags, output, terminal

import statefulspark_operator
from statefulspark_operator.kubectl import candidates

if TYPE_CHECKING:
    from statefulspark_operator.kubectl.commands import Command

NAME = "kubectl statefulspark"
_EPILOG = """\
what is going on:
  kubectl statefulspark status flights -n demo            one page: what runs, what would be lost now, what to do
  kubectl statefulspark status flights -n demo --watch    the same, again and again
  kubectl statefulspark why flights -n demo               why it is not Ready; ends with 1 if so
  kubectl statefulspark logs flights -n demo -f           the log of the driver that matters
  kubectl statefulspark history flights -n demo           its revisions, and how each turned out

do something (each waits and says what came of it; --no-wait returns at once):
  kubectl statefulspark savepoint create flights -n demo  a savepoint now; the job goes on
  kubectl statefulspark suspend flights -n demo           stop with a savepoint
  kubectl statefulspark resume flights -n demo            go on from there
  kubectl statefulspark rollback flights -n demo          the revision before, with the state of now

exit codes:
  0 done   1 failed, or (why) not Ready   2 refused: options, rights, or the job's state   15 no such job, pod or revision
  16 API server unreachable, or not done within --timeout   130 interrupted; what was asked for goes on
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command looks, and the form of its answer.

    Attributes:
        namespace: A namespace; None for that of the context.
        context: The context of the kubeconfig; None for the current one.
        output: The form of the answer.
    """

    namespace: str | None
    context: str | None
    output: output.OutputFormat


@dataclass(frozen=True, slots=True)
class AddressedJob(Place):
    """The job that a command is about.

    Attributes:
        job: Its name; None for the only one of the namespace.
    """

    job: str | None

    def connect(self, *, timeout: timedelta | None = None) -> Command:
        """Connect to the cluster, and find the job."""
        from statefulspark_operator.kubectl import (
            commands as actions,  # Help does not wait for the cluster's libraries.
        )

        return actions.connected(self.context, self.namespace, self.job, form=self.output, timeout=timeout)


_WHERE = (
    commands.option("--namespace", "-n", metavar="NAME", help="namespace of the job; that of the context when omitted"),
    commands.option("--context", metavar="NAME", help="context of the kubeconfig; the current one when omitted"),
    output.format_option,
)
_job = click.argument(
    "job", required=False, metavar="[JOB]", shell_complete=candidates.jobs,
    help="the only one of the namespace when omitted",
)  # fmt: skip
_target = commands.bundle("target", AddressedJob, _job, *_WHERE)

program = commands.Group(NAME, help="Look after the jobs of the statefulspark operator.", epilog=_EPILOG)


@program.command(
    "status",
    short_help="one page about a job: what runs, what would be lost now, what to do",
    help='Show one page about a job. "Lost now" says what would be gone if its driver ended this moment; "Why" says what '
    'keeps it from being Ready, and "To do" the next step.',
    epilog="examples:\n"
    "  kubectl statefulspark status                     the only job of the current namespace\n"
    "  kubectl statefulspark status flights -o json | jq .lastCheckpoint.id\n",
)
@_target
@click.option("--watch", "-w", is_flag=True, help="show it again and again, until Ctrl-C")
def status(target: AddressedJob, watch: bool) -> int:
    """Run `status`."""
    from statefulspark_operator.kubectl import commands as actions

    return (actions.watch_status if watch else actions.status)(target.connect())


@program.command(
    "why",
    short_help="why a job is not Ready, and what to do",
    help="Say why a job is not Ready: the operator's reasons, what its pods wait for, how the last driver ended, the latest "
    "events. Ends with 0 if the job is Ready, and with 1 if it is not.",
    epilog="examples:\n  kubectl statefulspark why flights || kubectl statefulspark logs flights --previous\n",
)
@_target
def why(target: AddressedJob) -> int:
    """Run `why`."""
    from statefulspark_operator.kubectl import commands as actions

    return actions.why(target.connect())


@program.command(
    "history",
    short_help="the revisions of a job, and how each turned out",
    help="Show the first revision and the latest upgrades: image, outcome, and the savepoint that each started from. The "
    "spec of a revision is in the ControllerRevision <job>-<revision>.",
    epilog="examples:\n"
    "  kubectl statefulspark history flights\n"
    "  kubectl get controllerrevision flights-0a1b2c3d4e -o jsonpath='{.data.spec}'\n",
)
@_target
def history(target: AddressedJob) -> int:
    """Run `history`."""
    from statefulspark_operator.kubectl import commands as actions

    return actions.history(target.connect())


@program.command(
    "logs",
    short_help="the log of the driver that matters",
    help="Show the log of the driver that matters: the one that runs, or if its container has not started, the one that "
    "ended last. Standard error says which pod that is.",
    epilog="examples:\n"
    "  kubectl statefulspark logs flights -f\n"
    "  kubectl statefulspark logs flights --previous --tail 50      why the last one ended\n"
    "  kubectl statefulspark logs flights --standby                 what the next version does while it gets ready\n",
)
@_target
@commands.option("--follow", "-f", is_flag=True, help="go on with what comes")
@commands.option("--tail", type=int, metavar="N", help="only the last lines")
@commands.option("--previous", "-p", is_flag=True, one_of="whose", help="the driver that ended last")
@commands.option("--standby", is_flag=True, one_of="whose", help="the standby driver")
def logs(target: AddressedJob, follow: bool, tail: int | None, previous: bool, standby: bool) -> int:
    """Run `logs`."""
    from statefulspark_operator.kubectl import commands as actions
    from statefulspark_operator.kubectl.driver_logs import Whose

    whose = Whose.STANDBY if standby else Whose.PREVIOUS if previous else Whose.MATTERS
    return actions.logs(target.connect(), whose, follow=follow, tail=tail)


savepoint = commands.Group(
    "savepoint",
    short_help="take a savepoint, or wait for one",
    help="Take a savepoint of a job, or wait for one.",
    epilog="examples:\n  kubectl statefulspark savepoint create flights --name before-the-move\n"
    "  kubectl statefulspark savepoint wait before-the-move\n",
)
program.add_command(savepoint)


@savepoint.command(
    "create",
    short_help="take a savepoint now; the job goes on",
    help="Take a savepoint, and print where it is; the job goes on, and is not changed. Creates a SparkSavepoint, which "
    "waits its turn if others are requested at the same time, and for a driver if none runs; `kubectl get ssp` shows it "
    "later.",
    epilog="examples:\n"
    "  kubectl statefulspark savepoint create flights --name before-the-move\n"
    "  kubectl statefulspark savepoint create flights -o json | jq -r .snapshot\n",
)
@_target
@click.option("--name", metavar="NAME", help="name of the SparkSavepoint; made from that of the job when omitted")
@click.option(
    "--format", "form", type=click.Choice(("native", "canonical")), default="native", show_default=True,
    help="native, a copy of Spark's files, or canonical, Parquet for other key groups",
)  # fmt: skip
@flags.waiting
def create_savepoint(target: AddressedJob, name: str | None, form: str, waits: flags.Waiting) -> int:
    """Run `savepoint create`."""
    from statefulspark_operator.api.spec import SavepointForm
    from statefulspark_operator.kubectl import commands as actions

    return actions.create_savepoint(target.connect(timeout=waits.limit()), name, SavepointForm(form.capitalize()))


@savepoint.command(
    "wait",
    short_help="wait for a savepoint that was requested earlier",
    help="Wait for a SparkSavepoint, and print where the savepoint is.",
    epilog="examples:\n"
    "  kubectl statefulspark savepoint create flights --name nightly --no-wait\n"
    "  kubectl statefulspark savepoint wait nightly --timeout 1h\n",
)
@click.argument("name", shell_complete=candidates.savepoints, help="name of the SparkSavepoint")
@commands.bundle("place", Place, *_WHERE)
@flags.TIMEOUT
def wait_for_savepoint(name: str, place: Place, timeout: timedelta | None) -> int:
    """Run `savepoint wait`."""
    from statefulspark_operator.kubectl import commands as actions

    limit = timeout or flags.DEFAULT_TIMEOUT
    return actions.wait_for_savepoint(place.context, place.namespace, name, form=place.output, timeout=limit)


@program.command(
    "suspend",
    short_help="stop a job with a savepoint",
    help="Stop a job with a savepoint and keep its state: sets spec.suspend to true. Waits until its driver has ended.",
    epilog="examples:\n  kubectl statefulspark suspend flights --timeout 30m\n",
)
@_target
@flags.waiting
def suspend(target: AddressedJob, waits: flags.Waiting) -> int:
    """Run `suspend`."""
    from statefulspark_operator.kubectl import commands as actions

    return actions.suspend(target.connect(timeout=waits.limit()))


@program.command(
    "resume",
    short_help="start a suspended job again",
    help="Start a suspended job again from where it stopped: sets spec.suspend to false. Waits until it is Ready.",
    epilog="examples:\n  kubectl statefulspark resume flights\n",
)
@_target
@flags.waiting
def resume(target: AddressedJob, waits: flags.Waiting) -> int:
    """Run `resume`."""
    from statefulspark_operator.kubectl import commands as actions

    return actions.resume(target.connect(timeout=waits.limit()))


@program.command(
    "rollback",
    short_help="go back to an earlier revision",
    help="Make an earlier revision the spec: the one that ran before, or --to. The job is stopped with a savepoint and "
    "goes on with its state of now, as after any change. Fields that may change without a restart stay as they are.\n\n"
    "A job that waits for a person (RollbackNeeded) is rolled back: spec.upgrade.rollbackPolicy becomes Automatic. The "
    "old revision goes on from the newest state, or from the savepoint of its stop if no output comes twice. After an "
    "automatic rollback, or a blocked upgrade, the spec becomes what runs already, and the job is Ready again without a "
    "restart.",
    epilog="examples:\n"
    "  kubectl statefulspark rollback flights\n"
    "  kubectl statefulspark rollback flights --to 0a1b2c3d4e      one of `history`\n",
)
@_target
@click.option(
    "--to",
    metavar="REVISION",
    shell_complete=candidates.revisions,
    help="a revision of `history`; the one before when omitted",
)
@flags.waiting
def rollback(target: AddressedJob, to: str | None, waits: flags.Waiting) -> int:
    """Run `rollback`."""
    from statefulspark_operator.kubectl import commands as actions

    return actions.rollback(target.connect(timeout=waits.limit()), to)


@program.command(
    "version",
    short_help="print the version",
    help="Print the version.",
    epilog="examples:\n  kubectl statefulspark version\n",
)
def version() -> None:
    """Run `version`."""
    terminal.write(statefulspark_operator.__version__)
