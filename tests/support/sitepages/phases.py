"""What the status of a job says, how drivers end, and why snapshots fail: from the enums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from sitepages import advice, markdown, members
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.coordinator.model import COUNTED_REASONS, AbortReason
from statefulspark_operator.api import spark_savepoint, status
from statefulspark_operator.api.conditions import ConditionType
from statefulspark_operator.kubectl.codes import PluginExit

_TABLES: tuple[tuple[str, str, type[Enum], Mapping[Enum, str]], ...] = (
    ("Phases of a job", "`status.phase` is one word for people. Tools look at conditions.", status.Phase, advice.PHASE),
    ("Steps of an upgrade", "`status.upgrade.state`.", status.UpgradeState, advice.UPGRADE),
    ("States of a standby", "`status.standby.state`.", status.StandbyState, advice.STANDBY),
    (
        "Phases of a savepoint",
        "`status.phase` of a `SparkSavepoint`.",
        spark_savepoint.SavepointPhase,
        advice.SAVEPOINT_PHASE,
    ),
)


def phases() -> str:
    """Return the page on phases and conditions."""
    lines = markdown.head(
        "Phases and conditions",
        "What `kubectl get ssj` and `kubectl describe ssj` show, what it means, and what to do. The reason of a "
        "condition is "
        "in [reasons, by the operator](operator-reasons.md), or, where the driver said it, in "
        "[reasons, by the driver](driver-reasons.md).",
    )
    lines.extend(
        ("## Conditions", "", "Each answers one question. It is well while it has the answer that is named.", "")
    )
    lines.extend(markdown.table(("condition", "question", "well", "otherwise"), _conditions()))
    for title, lead, enum, what_to_do in _TABLES:
        lines.extend((f"## {title}", "", lead, ""))
        lines.extend(markdown.table(("value", "meaning", "what to do"), _rows(enum, what_to_do)))
    return markdown.finish(lines)


def _conditions() -> Iterator[tuple[str, ...]]:
    said = members.described(ConditionType)
    for kind in ConditionType:
        well, otherwise = advice.CONDITION[kind]
        yield markdown.code(kind.value), said[kind.name], markdown.code(well), otherwise


def _rows(enum: type[Enum], what_to_do: Mapping[Enum, str]) -> Iterator[tuple[str, ...]]:
    said = members.described(enum)
    for member in enum:
        yield markdown.code(member.value), markdown.prose(said.get(member.name, "")), what_to_do[member]


def exit_codes() -> str:
    """Return the page on exit codes."""
    lines = markdown.head(
        "Exit codes",
        "How a process ended, as a number. In a cluster: `kubectl statefulspark why JOB`, or the `exitCode` of "
        "the pod's container.",
    )
    lines.extend(("## A driver", "", "`statefulspark run`, `python job.py`, and the driver's pod.", ""))
    said = members.described(ExitCode)
    rows = (
        (
            markdown.code(code.value),
            markdown.code(code.name),
            markdown.prose(said[code.name]),
            "yes" if code.is_retryable else "no",
            advice.EXIT_CODE[code],
        )
        for code in ExitCode
    )
    lines.extend(markdown.table(("code", "name", "meaning", "can an unchanged restart help?", "what to do"), rows))
    lines.extend(
        (
            "With code 0, the last line of the log and the pod's termination message say why the driver ended:",
            "",
        )
    )
    said = members.described(PlannedEnd)
    rows = ((markdown.code(end.value), markdown.prose(said[end.name]), advice.PLANNED_END[end]) for end in PlannedEnd)
    lines.extend(markdown.table(("reason", "meaning", "what to do"), rows))
    lines.extend(
        (
            "Codes of 128 and above are a signal: 137 is `kill -9`, most often because the container had too "
            "little memory "
            "([size](../howto/size.md)); 143 is SIGTERM before the driver was ready to take it.",
            "",
            "The other commands use the same numbers ([the command](../cli.md#exit-codes)).",
            "",
            "## `kubectl statefulspark`",
            "",
        )
    )
    said = members.described(PluginExit)
    rows = ((markdown.code(code.value), markdown.prose(said[code.name])) for code in PluginExit)
    lines.extend(markdown.table(("code", "meaning"), rows))
    return markdown.finish(lines)


def snapshot_failures() -> str:
    """Return the page on failed checkpoints and savepoints."""
    lines = markdown.head(
        "Snapshots that fail",
        "A checkpoint or savepoint that fails loses nothing: the job goes on, and the next one is taken. You "
        "find the reason in "
        "`statefulspark checkpoint history`, in condition `CheckpointHealthy`, and in the metric "
        "`statefulspark_checkpoint_failures_total`. After `checkpoint.tolerableFailures` failures in a row of "
        "the kinds that "
        "count, the job restarts.",
    )
    said = members.described(AbortReason)
    rows = (
        (
            markdown.code(reason.value),
            markdown.prose(said[reason.name]),
            "yes" if reason in COUNTED_REASONS else "no",
            advice.ABORT[reason],
        )
        for reason in AbortReason
    )
    lines.extend(markdown.table(("reason", "meaning", "counts", "what to do"), rows))
    lines.extend(("Who declines, and what becomes of the job: [the HTTP API](../api.md#why-a-snapshot-fails).", ""))
    return markdown.finish(lines)
