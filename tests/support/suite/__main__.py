"""The whole suite in three pytest processes side by side.

Run by `make test`. Two of them have Spark, and wait for servers and clocks for much of their time. The third has the tests
that need neither; it computes with what the two leave over, so it never makes them late.
Each line of output begins with the part that it is of, and the last lines are the tests that failed, if any, and
how each part ended. `make coverage` counts the lines and branches that ran, too: tests of rules that are run thousands of
times take three to twenty times as long then.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COVERAGE = ROOT / "build" / "coverage"
REPORTS = ROOT / "build" / "tests"
"""How long each test took, as JUnit's XML, a file for each part."""
SESSIONS = frozenset(
    {
        "tests/spark/checkpoint",
        "tests/spark/checkpoint_manager",
        "tests/spark/engine",
        "tests/spark/evolution",
        "tests/spark/operators",
        "tests/spark/planning",
        "tests/spark/recovery",
        "tests/spark/testing",
        "tests/spark/workers",
    }
)
"""What shares a session of Spark."""
RULES = frozenset(
    {"tests/architecture", "tests/golden", "tests/rig", "tests/simulation", "tests/transitions", "tests/unit"}
)
"""What needs no server, or a small one. All other folders start whole drivers or servers that a test takes down."""
_NICENESS = {"rules": 5}


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


def parts() -> dict[str, list[str]]:
    """Return the folders of each part: every folder with tests is in one of them."""
    folders = {_folder(file.relative_to(ROOT).parts[:-1]) for file in (ROOT / "tests").rglob("test_*.py")}
    return {
        "sessions": sorted(folders & SESSIONS),
        "servers": sorted(folders - SESSIONS - RULES),
        "rules": sorted(folders & RULES),
    }


def _folder(names: Sequence[str]) -> str:
    depth = 3 if names[1:2] == ("spark",) else 2
    return "/".join(names[:depth])


def begin(name: str, arguments: list[str], coverage: Path | None) -> Part:
    """Start one part of the suite; its coverage is measured if there is a folder for it."""
    command = ["nice", "-n", str(_NICENESS.get(name, 0)), sys.executable, "-u", "-m", "pytest", *arguments]
    environment = dict(os.environ)
    if coverage is not None:
        command += ["--cov", "--cov-report="]
        environment["COVERAGE_FILE"] = str(coverage / f"data.{name}")
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


def forget_coverage(coverage: Path) -> None:
    """Delete what an earlier run has measured."""
    coverage.mkdir(parents=True, exist_ok=True)
    for old in coverage.iterdir():
        old.unlink()


def report_coverage(coverage: Path) -> None:
    """Print the coverage of all parts together."""
    environment = os.environ | {"COVERAGE_FILE": str(coverage / "data")}
    for arguments in (["combine", "-q", str(coverage)], ["report", "--skip-covered"]):
        subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, env=environment, check=True)


def run(arguments_of: Mapping[str, list[str]], coverage: Path | None) -> int:
    """Run all parts, and measure coverage if there is a folder for it; returns the first exit code that is not zero."""
    if coverage is not None:
        forget_coverage(coverage)
    running = [begin(name, arguments, coverage) for name, arguments in arguments_of.items()]

    def end_all(*_: object) -> None:
        for part in running:
            part.process.terminate()

    signal.signal(signal.SIGTERM, end_all)
    verdicts = watch(running)
    if coverage is not None:
        report_coverage(coverage)
    print(verdicts, end="", flush=True)
    return next((part.process.returncode for part in running if part.process.returncode), 0)


def main() -> int:
    """Run the whole suite, as the command line says."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument("--coverage", action="store_true", help="measure and print which lines and branches ran")
    arguments = {name: [*folders, f"--junitxml={REPORTS / name}.xml"] for name, folders in parts().items()}
    return run(arguments, COVERAGE if parser.parse_args().coverage else None)


if __name__ == "__main__":
    sys.exit(main())
