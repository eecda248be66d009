"""The flags of `kubectl statefulspark`, and what its help teaches. Pure."""

from __future__ import annotations

import argparse
from datetime import timedelta

from statefulspark import durations, errors

import statefulspark_operator

_TOPICS = """\
what is going on
  kubectl statefulspark status flights -n demo            one page: what runs, what would be lost now, what to do
  kubectl statefulspark status flights -n demo --watch    the same, again and again
  kubectl statefulspark why flights -n demo               why it is not Ready; ends with 1 if so
  kubectl statefulspark logs flights -n demo -f           the log of the driver that matters
  kubectl statefulspark history flights -n demo           its revisions, and how each turned out

do something (each waits and says what came of it; --no-wait returns at once)
  kubectl statefulspark savepoint flights -n demo         a savepoint now; the job goes on
  kubectl statefulspark suspend flights -n demo           stop with a savepoint
  kubectl statefulspark resume flights -n demo            go on from there
  kubectl statefulspark rollback flights -n demo          the revision before, with the state of now

exit codes
  0 done   1 failed, or (why) not Ready   2 refused: flags, rights, or the job's state   15 no such job, pod or revision
  16 API server unreachable, or not done within --timeout   130 interrupted; what was asked for goes on
"""
_STATUS = """\
One page about a job. "Lost now" says what would be gone if its driver ended this moment; "Why" says what keeps it
from being Ready, and "To do" the next step.

examples
  kubectl statefulspark status                     the only job of the current namespace
  kubectl statefulspark status flights -o json | jq .lastCheckpoint.id
"""
_WHY = """\
Why a job is not Ready: the operator's reasons, what its pods wait for, how the last driver ended, the latest events.
Ends with 0 if the job is Ready, and with 1 if it is not.

examples
  kubectl statefulspark why flights || kubectl statefulspark logs flights --previous
"""
_HISTORY = """\
The first revision and the latest upgrades: image, outcome, and the savepoint that each started from. The spec of a
revision is in the ControllerRevision <job>-<revision>.

examples
  kubectl statefulspark history flights
  kubectl get controllerrevision flights-0a1b2c3d4e -o jsonpath='{.data.spec}'
"""
_LOGS = """\
The log of the driver that matters: the one that runs, or if its container has not started, the one that ended last.
Which pod that is, is told on standard error.

examples
  kubectl statefulspark logs flights -f
  kubectl statefulspark logs flights --previous --tail 50      why the last one ended
  kubectl statefulspark logs flights --standby                 what the next version does while it gets ready
"""
_SAVEPOINT = """\
Takes a savepoint, and prints where it is; the job goes on, and is not changed. Creates a SparkSavepoint, which waits its
turn if others are asked for at the same time, and for a driver if none runs; `kubectl get ssp` shows it later.

examples
  kubectl statefulspark savepoint flights --name before-the-move
  kubectl statefulspark savepoint flights -o json | jq -r .snapshot
"""
_SUSPEND = """\
Stops a job with a savepoint and keeps its state: sets spec.suspend to true. Waits until its driver has ended.

examples
  kubectl statefulspark suspend flights --timeout 30m
"""
_RESUME = """\
Starts a suspended job again from where it stopped: sets spec.suspend to false. Waits until it is Ready.

examples
  kubectl statefulspark resume flights
"""
_ROLLBACK = """\
Makes an earlier revision the spec: the one that ran before, or --to. The job is stopped with a savepoint and goes on
with its state of now, as after any change. Fields that may change without a restart stay as they are.
A job that waits for a person (RollbackNeeded) goes back to the savepoint of its stop instead: spec.upgrade.rollbackPolicy
becomes Automatic. After an automatic rollback, or a blocked upgrade, the spec becomes what runs already, and the job is
Ready again without a restart.

examples
  kubectl statefulspark rollback flights
  kubectl statefulspark rollback flights --to 0a1b2c3d4e      one of `history`
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="kubectl statefulspark",
        description="Look after the jobs of the statefulspark operator.",
        epilog=_TOPICS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"%(prog)s {statefulspark_operator.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    status = _add(commands, "status", "one page about a job: what runs, what would be lost now, what to do", _STATUS)
    status.add_argument("--watch", "-w", action="store_true", help="show it again and again, until Ctrl-C")
    _add(commands, "why", "why a job is not Ready, and what to do", _WHY)
    _add(commands, "history", "the revisions of a job, and how each turned out", _HISTORY)
    logs = _add(commands, "logs", "the log of the driver that matters", _LOGS)
    logs.add_argument("--follow", "-f", action="store_true", help="go on with what comes")
    logs.add_argument("--tail", type=int, metavar="LINES", help="only the last lines")
    whose = logs.add_mutually_exclusive_group()
    whose.add_argument("--previous", "-p", action="store_true", help="the driver that ended last")
    whose.add_argument("--standby", action="store_true", help="the standby driver")
    savepoint = _add(commands, "savepoint", "take a savepoint now; the job goes on", _SAVEPOINT)
    savepoint.add_argument(
        "--name", dest="savepoint_name", help="name of the SparkSavepoint; made from that of the job when omitted"
    )
    savepoint.add_argument(
        "--format",
        choices=("Native", "Canonical"),
        default="Native",
        help="Native, a copy of Spark's files, or Canonical, Parquet for other key groups",
    )
    _add_waiting(savepoint)
    _add_waiting(_add(commands, "suspend", "stop a job with a savepoint", _SUSPEND))
    _add_waiting(_add(commands, "resume", "start a suspended job again", _RESUME))
    rollback = _add(commands, "rollback", "go back to an earlier revision", _ROLLBACK)
    rollback.add_argument("--to", metavar="REVISION", help="a revision of `history`; the one before when omitted")
    _add_waiting(rollback)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, text: str
) -> argparse.ArgumentParser:
    description, _, examples = text.partition("\nexamples\n")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="JOB", help="the only one of the namespace when omitted")
    parser.add_argument("--namespace", "-n", help="namespace of the job; that of the context when omitted")
    parser.add_argument("--context", help="context of the kubeconfig; the current one when omitted")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="text is for people, json for programs"
    )
    return parser


def _add_waiting(parser: argparse.ArgumentParser) -> None:
    waiting = parser.add_mutually_exclusive_group()
    waiting.add_argument(
        "--timeout", type=_duration, default=timedelta(minutes=10), help="how long to wait; default 10m"
    )
    waiting.add_argument("--no-wait", action="store_true", help="return as soon as it is requested")


def _duration(text: str) -> timedelta:
    try:
        return durations.parse(text)
    except errors.SpecRejectedError as error:
        raise argparse.ArgumentTypeError(error.message) from error
