"""What a run leaves for the picture, beside the data of Prometheus: when it was, what happened, and how each rule did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DATA = "data"
FILE = "recording.json"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was done to the cluster.

    Attributes:
        at_s: When, in seconds since 1970.
        text: In a few words.
    """

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the chart.

    Attributes:
        name: The alert's.
        health: `ok` if Prometheus evaluates it.
        error: Why it does not; nothing if it does.
    """

    name: str
    health: str
    error: str = ""


@dataclass(slots=True)
class Recording:
    """A run.

    Attributes:
        began_s: Begin of the time that is shown, in seconds since 1970.
        ended_s: Its end.
        marks: What happened, in order.
        rules: All rules that were loaded.
    """

    began_s: float
    ended_s: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write it beside the data."""
        folder.joinpath(FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")


def read(folder: Path) -> Recording:
    """Read what a run has left."""
    document = json.loads(folder.joinpath(FILE).read_text("utf-8"))
    return Recording(
        began_s=document["began_s"],
        ended_s=document["ended_s"],
        marks=[Mark(**mark) for mark in document["marks"]],
        rules=[Rule(**rule) for rule in document["rules"]],
    )


def unhealthy(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that Prometheus could not evaluate."""
    return [rule for rule in rules if rule.health != "ok"]
