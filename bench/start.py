"""Where the first seconds of a driver go: from the start of its process until its first output is visible.

A job with a keyed function, an aggregation and two sinks has state on S3 and rows that it has not read. It is killed and
started again; the times are those of the driver's log and of the files on S3, the processor seconds those of /proc. In
turns with it: the same plan as plain PySpark, with its checkpoints and its output on the local disk, and what `--also` adds,
which is the same driver with other flags and variables.
"""

from __future__ import annotations

import json
import math
import shlex
import signal
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import processes
import s3server

from bench import machine, processor_time, start_moments, state_size
from bench.processor_time import Role
from bench.start_moments import Start

ARCHIVE = machine.ROOT / "build" / "jvm.jsa"
TRAINING = machine.ROOT / "jobruntime" / "image" / "train_archive.py"
UIDS = ("keyed", "aggregated")
KEYS = 2_000
TOUCHED_KEYS = 200
LIMIT_S = 300.0


@dataclass(slots=True)
class Contender(ABC):
    """Something that is started again and again; the first start, on no state, is not counted."""

    name: str
    folder: Path
    input: Path
    starts: list[Start] = field(default_factory=list)

    def turn(self) -> None:
        """Start it, wait until all that it has to do is visible, and kill it."""
        began_s = time.time()
        process = self.launch()
        watch = processor_time.Watch(process.pid)
        try:
            moments = machine.wait_for(
                lambda: self._ended(process, began_s), f"{self.name} has done its first batches", LIMIT_S
            )
        finally:
            samples = watch.end()
            process.send_to_family(signal.SIGKILL)
            process.stop()
        ordered = dict(sorted(moments.items(), key=lambda moment: moment[1]))
        used = {name: processor_time.used_s(samples, began_s + at_s) for name, at_s in ordered.items()}
        self.starts.append(Start(ordered, used))

    def _ended(self, process: processes.Process, began_s: float) -> dict[str, float] | None:
        if not process.runs:
            raise SystemExit(f"{self.name} ended:\n{process.tail}")
        return self.moments(began_s)

    @abstractmethod
    def launch(self) -> processes.Process:
        """Start the process."""

    @abstractmethod
    def moments(self, began_s: float) -> dict[str, float] | None:
        """Return when it did what, in seconds after a moment; None while there is something missing."""


@dataclass(slots=True)
class Ours(Contender):
    """A driver on S3."""

    server: s3server.S3Server | None = None
    options: str = ""
    _driver: machine.Driver | None = None

    def launch(self) -> processes.Process:
        """See the base."""
        if self._driver is None:
            self._driver = self._declared()
        self._driver.log.unlink(missing_ok=True)
        self._driver.start()
        return self._driver.process

    def _declared(self) -> machine.Driver:
        assert self.server is not None
        words = shlex.split(self.options)
        variables = [
            word for word in words if not word.startswith("-") and "=" in word and word.split("=")[0].isupper()
        ]
        return machine.Driver(
            "starting.py",
            f"s3://{self.server.new_bucket(self.folder.name)}/state",
            self.server,
            self.folder / "driver.log",
            parameters={"input": self.input, "output": f"s3://{self.server.new_bucket(self.folder.name)}/out"},
            flags=[word for word in words if word not in variables],
            env={"STATEFULSPARK_JVM_ARCHIVE": str(ARCHIVE), **dict(word.split("=", 1) for word in variables)},
        )

    def moments(self, began_s: float) -> dict[str, float] | None:
        """See the base."""
        assert self._driver is not None
        assert self.server is not None
        told = {name: at_s - began_s for name, at_s in logged(self._driver.log)}
        root, output = (
            self.server.objects / uri.removeprefix("s3://")
            for uri in (self._driver.uri, str(self._driver.parameters["output"]))
        )
        generations = root / "default" / "starting" / "generations"
        stored = _stored(generations, "*/{}", began_s, output=output, visible="{}/_commits/**/*")
        return None if stored is None or len(told) < len(start_moments.LOGGED) else {**told, **stored}


@dataclass(slots=True)
class Bare(Contender):
    """Plain PySpark on the local disk."""

    def launch(self) -> processes.Process:
        """See the base."""
        environment = {"PYSPARK_PYTHON": sys.executable}
        process = processes.Process(self.name, self.folder / "log", environment=environment)
        process.launch([sys.executable, str(machine.JOBS / "bare_starting.py"), str(self.input), str(self.folder)])
        return process

    def moments(self, began_s: float) -> dict[str, float] | None:
        """See the base."""
        return _stored(
            self.folder / "checkpoints", "{}", began_s, output=self.folder / "checkpoints", visible="{}/commits/[0-9]*"
        )


def logged(log: Path) -> Iterator[tuple[str, float]]:
    """Yield the first time of each moment in a driver's log."""
    seen = set()
    for line in log.read_text().splitlines() if log.exists() else ():
        with suppress(ValueError):
            record = json.loads(line)
            name = start_moments.LOGGED.get(record["message"])
            if name is not None and name not in seen:
                seen.add(name)
                yield name, datetime.fromisoformat(record["time"]).timestamp()


