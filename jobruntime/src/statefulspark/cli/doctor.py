"""`statefulspark doctor`: explain a storage folder. The looking is `doctor`'s; this draws it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from statefulspark import clock, doctor, errors
from statefulspark.cli import options, output, tables
from statefulspark.contract import diagnosis, durations, layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.retention import rules

_BROKEN = ExitCode.FAILED


def add_parser(commands: options.SubParsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="explain a storage folder: what is there, what is broken, what could be freed",
        description="Explain a storage folder: whose it is, its epochs, generations, checkpoints and savepoints, what a "
        "driver would start from now and why, what is broken, and what pruning would free. ROOT is a storage root, one "
        "job's folder, or one snapshot's. Nothing is changed, and no driver has to run, or to stop.",
        epilog="examples:\n  statefulspark doctor s3://bucket/prefix\n"
        f"  statefulspark doctor {options.EXAMPLE_ROOT} --deep\n"
        "  statefulspark doctor s3://bucket/prefix --job default/words -o json\n\n"
        "exit codes:\n  0 healthy   1 something is broken   15 nothing of ours is there   16 storage unavailable",
        formatter_class=options.Help,
    )
    parser.add_argument("root", metavar="ROOT", help="URI of a storage root, of a job's folder, or of a snapshot's")
    parser.add_argument("--job", metavar="NAMESPACE/NAME", help="look at this job below ROOT only")
    parser.add_argument("--deep", action="store_true", help="read every file, instead of trusting equal etags")
    parser.add_argument(
        "--retained", type=int, default=rules.PrunePolicy().retained, metavar="N",
        help="checkpoints that pruning would keep, 3 when omitted",
    )  # fmt: skip
    output.add_flag(parser)
    options.add_connection(parser)
    parser.set_defaults(handle=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    root: str = args.root.rstrip("/")
    uri = f"{root}/{layout.job_prefix(*_job(args.job))}" if args.job else root
    now = clock.utc_now()
    how = doctor.Examination(
        now=now,
        policy=rules.PrunePolicy(retained=args.retained),
        deep=args.deep,
        open_store=lambda place: options.open_location(place, args),
    )
    found = doctor.examine(options.open_location(uri, args), how)
    if found.kind in (diagnosis.PlaceKind.EMPTY, diagnosis.PlaceKind.FOREIGN):
        what = "is empty" if found.kind is diagnosis.PlaceKind.EMPTY else "holds nothing of ours"
        raise errors.SpecRejectedError("SnapshotNotFound", f"{uri} {what}: check the URI, and the bucket's name in it.")
    output.write(report(found, now=now), args.output)
    return ExitCode.FINISHED if found.healthy else _BROKEN


def _job(text: str) -> tuple[str, str]:
    namespace, separator, name = text.partition("/")
    if not separator or not namespace or not name or "/" in name:
        raise errors.SpecRejectedError("JobInvalid", f"The job {text!r} must look like default/words.")
    return namespace, name


def report(found: diagnosis.Diagnosis, *, now: datetime) -> output.Result:
    """Return a diagnosis as a result; wide shows every generation and snapshot, else the newest ten of each."""
    names = [f"job/{'/'.join(job.location.split('/')[-2:])}" for job in found.jobs]

    def draw(wide: bool) -> str:
        parts = ["".join(_job_text(job, now, wide=wide)) for job in found.jobs]
        if found.snapshot is not None:
            parts.append("".join(_snapshot_text(found.snapshot, now)))
        if found.foreign:
            parts.append(f"Not ours: {', '.join(found.foreign)}\n")
        return "\n".join(parts)

    return output.Result(found, names, draw)


def _job_text(job: diagnosis.JobHealth, now: datetime, *, wide: bool) -> Iterator[str]:
    yield tables.pairs(
        (
            ("Job", job.location),
            ("Health", _health(job.problems)),
            ("Owner", job.owner.owner_id),
            ("Epoch", _epoch(job.owner, now)),
            ("Restart", job.restart.sentence),
            ("Batches", ", ".join(f"{uid}={batch}" for uid, batch in job.restart.batches.items()) or None),
            ("Freeable", _freeable(job.freeable)),
            ("Not ours", ", ".join(job.foreign) or None),
        )
    )
    yield from _section("Problems", job.problems)
    yield from _section("Notes", job.notes)
    rows = [
        (str(one.generation), one.role, str(one.files), tables.size(one.size_bytes), one.made_from or "empty state")
        for one in job.generations
    ]
    yield from _table(("GENERATION", "ROLE", "FILES", "SIZE", "MADE FROM"), rows, wide=wide)
    beside = [
        (one.path, one.whose, str(one.files), tables.size(one.size_bytes), f"{one.unneeded_files} files")
        for one in job.beside
    ]
    yield from _table(("FOLDER", "WHOSE", "FILES", "SIZE", "UNNEEDED"), beside, wide=wide)
    snapshots = [_snapshot_row(one, now) for one in (*job.checkpoints, *job.savepoints)]
    yield from _table(("SNAPSHOT", "STATE", "AGE", "TRIGGER", "FILES", "SIZE"), snapshots, wide=wide)
    away = [(*_snapshot_row(one, now), one.location) for one in job.elsewhere]
    yield from _table(("ELSEWHERE", "STATE", "AGE", "TRIGGER", "FILES", "SIZE", "LOCATION"), away, wide=wide)


def _health(problems: tuple[str, ...]) -> str:
    if not problems:
        return "healthy"
    return f"BROKEN, {len(problems)} {'problem' if len(problems) == 1 else 'problems'}"


def _section(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"{title}:\n" + "".join(f"  - {line}\n" for line in lines)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, wide: bool, limit: int = 10) -> Iterator[str]:
    if not rows:
        return
    shown = rows if wide else rows[:limit]
    yield "\n" + tables.columns(header, shown)
    if len(shown) < len(rows):
        yield f"({len(rows) - len(shown)} more; -o wide shows them)\n"


def _snapshot_row(one: diagnosis.SnapshotHealth, now: datetime) -> tuple[str, ...]:
    state = "unreadable" if one.problem else "complete" if one.ok else f"{len(one.broken)} files broken"
    return (
        one.label,
        state,
        durations.format_short(now - one.completed_at) if one.completed_at else "",
        one.trigger or "",
        str(one.files) if one.files is not None else "",
        tables.size(one.size_bytes) if one.size_bytes is not None else "",
    )


def _snapshot_text(one: diagnosis.SnapshotHealth, now: datetime) -> Iterator[str]:
    yield tables.pairs(
        (
            ("Snapshot", one.label),
            ("Location", one.location),
            ("Health", "healthy" if one.ok else "BROKEN"),
            ("Problem", one.problem),
            ("Age", durations.format_short(now - one.completed_at) if one.completed_at else None),
            ("Size", f"{tables.size(one.size_bytes or 0)} in {one.files} files" if one.files is not None else None),
        )
    )
    rows = [(file.problem, file.expected, file.found, file.path) for file in one.broken]
    yield from _table(("PROBLEM", "EXPECTED", "FOUND", "FILE"), rows, wide=True)


def _epoch(owner: diagnosis.OwnerFacts, now: datetime) -> str:
    if not owner.epoch:
        return "none: no driver has started yet"
    ago: timedelta | None = now - owner.claimed_at if owner.claimed_at else None
    when = f", started {durations.format_short(ago)} ago" if ago is not None else ""
    return f"{owner.epoch}{when} by {owner.holder or 'nobody who can be read'}"


def _freeable(of: diagnosis.Freeable) -> str | None:
    now_text = f"{tables.size(of.size_bytes)} in {of.files} files now" if of.files else None
    later = (
        f"{tables.size(of.waiting_size_bytes)} in {of.waiting_files} files after the grace time"
        if of.waiting_files
        else None
    )
    manifests = f"{len(of.checkpoints)} old checkpoints" if of.checkpoints else None
    return ", ".join(text for text in (manifests, now_text, later) if text) or None
