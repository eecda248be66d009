"""What the benchmarks share: a real S3 server, driver processes, the machine's description, tables and figures.

The S3 server is the tests' own: run a benchmark alone with `PYTHONPATH=tests/support python -m bench.<name>`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import processes
import s3server

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "bench"  # noqa: S105 - a server on loopback for the time of a run
JOBS = Path(__file__).resolve().parent / "jobs"
Json = dict[str, object]
_Found = TypeVar("_Found")


def described() -> str:
    """Return the machine in a line."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} cores ({model}), {memory_gib:.0f} GiB, Linux {platform.release()}"


def _cpuinfo() -> list[str]:
    return Path("/proc/cpuinfo").read_text().splitlines()


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flag that every benchmark has."""
    made = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return made


def finish(file: Path | None, figures: Mapping[str, object]) -> None:
    """Write the figures of a run, with the machine it ran on."""
    if file is not None:
        file.write_text(json.dumps({"machine": described(), **figures}, indent=2, default=str) + "\n")


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile, within what was measured; of a single value it is that."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *others]), flush=True)


def wait_for(look: Callable[[], _Found | None], what: str, limit_s: float = 600.0) -> _Found:
    """Look until there is something, ten times a second."""
    deadline = time.monotonic() + limit_s
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"Waited {limit_s:.0f} s in vain until {what}.")
        time.sleep(0.1)
    return found


@contextmanager
def workplace() -> Iterator[tuple[s3server.S3Server, Path]]:
    """Run an S3 server in a folder of its own; both are gone afterwards, also after SIGTERM."""
    with (
        processes.ending_in_order(),
        tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder,
        s3server.running(Path(folder)) as server,
    ):
        yield server, Path(folder)


@dataclass(slots=True)
class Driver:
    """A driver process under measurement.

    Attributes:
        job: File in `bench/jobs`.
        uri: Storage root.
        server: The S3 server of the storage root.
        log: Where its output goes.
        parameters: For the job.
        flags: More flags of `statefulspark run`.
        env: More environment.
    """

    job: str
    uri: str
    server: s3server.S3Server
    log: Path
    parameters: Mapping[str, object] = field(default_factory=dict)
    flags: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    endpoint: str | None = None
    started_at_s: float = 0.0
    _process: processes.Process | None = None
    _port: int = 0

    def start(self, *more_flags: str) -> None:
        """Start it, again after it has ended, and return at once."""
        self._port = processes.free_port()
        command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(JOBS / self.job)]
        command += ["--storage", self.uri, "--endpoint", self.endpoint or self.server.endpoint]
        command += ["--api-port", str(self._port), *self.flags, *more_flags]
        for name, value in self.parameters.items():
            command += ["--parameter", f"{name}={value}"]
        environment = {
            "AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY,
            "STATEFULSPARK_TOKEN": TOKEN,
            **self.env,
        }
        self.started_at_s = time.time()
        self._process = processes.Process("the driver", self.log, environment=environment)
        self._process.launch(command)

    @property
    def process(self) -> processes.Process:
        """Itself, once it was started."""
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def get(self, path: str) -> Json | None:
        """Ask its API; None while it does not answer."""
        try:
            return self._ask("GET", path)
        except OSError:
            self._require_alive()
            return None

    def post(self, path: str, body: Json) -> None:
        """Ask it for something."""
        self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body) if body else None, _HEADERS)
            answer = connection.getresponse()
            found: Json = json.load(answer)
        finally:
            connection.close()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {found}")
        return found

    def operation(self, request_id: str, limit_s: float = 600.0) -> Json:
        """Wait until an operation has ended well, and return its snapshot."""

        def look() -> Json | None:
            found = self.get(f"/v1/operations/{request_id}?waitSeconds=20") or {}
            if found.get("state") == "Failed":
                raise SystemExit(f"{request_id} failed: {found}")
            snapshot = found.get("snapshot")
            return snapshot if isinstance(snapshot, dict) else None

        return wait_for(look, f"{request_id} is complete", limit_s)

    def committed(self, uid: str) -> int:
        """Return the last committed batch of a query, -1 before the first."""
        status = self.get("/v1/status") or {}
        found = status.get("queries")
        queries = found if isinstance(found, list) else []
        return next((int(query["batchId"]) for query in queries if query["uid"] == uid), -1)

    def batches_per_second(self, uid: str, *, after: int, seconds: float) -> float:
        """Return how many batches of a query are committed in a second, over some seconds after its first batches."""
        self.wait_committed(uid, after)
        first, began_s = self.committed(uid), time.monotonic()
        time.sleep(seconds)
        last, ended_s = self.committed(uid), time.monotonic()
        return (last - first) / (ended_s - began_s)

    def wait_committed(self, uid: str, batch: int, limit_s: float = 900.0) -> None:
        """Wait until a query has committed a batch."""
        wait_for(lambda: True if self.committed(uid) >= batch else None, f"{uid} has committed batch {batch}", limit_s)

    def kill(self) -> None:
        """End it as a lost node does."""
        assert self._process is not None
        self._process.stop()

    def end(self) -> None:
        """Let it drain, if it runs."""
        if self._process is not None:
            self._process.stop(signal.SIGTERM, within_s=300)

    def wait_end(self, limit_s: float = 300.0) -> int:
        """Wait until it has ended by itself."""
        assert self._process is not None
        return self._process.wait_end(limit_s)

    def _require_alive(self) -> None:
        if self._process is not None and not self._process.runs:
            raise SystemExit(f"The driver ended with {self._process.exit_code}:\n{self._process.tail}")


def times_s(snapshot: Json) -> tuple[float, float]:
    """Return when a snapshot was triggered and when it was complete, in seconds since 1970."""
    began, ended = (datetime.fromisoformat(str(snapshot[name])).timestamp() for name in ("triggeredAt", "completedAt"))
    return began, ended


_HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
