"""The report of a check: what the next start would do with the job's state; see `start`."""

from __future__ import annotations

import sys
from enum import StrEnum

from statefulspark import errors, failures, launch
from statefulspark.contract import config
from statefulspark.contract.base import WireModel
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.declaration import JobDefinition
from statefulspark.driver import assemble, start
from statefulspark.evolution import comparison
from statefulspark.recovery.plan import StartMode


class ReportFormat(StrEnum):
    """How the report is written."""

    TEXT = "text"
    """Sentences for people."""
    JSON = "json"
    """One document, `Report`, for tools."""


class QueryReport(WireModel):
    """What would become of one query's state."""

    uid: str
    batch_id: int
    """The batch that it would go on after; -1 starts empty."""
    kept: tuple[str, ...] = ()
    """Operators that keep their state where it is."""
    moved: tuple[str, ...] = ()
    """Operators that keep their state at another place in the plan."""
    added: tuple[str, ...] = ()
    """Operators that start empty."""
    dropped: tuple[str, ...] = ()
    """Operators whose state is left behind."""
    new_sources: tuple[str, ...] = ()
    """Sources that start where their options say."""
    dropped_sources: tuple[str, ...] = ()
    """Sources whose position is left behind."""
    partitions: int | None = None
    """New number of state partitions; absent if it stays."""


class Report(WireModel):
    """What a start would do now."""

    fits: bool
    """Whether the job could start; the process ends with 0 only then."""
    reason: str | None = None
    """Why it could not, in one word."""
    message: str | None = None
    """Why it could not, in a sentence with the way out."""
    restored_from: str | None = None
    """What it would start from; absent for empty state."""
    new_generation: bool = False
    """Whether the state would be copied first; false where there is none."""
    changes: tuple[str, ...] = ()
    """Every change to the state, in sentences."""
    warnings: tuple[str, ...] = ()
    """What the state goes on with although it may not be meant, in sentences."""
    queries: tuple[QueryReport, ...] = ()


def check(job: JobDefinition, job_config: config.JobConfig, form: ReportFormat) -> int:
    """Compare a job with the state that it would start from, and print the report.

    Returns:
        0 if it could start, else the exit code that the start would have.

    Raises:
        Exception: A failure of ours: it says nothing about the job, so there is no report.
    """
    code = ExitCode.FINISHED
    try:
        report = report_of(start.check(job, job_config))
    except errors.StatefulSparkError as error:
        if failures.is_a_bug(error):
            raise
        if isinstance(error, errors.UserCodeError):
            launch.print_stack(error)
        code = failures.of_error(error).code
        report = Report(fits=False, reason=error.reason, message=error.message)
    sys.stdout.write(report.to_json(indent=2) + "\n" if form is ReportFormat.JSON else sentences(report))
    return int(code)


def report_of(compared: assemble.Comparison) -> Report:
    """Put a comparison into a report."""
    found, changes = compared.found, compared.changes
    anything = any(not change.is_empty for change in changes.values())
    return Report(
        fits=True,
        restored_from=found.restored_from,
        new_generation=anything or found.mode is StartMode.COPY,
        changes=tuple(sentence for change in changes.values() for sentence in change.sentences),
        warnings=(
            *((found.restore_skipped,) if found.restore_skipped else ()),
            *(sentence for change in changes.values() for sentence in change.warnings),
        ),
        queries=tuple(
            _query(changes[one.uid]) if one.uid in changes else QueryReport(uid=one.uid, batch_id=-1)
            for one in compared.built.queries
        ),
    )


def sentences(report: Report) -> str:
    """Return a report for people."""
    if not report.fits:
        return f"This job cannot start from its state.\n{report.reason}: {report.message}\n"
    source = report.restored_from or "empty state"
    lines = [f"This job can start from {source}."]
    for query in report.queries:
        batch = f"goes on after batch {query.batch_id}" if query.batch_id >= 0 else "starts empty"
        lines.append(f"  query {query.uid!r} {batch}")
        lines += [f"    keeps operator {name!r}" for name in query.kept]
    lines += [f"  {sentence}" for sentence in report.changes]
    lines += [f"  warning: {sentence}" for sentence in report.warnings]
    if report.restored_from is not None:
        lines.append("The state is copied first." if report.new_generation else "The state is used as it is.")
    return "\n".join(lines) + "\n"


def _query(change: comparison.Evolution) -> QueryReport:
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
