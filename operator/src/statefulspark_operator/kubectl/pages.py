"""The pages of `status`, `why` and `history` as text for people. Pure; programs use the reports as JSON."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import ParamSpec

from statefulspark import durations
from statefulspark.commandline import tables
from statefulspark.contract import sizes

from statefulspark_operator.api.status import RestartStatus, SnapshotStatus, UpgradeStatus
from statefulspark_operator.kubectl import text
from statefulspark_operator.kubectl.reports import DriverReport, HistoryReport, StatusReport, WhyReport
from statefulspark_operator.kubectl.text import Paint, Tone
from statefulspark_operator.lifecycle import fault

_INDENT = 13
Arguments = ParamSpec("Arguments")
_OVER = ("Stable", "Done", "FirstCheckpoint")


def _page(write: Callable[Arguments, Iterator[str]]) -> Callable[Arguments, str]:
    """Return a function that writes the lines of a page as one text, ending with a newline."""

    @functools.wraps(write)
    def page(*args: Arguments.args, **kwargs: Arguments.kwargs) -> str:
        return "".join(f"{line}\n" for line in write(*args, **kwargs))

    return page


def _field(name: str, value: str) -> str:
    """Return a name and its value; without a name, a further value of the one before."""
    label = f"{name}:" if name else ""
    return f"{label:<{_INDENT}}{text.wrapped(value, indent=_INDENT)}"


@_page
def status(report: StatusReport, paint: Paint = text.plain) -> Iterator[str]:
    """Write the page of `status`."""
    now = report.at
    yield paint(f"{report.namespace}/{report.name}", Tone.HEADING)
    yield _field("State", _state(report, paint))
    message, origin = report.message or "", report.restored_from
    is_told = any(message in finding.message for finding in report.findings) or (
        origin is not None and origin in message
    )
    if message and not is_told:
        yield _field("", message)
    if report.image is not None:
        yield _field("Image", report.image)
    if report.driver is not None:
        yield _field("Driver", _driver(report.driver, now))
    if report.standby is not None:
        standby = report.standby
        detail = f": {fault.add_to(standby.message, standby.fault)}" if standby.message else ""
        yield _field(
            "Standby",
            f"{standby.pod}, {standby.state.value} for {text.elapsed(now, standby.since)}{detail}",
        )
    if report.restored_from is not None:
        yield _field("Began from", report.restored_from)
    if report.other_spark is not None:
        yield _field("Spark", report.other_spark)
    yield from _queries(report)
    checkpoint, savepoint = report.last_checkpoint, report.last_savepoint
    yield _field("Checkpoint", _snapshot(checkpoint, now) if checkpoint is not None else "none has completed yet")
    if savepoint is not None:
        yield _field("Savepoint", _snapshot(savepoint, now))
    if report.savepoints is not None:
        kept = report.savepoints
        count = "1 savepoint" if kept.count == 1 else f"{kept.count} savepoints"
        yield _field("Kept", f"{count} by spec.savepoint.retention, {sizes.format_short(kept.size_bytes)}")
    if report.upgrade is not None:
        yield _field("Upgrade", _upgrade(report.upgrade, now))
    yield from _restarts(report.restarts, now)
    for number, sentence in enumerate(report.lost_now):
        yield _field("" if number else "Lost now", sentence)
    yield from _findings(report, paint)
    for sentence in report.unread:
        yield _field("Not read", paint(sentence, Tone.ATTENTION))


def _state(report: StatusReport | WhyReport, paint: Paint) -> str:
    since = f" for {text.elapsed(report.at, report.ready_since)}" if report.ready_since is not None else ""
    if report.ready:
        return f"{report.phase}, {paint('Ready', Tone.GOOD)}{since}"
    return f"{report.phase}, {paint('not Ready', Tone.BAD)}{since}"


def _driver(driver: DriverReport, now: datetime) -> str:
    name = f"{driver.pod}, epoch {driver.epoch}, revision {driver.revision}"
    node = f" on {driver.node}" if driver.node else ""
    if driver.is_running:
        return f"{name}{node}, started {text.ago(now, driver.since)}"
    return f"{name}, ended {text.ago(now, driver.since)}: {driver.end}"


def _queries(report: StatusReport) -> Iterator[str]:
    if not report.queries:
        return
    age = f"as of {text.ago(report.at, report.progress_at)}" if report.progress_at is not None else ""
    yield _field("Queries", age).rstrip()
    rows = [
        (
            query.uid,
            str(query.batch) if query.batch >= 0 else "none yet",
            "yes" if query.active else "no",
        )
        for query in report.queries
    ]
    header = ("QUERY", "BATCH", "ACTIVE")
    yield from (f"  {line}" for line in tables.columns(header, rows).splitlines())


def _snapshot(snapshot: SnapshotStatus, now: datetime) -> str:
    parts = [f"{snapshot.id}, {text.ago(now, snapshot.completed_at)}"]
    if snapshot.size_bytes is not None:
        parts.append(sizes.format_short(snapshot.size_bytes))
    if snapshot.trigger is not None:
        parts.append(snapshot.trigger)
    where = f": {snapshot.location}" if snapshot.location is not None else ""
    return ", ".join(parts) + where


def _upgrade(upgrade: UpgradeStatus, now: datetime) -> str:
    route = f"{upgrade.from_revision} to {upgrade.to_revision}" if upgrade.from_revision else upgrade.to_revision
    pause = f", pause {durations.format_exact(upgrade.pause)}" if upgrade.pause is not None else ""
    detail = f". {upgrade.message}" if upgrade.message and upgrade.state.value not in _OVER else ""
    return f"{upgrade.state.value}: {route}, requested {text.ago(now, upgrade.requested_at)}{pause}{detail}"


def _restarts(restarts: RestartStatus, now: datetime) -> Iterator[str]:
    if restarts.last_failure_at is None:
        return
    row = f", {restarts.consecutive} in a row" if restarts.consecutive > 1 else ""
    why = fault.add_to(restarts.last_message or restarts.last_reason or "It gave no reason.", restarts.last_fault)
    yield _field(
        "Restarts", f"{restarts.count}{row}, the last failure {text.ago(now, restarts.last_failure_at)}: {why}"
    )


def _findings(report: StatusReport | WhyReport, paint: Paint) -> Iterator[str]:
    for finding in report.findings:
        since = f" (for {text.elapsed(report.at, finding.since)})" if finding.since is not None else ""
        yield _field(
            "Problem" if report.ready else "Why", f"{paint(finding.reason, Tone.BAD)}{since}: {finding.message}"
        )
        if finding.advice is not None:
            yield _field("To do", paint(finding.advice, Tone.ATTENTION))


@_page
def why(report: WhyReport, paint: Paint = text.plain) -> Iterator[str]:
    """Write the page of `why`."""
    yield paint(f"{report.namespace}/{report.name}", Tone.HEADING)
    yield _field("State", _state(report, paint))
    yield from _findings(report, paint)
    if not report.findings:
        yield _field("Why", "Nothing is wrong.")
    if report.last_end is not None:
        yield _field("Last end", _driver(report.last_end, report.at))
    yield from _restarts(report.restarts, report.at)
    if report.events:
        yield "Events:"
    for event in report.events:
        about = "" if event.about == report.name else f"{event.about}: "
        reason = paint(event.reason, Tone.ATTENTION) if event.is_warning else event.reason
        age = text.elapsed(report.at, event.at)
        yield f"  {age:>8}   {text.wrapped(f'{reason}: {about}{event.message}', indent=_INDENT)}"
    for sentence in report.unread:
        yield _field("Not read", paint(sentence, Tone.ATTENTION))


@_page
def history(report: HistoryReport, paint: Paint = text.plain) -> Iterator[str]:
    """Write the page of `history`."""
    yield paint(f"{report.namespace}/{report.name}", Tone.HEADING)
    rows = [
        (
            "runs" if record.revision == report.running else "spec" if record.revision == report.requested else "",
            record.revision,
            record.outcome.value,
            text.ago(report.at, record.at),
            record.image,
            record.snapshot or "",
        )
        for record in report.revisions
    ]
    yield from tables.columns(("", "REVISION", "OUTCOME", "SINCE", "IMAGE", "STARTED FROM"), rows).splitlines()
    if report.upgrade is not None:
        yield _field("Upgrade", _upgrade(report.upgrade, report.at))
    if report.requested is not None and report.running is not None and report.requested != report.running:
        yield _field("Spec", f"asks for revision {report.requested}; {report.running} runs, or ran last")
