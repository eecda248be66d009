"""The whole suite in two pytest processes side by side: what needs Spark's JVM, and everything else.

Run by `make test`. Either process keeps one of two processors busy for half of its time, since it waits for servers, pods
and clocks. Each line of output begins with the part that it is of. The coverage of both together follows, and the last
lines are the tests that failed, if any, and how each part ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COVERAGE = ROOT / "build" / "coverage"
PARTS = {"spark": ["tests/spark"], "other": ["tests", "--ignore=tests/spark"]}


@dataclass(frozen=True, slots=True)
class Part:
    """A running pytest process, and the thread that passes on what it prints."""

    name: str
    process: subprocess.Popen[str]
    began_s: float
    failures: list[str] = field(default_factory=list)

    def pass_on(self) -> None:
        """Print what the process prints, line by line, and keep the lines that name a failed test."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"[{self.name}] {line}", end="", flush=True)
            if line.startswith(("FAILED ", "ERROR ")):
                self.failures.append(line)

    def verdict(self) -> str:
        """How an ended part ended, in lines, the failed tests first."""
        code = self.process.returncode
        ended = "passed" if code == 0 else f"FAILED with exit code {code}"
        lines = [*self.failures, f"{ended} after {(time.monotonic() - self.began_s) / 60:.1f} min\n"]
        return "".join(f"[{self.name}] {line}" for line in lines)


def begin(name: str, arguments: list[str], coverage: Path) -> Part:
    """Start one part of the suite."""
    command = [sys.executable, "-u", "-m", "pytest", "--cov", "--cov-report=", *arguments]
    environment = os.environ | {"COVERAGE_FILE": str(coverage / f"data.{name}")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return Part(name, process, time.monotonic())


def watch(parts: Iterable[Part]) -> str:
    """Print what all parts print until all have ended; returns their verdicts."""
    verdicts: list[str] = []

    def follow(part: Part) -> None:
        part.pass_on()
        part.process.wait()
        verdicts.append(part.verdict())

    threads = [threading.Thread(target=follow, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "".join(verdicts)


def report_coverage(coverage: Path) -> None:
    """Print the coverage of all parts together."""
    environment = os.environ | {"COVERAGE_FILE": str(coverage / "data")}
    for arguments in (["combine", "-q", str(coverage)], ["report", "--skip-covered"]):
        subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, env=environment, check=True)


def main(parts: Mapping[str, list[str]] = PARTS, coverage: Path = COVERAGE) -> int:
    """Run all parts; returns the first exit code that is not zero."""
    coverage.mkdir(parents=True, exist_ok=True)
    for old in coverage.iterdir():
        old.unlink()
    running = [begin(name, arguments, coverage) for name, arguments in parts.items()]

    def end_all(*_: object) -> None:
        for part in running:
            part.process.terminate()

    signal.signal(signal.SIGTERM, end_all)
    verdicts = watch(running)
    report_coverage(coverage)
    print(verdicts, end="", flush=True)
    return next((part.process.returncode for part in running if part.process.returncode), 0)


if __name__ == "__main__":
    sys.exit(main())
