"""The whole suite in two pytest processes side by side: what needs Spark's JVM, and everything else.

Run by `make test`. Either process keeps one of two processors busy for half of its time, since it waits for servers, pods
and clocks. Each line of output begins with the part that it is of; the last lines say how each part ended, and the coverage
of both together is reported then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COVERAGE = ROOT / "build" / "coverage"
PARTS = {"spark": ["tests/spark"], "other": ["tests", "--ignore=tests/spark"]}


@dataclass(frozen=True, slots=True)
class Part:
    """A running pytest process, and the thread that passes on what it prints."""

    name: str
    process: subprocess.Popen[str]
    printing: threading.Thread
    began_s: float

    def end(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        code = self.process.wait()
        self.printing.join()
        said = "passed" if code == 0 else f"FAILED with exit code {code}"
        print(f"[{self.name}] {said} after {(time.monotonic() - self.began_s) / 60:.1f} min", flush=True)
        return code


def begin(name: str, arguments: list[str], coverage: Path) -> Part:
    """Start one part of the suite."""
    command = [sys.executable, "-u", "-m", "pytest", "--cov", "--cov-report=", *arguments]
    environment = os.environ | {"COVERAGE_FILE": str(coverage / f"data.{name}")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    printing = threading.Thread(target=pass_on, args=(name, process))
    printing.start()
    return Part(name, process, printing, time.monotonic())


def pass_on(name: str, process: subprocess.Popen[str]) -> None:
    """Print what a process prints, line by line."""
    assert process.stdout is not None
    for line in process.stdout:
        print(f"[{name}] {line}", end="", flush=True)


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
    signal.signal(signal.SIGTERM, lambda *_: [part.process.terminate() for part in running])
    codes = [part.end() for part in running]
    report_coverage(coverage)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
