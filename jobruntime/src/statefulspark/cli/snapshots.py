"""Builds the results of snapshot commands: a list, a description, a verification. Pure: manifests in, results out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statefulspark import durations, errors
from statefulspark.checkpoint.verify import VerifyReport
from statefulspark.commandline import output, tables
from statefulspark.contract import api, sizes
from statefulspark.contract.manifest import Manifest, QueryEntry, SnapshotKind


@dataclass(frozen=True, slots=True)
class ListedSnapshot:
    """One snapshot of a list.

    Attributes:
        kind: Checkpoint or savepoint.
        id: Its number.
        location: Absolute URI of its folder.
        manifest: Its manifest, or the error why it cannot be read.
        is_elsewhere: Whether it is a savepoint outside the job's folder.
    """

    kind: SnapshotKind
    id: int
    location: str
    manifest: Manifest | errors.StatefulSparkError
    is_elsewhere: bool = False


def listed(snapshots: Sequence[ListedSnapshot], *, now: datetime) -> output.Result:
    """Return a list in the order given."""

    def draw(wide: bool) -> str:
        header = ["ID", "TRIGGER", "FORMAT", "AGE", "SIZE", "FILES", "BATCHES"]
        extra = ["TOOK", "EPOCH", "GENERATION", "LOCATION"]
        rows = [_row(snapshot, now) for snapshot in snapshots]
        if not wide and any(snapshot.is_elsewhere for snapshot in snapshots):
            return tables.columns([*header, extra[-1]], [[*row[: len(header)], row[-1]] for row in rows])
        shown = header + extra if wide else header
        return tables.columns(shown, [row[: len(shown)] for row in rows])

    names = [f"{snapshot.kind.value}/{snapshot.id}" for snapshot in snapshots]
    items: list[dict[str, object]] = []
    for snapshot in snapshots:
        if isinstance(snapshot.manifest, Manifest):
            items.append(json.loads(api.SnapshotSummary.describe(snapshot.manifest, snapshot.location).to_json()))
            continue
        identity = {"kind": snapshot.kind.value.capitalize(), "id": snapshot.id, "location": snapshot.location}
        items.append({**identity, "reason": snapshot.manifest.reason, "message": snapshot.manifest.message})
    return output.Result({"snapshots": items}, names, draw)


def converted(manifest: Manifest, location: str) -> output.Result:
    """Return the result of a conversion."""
    summary = api.SnapshotSummary.describe(manifest, location)
    sentence = (
        f"savepoint {location} written ({len(manifest.queries)} queries, {sizes.format_short(manifest.size_bytes)} in "
        f"{_file_count(manifest)} files)\n"
    )
    return output.Result(summary, [_name(manifest)], lambda _: sentence)


def described(manifest: Manifest, location: str) -> output.Result:
    """Return everything about one snapshot; as data it is the manifest itself."""

    def draw(wide: bool) -> str:
        head = tables.pairs(
            (
                ("Kind", manifest.kind.value.capitalize()),
                ("Id", str(manifest.id)),
                ("Name", manifest.savepoint_name),
                ("Format", manifest.format.value.capitalize()),
                ("Job", f"{manifest.namespace}/{manifest.job}"),
                ("Location", location),
                ("Trigger", manifest.trigger.value.capitalize()),
                ("Request id", manifest.request_id),
                ("Triggered at", manifest.triggered_at.isoformat(timespec="seconds")),
                ("Completed at", manifest.completed_at.isoformat(timespec="seconds")),
                ("Took", _took(manifest)),
                ("Size", f"{sizes.format_short(manifest.size_bytes)} in {_file_count(manifest)} files"),
                ("Epoch", str(manifest.epoch)),
                ("Generation", str(manifest.generation)),
                ("Restored from", manifest.restored_from),
                ("Revision", manifest.revision),
                (
                    "Written by",
                    ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items())) or None,
                ),
            )
        )
        return head + "".join(_describe_query(query, wide=wide) for query in manifest.queries)

    return output.Result(manifest, [_name(manifest)], draw)


def verified(manifest: Manifest, location: str, report: VerifyReport) -> output.Result:
    """Return the result of a verification, with one line per broken file."""
    data = {
        "location": location,
        "ok": report.ok,
        "files": report.files,
        "sizeBytes": report.size_bytes,
        "problems": [
            {"path": problem.path, "kind": problem.kind.value, "detail": problem.detail} for problem in report.problems
        ],
        "uncompared": list(report.uncompared),
    }

    def draw(_: bool) -> str:
        label = manifest.label.capitalize()
        amount = f"{report.files} files, {sizes.format_short(report.size_bytes)}"
        reservation = f"{report.reservation}\n" if report.reservation is not None else ""
        if report.ok:
            return f"{label} is complete: {amount} verified.\n{reservation}"
        lines = "".join(f"  {problem.kind.value}: {problem.detail}\n" for problem in report.problems)
        return f"{label} is broken: {len(report.problems)} of {amount}.\n{lines}{reservation}"

    return output.Result(data, [_name(manifest)], draw)


def _name(manifest: Manifest) -> str:
    return f"{manifest.kind.value}/{manifest.id}"


def _row(listed: ListedSnapshot, now: datetime) -> list[str]:
    manifest = listed.manifest
    if isinstance(manifest, errors.StatefulSparkError):
        why = "not there" if manifest.reason == "SnapshotNotFound" else "out of reach"
        why = "unreadable" if isinstance(manifest, errors.SnapshotCorruptError) else why
        return [str(listed.id), why, *[""] * 8, listed.location]  # The same number of columns as below.
    batches = ",".join(f"{query.uid}={query.batch_id}" for query in manifest.queries)
    return [
        str(listed.id),
        manifest.trigger.value.capitalize(),
        manifest.format.value.capitalize(),
        durations.format_short(now - manifest.completed_at),
        sizes.format_short(manifest.size_bytes),
        str(_file_count(manifest)),
        batches,
        _took(manifest),
        str(manifest.epoch),
        str(manifest.generation),
        listed.location,
    ]


def _describe_query(query: QueryEntry, *, wide: bool) -> str:
    operators = [
        f"{operator.uid} ({operator.name}, {operator.partitions} partitions"
        + (f", {operator.max_parallelism} key groups)" if operator.max_parallelism is not None else ")")
        for operator in query.operators
    ]
    entries = [
        ("Batch", str(query.batch_id)),
        ("Path", query.path),
        ("Files", f"{len(query.files)}, {sizes.format_short(sum(file.size_bytes for file in query.files))}"),
        *(("Operator", text) for text in operators),
        *(("Offset", text) for text in query.offsets),
    ]
    text = f"Query {query.uid}\n" + tables.indent(tables.pairs(entries))
    if wide and query.files:
        files = [(sizes.format_short(file.size_bytes), file.path, file.checksum or "") for file in query.files]
        text += tables.indent(tables.columns(("SIZE", "FILE", "CHECKSUM"), files))
    return text


def _took(manifest: Manifest) -> str:
    return durations.format_short(manifest.completed_at - manifest.triggered_at)


def _file_count(manifest: Manifest) -> int:
    return sum(len(query.files) for query in manifest.queries)