def _stored(checkpoints: Path, query: str, began_s: float, *, output: Path, visible: str) -> dict[str, float] | None:
    """Return when the queries' first files of a start were written; None while one is missing.

    What is visible before a query's commit was there for the start before.
    """
    planned, committed, seen = [], [], []
    for uid in UIDS:
        planned.append(first(checkpoints, f"{query}/offsets/[0-9]*".format(uid), began_s))
        committed.append(first(checkpoints, f"{query}/commits/[0-9]*".format(uid), began_s))
        seen.append(first(output, visible.format(uid), began_s + committed[-1]) + committed[-1])
    if math.inf in (*planned, *committed, *seen):
        return None
    return {
        start_moments.BATCH_PLANNED: min(planned),
        start_moments.BATCH_COMMITTED: min(committed),
        start_moments.ALL_COMMITTED: max(committed),
        start_moments.VISIBLE: min(seen),
        start_moments.ALL_VISIBLE: max(seen),
    }


def first(root: Path, pattern: str, began_s: float) -> float:
    """Return after how many seconds the first file was written; infinite if none was."""
    times = [file.stat().st_mtime - began_s for file in root.glob(pattern) if file.is_file()]
    return min((at_s for at_s in times if at_s >= 0), default=math.inf)


def measured(turns: int, also: Sequence[tuple[str, str]], *, with_bare: bool) -> list[Contender]:
    """Start all in turns."""
    with machine.workplace() as (server, folder):
        feeder = state_size.Feeder(folder / "input")
        contenders: list[Contender] = [Bare("bare Spark", folder / "bare", feeder.folder)] if with_bare else []
        for number, (name, options) in enumerate((("ours", ""), *also)):
            contenders.append(Ours(name, folder / f"ours{number}", feeder.folder, server=server, options=options))
        for one in contenders:
            one.folder.mkdir()
        feeder.write(range(KEYS))
        for turn in range(turns + 1):
            feeder.write(range(TOUCHED_KEYS))
            for one in contenders if turn % 2 else contenders[::-1]:
                one.turn()
                print(
                    f"{turn} {one.name}: {one.starts[-1].took_s:.1f} s, {one.starts[-1].used_until_visible_s:.1f} s used",
                    flush=True,
                )
        for one in contenders:
            del one.starts[0]
        return contenders


def median_of(starts: Sequence[Start]) -> Start:
    """Return the medians of every moment and of what was used up to it."""
    moments = {name: statistics.median(one.moments_s[name] for one in starts) for name in starts[0].moments_s}
    ordered = dict(sorted(moments.items(), key=lambda moment: moment[1]))
    used = {
        name: {role: statistics.median(one.used_s[name][role] for one in starts) for role in Role} for name in ordered
    }
    return Start(ordered, used)


def _rows(start: Start) -> Iterator[tuple[str, ...]]:
    """Yield a row for each span: until when, how long it is, and what each role used in it."""
    names = list(start.moments_s)
    nothing = dict.fromkeys(Role, 0.0)
    for before, name in pairwise([None, *names]):
        assert name is not None
        began_s, used = (0.0, nothing) if before is None else (start.moments_s[before], start.used_s[before])
        spent = [start.used_s[name][role] - used[role] for role in Role]
        yield name, *(f"{value:.2f}" for value in (start.moments_s[name], start.moments_s[name] - began_s, *spent))


def _print(contenders: Sequence[Contender]) -> None:
    for one in contenders:
        print(f"\n{one.name}")
        machine.table(("until", "at, s", "took, s", *(role.value for role in Role)), list(_rows(median_of(one.starts))))
    first = median_of(contenders[0].starts).took_s
    print()
    machine.table(
        ("process start to first output", "median, s", "of the first", "least", "most", "processor, s"),
        [
            (
                one.name,
                f"{(typical := median_of(one.starts)).took_s:.1f}",
                f"{typical.took_s / first:.2f}",
                f"{min(start.took_s for start in one.starts):.1f}",
                f"{max(start.took_s for start in one.starts):.1f}",
                f"{typical.used_until_visible_s:.1f}",
            )
            for one in contenders
        ],
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns, print the medians, and draw them."""
    parser = machine.parser("start", __doc__)
    parser.add_argument("--turns", type=int, default=5, help="starts of each; one more, without state, is not counted")
    parser.add_argument("--no-bare", action="store_true", help="leave plain PySpark out")
    parser.add_argument("--also", nargs=2, action="append", default=[], metavar=("NAME", "OPTIONS"),
                        help="one more: the driver with these flags and NAME=VALUE variables; repeatable")  # fmt: skip
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the medians there, as PNG")
    chosen = parser.parse_args(arguments)
    if not ARCHIVE.exists():
        subprocess.run([sys.executable, str(TRAINING), str(ARCHIVE)], check=True)
    contenders = measured(chosen.turns, chosen.also, with_bare=not chosen.no_bare)
    _print(contenders)
    if chosen.picture is not None:
        from bench import start_picture  # matplotlib takes a second to import

        start_picture.draw({one.name: median_of(one.starts) for one in contenders}, chosen.picture)
    machine.finish(chosen.json, {one.name: [start.moments_s for start in one.starts] for one in contenders})
    return 0


if __name__ == "__main__":
    sys.exit(main())
