"""The report of a check: what the next start would do with the job's state; see `start`."""

from __future__ import annotations

from enum import StrEnum

from statefulspark import errors, failures, launch
from statefulspark.commandline import terminal
from statefulspark.contract import config
from statefulspark.contract.base import WireModel
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.declaration import JobDefinition
from statefulspark.driver.starting import start, start_parts
from statefulspark.evolution import comparison
from statefulspark.recovery.plan import StartMode


class ReportFormat(StrEnum):
    """How the report is written."""

    TEXT = "text"
    """Sentences for people."""
    JSON = "json"
    """One document, `Report`, for tools."""


class QueryReport(WireModel):
    """How the start would treat the state of one query."""

    uid: str
    batch_id: int
    """The query would continue after this batch; -1: it starts empty."""
    kept: tuple[str, ...] = ()
    """Operators that keep their state and their position in the plan."""
    moved: tuple[str, ...] = ()
    """Operators that keep their state at another position in the plan."""
    added: tuple[str, ...] = ()
    """Operators that start empty."""
    dropped: tuple[str, ...] = ()
    """Operators whose state is dropped."""
    new_sources: tuple[str, ...] = ()
    """Sources that start at the position that their options give."""
    dropped_sources: tuple[str, ...] = ()
    """Sources whose position is dropped."""
    partitions: int | None = None
    """New number of state partitions; absent if it is unchanged."""


class Report(WireModel):
    """What a start would do."""

    fits: bool
    """Whether the job could start; the process ends with 0 only then."""
    reason: str | None = None
    """Why it could not, as a reason."""
    message: str | None = None
    """Why it could not, and what to do."""
    restored_from: str | None = None
    """The snapshot that it would start from; absent for empty state."""
    new_generation: bool = False
    """Whether the state would be copied first; false if there is no state."""
    copied_because: str | None = None
    """Why the requested snapshot would be copied instead of continued in place; absent if it would not be copied."""
    changes: tuple[str, ...] = ()
    """Every change to the state, as sentences."""
    warnings: tuple[str, ...] = ()
    """Differences that the start accepts but that may be mistakes, as sentences."""
    queries: tuple[QueryReport, ...] = ()


def check(job: JobDefinition, job_config: config.JobConfig, form: ReportFormat) -> int:
    """Compare a job with the state that it would start from, and print the report.

    Returns:
        0 if it could start, else the exit code that the start would have.

    Raises:
        Exception: A bug of the product; it says nothing about the job, so there is no report.
    """
    code = ExitCode.SUCCESS
    try:
        report = report_of(start.check(job, job_config))
    except errors.StatefulSparkError as error:
        if failures.is_a_bug(error):
            raise
        if isinstance(error, errors.UserCodeError):
            launch.print_stack(error)
        code = failures.classify_error(error).code
        report = Report(
            fits=False, reason=error.reason, message=launch.for_reader(launch.located(error, error.message))
        )
    terminal.write(report.to_json(indent=2) if form is ReportFormat.JSON else sentences(report))
    return int(code)


def report_of(compared: start_parts.Comparison) -> Report:
    """Build the report of a comparison."""
    start_plan, changes = compared.start_plan, compared.changes
    has_changes = any(not change.is_empty for change in changes.values())
    return Report(
        fits=True,
        restored_from=start_plan.restored_from,
        new_generation=has_changes or start_plan.mode is StartMode.COPY,
        copied_because=start_plan.why_copied,
        changes=tuple(sentence for change in changes.values() for sentence in change.sentences),
        warnings=(
            *((start_plan.restore_skipped,) if start_plan.restore_skipped else ()),
            *(sentence for change in changes.values() for sentence in change.warnings),
        ),
        queries=tuple(_report_query(query.uid, changes.get(query.uid)) for query in compared.built.queries),
    )


def sentences(report: Report) -> str:
    """Return a report for people."""
    if not report.fits:
        return f"This job cannot start.\n{report.reason}: {report.message}\n"
    source = report.restored_from or "empty state"
    lines = [f"This job can start from {source}."]
    for query in report.queries:
        batch = f"continues after batch {query.batch_id}" if query.batch_id >= 0 else "starts empty"
        lines.append(f"  query {query.uid!r} {batch}")
        lines += [f"    keeps operator {name!r}" for name in query.kept]
    lines += [f"  {sentence}" for sentence in report.changes]
    lines += [f"  warning: {sentence}" for sentence in report.warnings]
    if report.restored_from is not None:
        because = f", since {report.copied_because.rstrip('.')}" if report.copied_because else ""
        lines.append(f"The state is copied first{because}." if report.new_generation else "The state is used as it is.")
    return "\n".join(lines) + "\n"


def _report_query(uid: str, change: comparison.Evolution | None) -> QueryReport:
    if change is None:
        return QueryReport(uid=uid, batch_id=-1)
    names = {operator.operator_id: operator.uid for operator in change.query.operators}
    sources = change.planned.source_entries
    return QueryReport(
        uid=change.query.uid,
        batch_id=change.query.batch_id,
        kept=tuple(names[old] for old, new in change.operators.items() if old == new),
        moved=tuple(names[old] for old, new in change.operators.items() if old != new),
        added=tuple(operator.entry_uid for operator in change.added),
        dropped=tuple(operator.uid for operator in change.dropped),
        new_sources=tuple(sources[index].name for index, line in enumerate(change.lines) if line is None),
        dropped_sources=tuple(source.name for source in change.dropped_sources),
        partitions=change.partitions,
    )
