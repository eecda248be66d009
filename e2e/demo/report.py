"""The report: what was lost, repeated and how long each pause was, for people and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from oracle.compare import Comparison
from statefulspark.contract.manifest import Manifest, SnapshotKind

from demo import timeline

JsonValue = str | int | float | bool | None | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
Report = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the report is made of.

    Attributes:
        flights: How many flights went in.
        comparison: What the comparison with the truth found.
        history: What happened, when.
        snapshots: Every checkpoint and savepoint that was seen, by number.
        started_at: When the resource was applied.
        finished_at: When everything was out.
        machine: Where it ran, and with which versions.
    """

    flights: int
    comparison: Comparison
    history: timeline.Timeline
    snapshots: Mapping[int, Manifest]
    started_at: datetime
    finished_at: datetime
    machine: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Tell whether the promise was kept: nothing lost, repeated or different, through every kill and upgrade."""
        return self.comparison.is_exact and None not in downtimes(self.history).values()


def build(outcome: Outcome) -> Report:
    """Return the report as it is written to `report.json`."""
    comparison, history = outcome.comparison, outcome.history
    kinds = [manifest.kind for manifest in outcome.snapshots.values()]
    starts = restored_from(outcome.snapshots)
    recovered = history.pause(timeline.MarkKind.KILLED)
    return {
        "flights": outcome.flights,
        "lost": comparison.lost,
        "repeated": comparison.repeated,
        "different": comparison.different,
        **{name: _rounded(seconds) for name, seconds in downtimes(history).items()},
        "bad_upgrade_gap_s": _rounded(history.bad_upgrade_gap_s()),
        "checkpoints": kinds.count(SnapshotKind.CHECKPOINT),
        "savepoints": kinds.count(SnapshotKind.SAVEPOINT),
        "restored_from": starts.get(recovered.epoch) if recovered else None,
        "starts": [{"epoch": epoch, "restored_from": source} for epoch, source in sorted(starts.items())],
        "keys_compared": comparison.keys,
        "values_compared": comparison.fields,
        "carrier_rows_by_version": {str(version): rows for version, rows in comparison.rows_by_version.items()},
        "examples": list(comparison.examples),
        "started_at": outcome.started_at.isoformat(),
        "duration_s": _rounded((outcome.finished_at - outcome.started_at).total_seconds()),
        "timeline": [
            {"at_s": _since(outcome, mark.at), "kind": mark.kind.value, "text": mark.text} for mark in history.marks
        ],
        "commits": [
            {
                "at_s": _since(outcome, c.at),
                "written_at_s": _since(outcome, c.worked_until),
                "query": c.query,
                "batch": c.batch_id,
                "epoch": c.epoch,
                "rows": c.rows,
            }
            for c in history.commits
        ],
        "machine": dict(outcome.machine),
    }


def downtimes(history: timeline.Timeline) -> dict[str, float | None]:
    """Return each pause, from the last output visible before to the first of a later driver; None if it did not end."""
    return {
        "recovery_s": history.recovery_s(),
        "standby_recovery_s": history.standby_recovery_s(),
        "upgrade_pause_s": history.upgrade_pause_s(),
        "cold_upgrade_pause_s": history.cold_upgrade_pause_s(),
        "bad_upgrade_downtime_s": history.bad_upgrade_downtime_s(),
    }


def restored_from(snapshots: Mapping[int, Manifest]) -> dict[int, str | None]:
    """Return what each epoch started from, as the last snapshot that it took says.

    The first one may be the batch that it salvaged, which names what was newest before.
    """
    ordered = sorted(snapshots.values(), key=lambda manifest: manifest.id)
    return {manifest.epoch: manifest.restored_from for manifest in ordered}


def sentences(outcome: Outcome) -> tuple[str, ...]:
    """Say the result to a person."""
    report = build(outcome)
    comparison, history = outcome.comparison, outcome.history
    verdict = "Every result is exact" if comparison.is_exact else "The results are WRONG"
    lines = (
        f"{verdict}: {comparison.keys:,} keys and {comparison.fields:,} values compared with the truth.",
        "",
        f"  flights          {outcome.flights:>9,}",
        f"  lost             {comparison.lost:>9,}",
        f"  repeated         {comparison.repeated:>9,}",
        f"  different        {comparison.different:>9,}",
        "  without output, from the last before to the first of the next driver:",
        f"  a kill           {_seconds(history.recovery_s()):>9}   went on from {report['restored_from']}",
        f"  beside a standby {_seconds(history.standby_recovery_s()):>9}",
        f"  warm upgrade     {_seconds(history.upgrade_pause_s()):>9}   to version 2",
        f"  cold upgrade     {_seconds(history.cold_upgrade_pause_s()):>9}",
        f"  broken version   {_seconds(history.bad_upgrade_downtime_s()):>9}   {_longest(history)}",
        f"  checkpoints      {report['checkpoints']:>9}",
        f"  savepoints       {report['savepoints']:>9}",
    )
    return (*lines, *(f"  ! {example}" for example in comparison.examples))


def _longest(history: timeline.Timeline) -> str:
    return f"it never stopped; the longest time between two outputs was {_seconds(history.bad_upgrade_gap_s())}"


def _since(outcome: Outcome, at: datetime) -> float:
    return round((at - outcome.started_at).total_seconds(), 3)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"
