"""`statefulspark doctor`: explains a storage folder. The module `doctor` examines it; this module prints the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from statefulspark import clock, doctor, durations, errors
from statefulspark.cli import options
from statefulspark.commandline import commands, output, tables
from statefulspark.contract import diagnosis, sizes
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.retention import rules

_BROKEN = ExitCode.FAILED
_SHOWN = 10
"""Rows of a table that are shown unless all are asked for."""


@click.command(
    "doctor",
    cls=commands.Command,
    short_help="explain a storage folder: its contents, its damage, and what could be freed",
    help="Explain a storage folder: its owner, its epochs, generations, checkpoints and savepoints, what a driver would "
    "start from now and why, what is broken, and what pruning would free. The folder is the storage uri of jobs, a job's "
    "folder, or a snapshot's folder. Nothing is changed; a driver may run or not.",
    epilog="examples:\n  statefulspark doctor --storage s3://bucket/prefix\n"
    f"  statefulspark doctor --storage {options.EXAMPLE_STORAGE} --deep\n"
    f"  statefulspark doctor --storage {options.EXAMPLE_STORAGE} -o json\n\n"
    "exit codes:\n  0 healthy   1 something is broken   15 no state of this product   16 storage unavailable",
)
@click.option("--deep", is_flag=True, help="read every file, instead of trusting equal etags")
@click.option(
    "--checkpoint-retention-count", type=click.IntRange(min=1), default=rules.PrunePolicy().retained, show_default=True,
    metavar="N", help="checkpoints that pruning would keep",
)  # fmt: skip
@output.options
@options.job_folder
def command(
    deep: bool, checkpoint_retention_count: int, printing: output.Printing, job_folder: options.JobFolder
) -> int:
    """Run the command."""
    uri = job_folder.uri()
    if uri is None:
        raise errors.SpecRejectedError(
            "StorageMissing",
            "Name a folder: --storage s3://bucket/prefix, or --dev for the jobs that are developed in this folder.",
        )
    now = clock.utc_now()
    policy = rules.PrunePolicy(retained=checkpoint_retention_count)
    examination = doctor.Examination(now=now, policy=policy, deep=deep, open_store=job_folder.open)
    diagnosed = doctor.examine(job_folder.open(uri), examination)
    if diagnosed.kind in (diagnosis.PlaceKind.EMPTY, diagnosis.PlaceKind.FOREIGN):
        what = "is empty" if diagnosed.kind is diagnosis.PlaceKind.EMPTY else "holds no state of this product"
        raise errors.SpecRejectedError("SnapshotNotFound", f"{uri} {what}: check the URI and the bucket name.")
    printing.write(report(diagnosed, now=now))
    return ExitCode.SUCCESS if diagnosed.healthy else _BROKEN


def report(diagnosed: diagnosis.Diagnosis, *, now: datetime) -> output.Result:
    """Return a diagnosis as a result; wide output shows every generation and snapshot, other output the newest ten."""
    names = [f"job/{'/'.join(job.location.split('/')[-2:])}" for job in diagnosed.jobs]

    def draw(wide: bool) -> str:
        parts = ["".join(_job_text(job, now, wide=wide)) for job in diagnosed.jobs]
        if diagnosed.snapshot is not None:
            parts.append("".join(_snapshot_text(diagnosed.snapshot, now)))
        if diagnosed.foreign:
            parts.append(f"Not ours: {', '.join(diagnosed.foreign)}\n")
        return "\n".join(parts)

    return output.Result(diagnosed, names, draw)


def _facts(job: diagnosis.JobHealth, now: datetime) -> str:
    now_text = (
        f"{sizes.format_short(job.freeable.size_bytes)} in {job.freeable.files} files now"
        if job.freeable.files
        else None
    )
    later = (
        f"{sizes.format_short(job.freeable.waiting_size_bytes)} in {job.freeable.waiting_files} files after the grace time"
        if job.freeable.waiting_files
        else None
    )
    owner = job.owner
    epoch = "none: no driver has started yet"
    if owner.epoch:
        when = f", started {durations.format_short(now - owner.claimed_at)} ago" if owner.claimed_at else ""
        epoch = f"{owner.epoch}{when} by {owner.holder or 'an unknown driver: its record is unreadable'}"
    manifests = f"{len(job.freeable.checkpoints)} old checkpoints" if job.freeable.checkpoints else None
    broken = f"BROKEN, {len(job.problems)} {'problem' if len(job.problems) == 1 else 'problems'}"
    return tables.pairs(
        (
            ("Job", job.location),
            ("Health", broken if job.problems else "healthy"),
            ("Owner", job.owner.owner_id),
            ("Epoch", epoch),
            ("Restart", job.restart.sentence),
            ("Batches", ", ".join(f"{uid}={batch}" for uid, batch in job.restart.batches.items()) or None),
            ("Freeable", ", ".join(text for text in (manifests, now_text, later) if text) or None),
            ("Not ours", ", ".join(job.foreign) or None),
        )
    )


def _job_text(job: diagnosis.JobHealth, now: datetime, *, wide: bool) -> Iterator[str]:
    yield _facts(job, now)
    yield from _section("Problems", job.problems)
    yield from _section("Notes", job.notes)
    rows = [
        (
            str(health.generation),
            health.role,
            str(health.files),
            sizes.format_short(health.size_bytes),
            health.made_from or "empty state",
        )
        for health in job.generations
    ]
    yield from _table(("GENERATION", "ROLE", "FILES", "SIZE", "MADE FROM"), rows, wide=wide)
    folders = [
        (folder.path, folder.whose, str(folder.files), sizes.format_short(folder.size_bytes)) for folder in job.beside
    ]
    yield from _table(("FOLDER", "WHOSE", "FILES", "SIZE"), folders, wide=wide)
    snapshots = [_snapshot_row(snapshot, now) for snapshot in (*job.checkpoints, *job.savepoints)]
    yield from _table(("SNAPSHOT", "STATE", "AGE", "TRIGGER", "FILES", "SIZE"), snapshots, wide=wide)
    external = [(*_snapshot_row(snapshot, now), snapshot.location) for snapshot in job.elsewhere]
    yield from _table(("ELSEWHERE", "STATE", "AGE", "TRIGGER", "FILES", "SIZE", "LOCATION"), external, wide=wide)


def _section(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"{title}:\n" + "".join(f"  - {line}\n" for line in lines)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, wide: bool) -> Iterator[str]:
    if not rows:
        return
    shown = rows if wide else rows[:_SHOWN]
    yield "\n" + tables.columns(header, shown)
    if len(shown) < len(rows):
        yield f"({len(rows) - len(shown)} more; -o wide shows them)\n"


def _snapshot_row(snapshot: diagnosis.SnapshotHealth, now: datetime) -> tuple[str, ...]:
    state = "unreadable" if snapshot.problem else "complete" if snapshot.ok else f"{len(snapshot.broken)} files broken"
    return (
        snapshot.label,
        state,
        durations.format_short(now - snapshot.completed_at) if snapshot.completed_at else "",
        snapshot.trigger or "",
        str(snapshot.files) if snapshot.files is not None else "",
        sizes.format_short(snapshot.size_bytes) if snapshot.size_bytes is not None else "",
    )


def _snapshot_text(snapshot: diagnosis.SnapshotHealth, now: datetime) -> Iterator[str]:
    yield tables.pairs(
        (
            ("Snapshot", snapshot.label),
            ("Location", snapshot.location),
            ("Health", "healthy" if snapshot.ok else "BROKEN"),
            ("Problem", snapshot.problem),
            ("Age", durations.format_short(now - snapshot.completed_at) if snapshot.completed_at else None),
            (
                "Size",
                f"{sizes.format_short(snapshot.size_bytes or 0)} in {snapshot.files} files"
                if snapshot.files is not None
                else None,
            ),
            ("Not compared", f"the content of {len(snapshot.uncompared)} files" if snapshot.uncompared else None),
        )
    )
    rows = [(file.problem, file.expected, file.found, file.path) for file in snapshot.broken]
    yield from _table(("PROBLEM", "EXPECTED", "FOUND", "FILE"), rows, wide=True)
