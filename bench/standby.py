"""What a standby saves when a driver dies: from the kill to the first output that the next driver makes visible.

A job gets rows twice a second. Its driver is killed, and a cold one is started at once; that one is killed, and a standby
that was ready is activated at once; and so on in turns, on the same storage. The times are those of the drivers' logs and of
the files on S3. How long an operator takes to notice a death is not in them.

The job is that of `bench.start`, with two queries; with `--size` it has one keyed function whose state has that size.
"""

from __future__ import annotations

import math
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import s3server

from bench import machine, processor_time, start, start_moments, state_size
from bench.processor_time import Role

COLD, STANDBY = "cold start", "standby"
WAITING_S = 10.0
_MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Workload:
    """A job with one output folder for each query.

    Attributes:
        job: File in `bench/jobs`.
        outputs: The folder of each query's output below the job's, by uid.
        parameters: Of the job, beside its folders.
        flags: Of `statefulspark run`.
    """

    job: str
    outputs: Mapping[str, str]
    parameters: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


TWO_QUERIES = Workload("starting.py", {uid: uid for uid in start.UIDS})
ONE_STATE = Workload(
    "blobs.py",
    {state_size.UID: "."},
    {"value_bytes": state_size.VALUE_BYTES},
    ("--conf", "spark.driver.memory=2g"),
)


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        takeovers: What happened when, in seconds after the kill, in each turn, by what took over.
        ready_s: How long each standby took until it was ready.
        waiting: What each standby cost while it waited.
    """

    takeovers: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {COLD: [], STANDBY: []})
    ready_s: list[float] = field(default_factory=list)
    waiting: list[dict[str, float]] = field(default_factory=list)

    def add(self, name: str, moments: dict[str, float]) -> None:
        """Add a takeover, and print it."""
        self.takeovers[name].append(moments)
        print(f"{name}: {moments[start_moments.VISIBLE]:.1f} s to the first output", flush=True)


class Stage:
    """One job on one S3 server, and the driver that runs it."""

    def __init__(
        self, workload: Workload, server: s3server.S3Server, logs: Path, feed: Path, flags: Sequence[str]
    ) -> None:
        """Begin without a driver."""
        self._workload, self._server, self._logs = workload, server, logs
        self._flags = (*workload.flags, *flags)
        self._uri, self._output = (f"s3://{server.new_bucket()}/{name}" for name in ("state", "out"))
        self._epoch = 0
        self.feeder = state_size.Feeder(feed)
        self.running = self.driver()

    def driver(self) -> machine.Driver:
        """Return a driver that is not started."""
        self._epoch += 1
        return machine.Driver(
            self._workload.job,
            self._uri,
            self._server,
            self._logs / f"driver-{self._epoch}.log",
            parameters={"input": self.feeder.folder, "output": self._output, **self._workload.parameters},
            flags=self._flags,
            env={"STATEFULSPARK_JVM_ARCHIVE": str(start.ARCHIVE)},
        )

    def cold(self) -> dict[str, float]:
        """Replace the driver by one that is started when it was killed; return what happened when."""
        successor = self.driver()
        return self._replaced(successor, successor.start)

    def standby(self, figures: Figures) -> dict[str, float]:
        """Replace the driver by a standby that is activated when it was killed; return what happened when."""
        successor = self.driver()
        successor.start("--standby")
        machine.wait_for(lambda: _ready(successor), "the standby is ready")
        figures.ready_s.append(time.time() - successor.started_at_s)
        figures.waiting.append(_waiting(successor))
        body: machine.Json = {"requestId": f"take-{self._epoch}", "epoch": self._epoch}
        return self._replaced(successor, lambda: successor.post("/v1/activate", body))

    def end(self) -> None:
        """Kill the driver."""
        if self.running.started_at_s:
            self.running.process.send_to_family(signal.SIGKILL)

    def _replaced(self, successor: machine.Driver, begin: Callable[[], None]) -> dict[str, float]:
        self.end()
        killed_s = time.time()
        begin()
        self.running = successor
        return machine.wait_for(lambda: self.moments(killed_s), "its output is visible")

    def moments(self, began_s: float) -> dict[str, float] | None:
        """Return what the running driver did when after a moment; None while the last of it is missing."""
        self.running.get("/v1/status")
        logged = {name: at_s - began_s for name, at_s in start.logged(self.running.log) if at_s >= began_s}
        root, output = (self._server.objects / uri.removeprefix("s3://") for uri in (self._uri, self._output))
        planned, committed, visible = [], [], []
        for uid, folder in self._workload.outputs.items():
            generations = f"default/*/generations/*/{uid}"
            planned.append(start.first(root, f"{generations}/offsets/[0-9]*", began_s))
            committed.append(start.first(root, f"{generations}/commits/[0-9]*", began_s))
            after_s = committed[-1] if math.isfinite(committed[-1]) else 0.0
            visible.append(start.first(output, f"{folder}/_commits/**/*", began_s + after_s) + after_s)
        if math.inf in (*planned, *committed, *visible) or start_moments.CHECKPOINT not in logged:
            return None
        stored = {
            start_moments.BATCH_PLANNED: min(planned),
            start_moments.BATCH_COMMITTED: min(committed),
            start_moments.ALL_COMMITTED: max(committed),
            start_moments.VISIBLE: min(visible),
            start_moments.ALL_VISIBLE: max(visible),
        }
        return dict(sorted({**logged, **stored}.items(), key=lambda moment: moment[1]))


def _ready(standby: machine.Driver) -> bool | None:
    told = (standby.get("/v1/status") or {}).get("standby")
    return True if isinstance(told, dict) and told.get("state") == "Ready" else None


def _waiting(standby: machine.Driver) -> dict[str, float]:
    """Return the processor seconds that a standby uses in one second, and its memory in megabytes, by role."""
    watch = processor_time.Watch(standby.pid)
    time.sleep(WAITING_S)
    samples = watch.end()
    used = {role: samples[-1].used_s[role] - samples[0].used_s[role] for role in Role}
    span_s = samples[-1].at_s - samples[0].at_s
    memory = processor_time.memory_bytes(standby.pid)
    return {
        **{f"{role.value}, cores": used[role] / span_s for role in Role},
        **{f"{role.value}, MB": memory[role] / _MEGABYTE for role in Role},
    }


def measure(workload: Workload, turns: int, size_mb: int, flags: Sequence[str], logs: Path | None) -> Figures:
    """Kill in turns; the first start, without state, is not counted."""
    figures = Figures()
    with machine.workplace() as (server, folder):
        stage = Stage(workload, server, logs or folder, folder / "input", flags)
        if size_mb:
            stage.feeder.fill(size_mb)
        else:
            stage.feeder.write(range(start.KEYS))
        fed = stage.feeder.files
        stage.running.start()
        try:
            for uid in workload.outputs:
                stage.running.wait_committed(uid, fed - 1 if size_mb else 0)
            stage.feeder.trickle()
            for _ in range(turns):
                figures.add(COLD, stage.cold())
                figures.add(STANDBY, stage.standby(figures))
        finally:
            stage.feeder.end()
            stage.end()
    return figures


def median_of(moments: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the medians of every moment, in their order."""
    found = {name: statistics.median(one[name] for one in moments) for name in moments[0]}
    return dict(sorted(found.items(), key=lambda moment: moment[1]))


