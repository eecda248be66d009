"""`make soak`: random faults under load for some minutes, in rounds that end with a comparison; seeded and resumable.

A round is a world of its own with some faults in a row, all of which follow from the seed and the round's number. What a
round ended as is written at once, so that a soak that was interrupted goes on with the next round, under the same seed.
"""

from __future__ import annotations

import argparse
import enum
import json
import random
import secrets
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from faults import every, matrix, row, surroundings, world
from faults.scenario import Scenario

FAULTS_IN_A_ROUND = 4
Ours = Scenario[world.World]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a soak is.

    Attributes:
        seed: All of it follows from this.
        rounds: How many rounds have ended.
        seconds: How long they took.
    """

    seed: int
    rounds: int = 0
    seconds: float = 0.0


class Workers(enum.StrEnum):
    """Where the tasks of a soak run."""

    DRIVER = "driver"
    """In the driver's own workers, in all rounds."""
    BOTH = "both"
    """In two of four rounds on executors."""


def round_of(seed: int, number: int, workers: Workers = Workers.BOTH) -> tuple[Ours, tuple[str, ...]]:
    """Return a round as one scenario, and the names of its faults; in every other round all keyed state is in packs.

    Args:
        seed: Of the soak.
        number: Of the round, from 0.
        workers: Where tasks run.
    """
    has_executors, packs_all = workers is Workers.BOTH and number // 2 % 2 == 1, number % 2 == 1
    among = every.IN_A_SOAK[has_executors, packs_all]
    chosen = random.Random(f"{seed}/{number}").choices(among, k=FAULTS_IN_A_ROUND)

    def act(place: world.World) -> None:
        for one in chosen:
            one.act(place)

    round_ = Scenario(f"soak-{seed}-{number}", act, packs_all=packs_all, has_executors=has_executors)
    return round_, tuple(one.name for one in chosen)


def read(path: Path) -> Progress | None:
    """Return how far an earlier soak is; None without one."""
    return Progress(**json.loads(path.read_text())) if path.exists() else None


def main() -> int:
    """Read the command line and soak."""
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description="Random faults under load, for a while.")
    parser.add_argument("--minutes", type=float, default=60.0, help="of all rounds, those before an interruption too")
    parser.add_argument(
        "--seed", type=int, help="of everything random; the interrupted soak's, or a new one, when omitted"
    )
    parser.add_argument(
        "--workers", type=Workers, default=Workers.BOTH, choices=tuple(Workers), help="driver, or both, with executors"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/faults"), help="gets the report and the logs")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers and drivers are ended
    folder: Path = chosen.folder.resolve()
    path = folder / "soak.json"
    before = read(path)
    if before is None or chosen.seed not in (None, before.seed) or before.seconds >= chosen.minutes * 60:
        before = Progress(secrets.randbelow(1 << 31) if chosen.seed is None else chosen.seed)
    print(f"seed {before.seed}: {before.rounds} rounds have ended before; again with --seed {before.seed}", flush=True)
    report = row.Report(folder / "soak.jsonl")
    return _soak(before, path, report, until_s=chosen.minutes * 60, workers=chosen.workers)


def _say(line: str) -> None:
    print(line, flush=True)


def _soak(progress: Progress, path: Path, report: row.Report, *, until_s: float, workers: Workers) -> int:
    is_good = True
    worlds = path.parent / "worlds"
    with surroundings.serving(worlds / "servers") as servers:
        while progress.seconds < until_s:
            begun_s = time.monotonic()
            scenario, names = round_of(progress.seed, progress.rounds, workers)
            _say(f"{scenario.name}: {', '.join(names)}")
            seed = progress.seed + progress.rounds
            place, load = worlds / scenario.name, surroundings.Load()
            (found,) = matrix.play((scenario,), servers, place, seed=seed, load=load, say=_say, kind=world.World)
            report.add(found)
            _say(matrix.sentence(found))
            is_good = is_good and found.passed
            took_s = time.monotonic() - begun_s
            progress = Progress(progress.seed, progress.rounds + 1, progress.seconds + took_s)
            path.write_text(json.dumps({name: getattr(progress, name) for name in Progress.__dataclass_fields__}))
    print(f"The table is {report.table}.")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