def _print(figures: Figures) -> None:
    for name, takeovers in figures.takeovers.items():
        print(f"\n{name}")
        ordered = median_of(takeovers)
        before = dict(zip(ordered, [0.0, *ordered.values()], strict=False))
        machine.table(
            ("until", "at, s", "took, s"),
            [(moment, f"{at_s:.2f}", f"{at_s - before[moment]:.2f}") for moment, at_s in ordered.items()],
        )
    print()
    machine.table(
        ("kill to first output", "median, s", "least", "most"),
        [(name, *_spread([one[start_moments.VISIBLE] for one in found])) for name, found in figures.takeovers.items()]
        + [("(start of a standby until it is ready)", *_spread(figures.ready_s))],
    )
    print()
    machine.table(
        ("a waiting standby", "median", "least", "most"),
        [(name, *_spread([one[name] for one in figures.waiting], 3)) for name in figures.waiting[0]],
    )


def _spread(values: Sequence[float], digits: int = 1) -> tuple[str, str, str]:
    return tuple(f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))  # type: ignore[return-value]


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns, and print the medians."""
    parser = machine.parser("standby", __doc__)
    parser.add_argument("--turns", type=int, default=5, help="kills of each kind")
    parser.add_argument("--size", type=int, default=0, metavar="MB", help="of the state of one keyed function")
    parser.add_argument("--flag", action="append", default=[], help="one more of `statefulspark run`; repeatable")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the drivers' logs there")
    chosen = parser.parse_args(arguments)
    if not start.ARCHIVE.exists():
        subprocess.run([sys.executable, str(start.TRAINING), str(start.ARCHIVE)], check=True)
    print(f"Machine: {machine.described()}")
    workload = ONE_STATE if chosen.size else TWO_QUERIES
    figures = measure(workload, chosen.turns, chosen.size, chosen.flag, chosen.logs)
    _print(figures)
    machine.finish(
        chosen.json,
        {**figures.takeovers, "ready_s": figures.ready_s, "waiting": figures.waiting, "size_mb": chosen.size},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
