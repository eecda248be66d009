"""Runs batches that fail after they were committed, against a model: `FailedBatches.java`, for as many as are asked for.

`make failed-batches` runs a hundred thousand.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from statefulspark.engine import gateway, sparklogfile

_PROGRAM = Path(__file__).parents[1] / "spark" / "engine" / "FailedBatches.java"
_OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch")
ATTEMPTS = 2
"""Of how many attempts at a batch one succeeds, unless it fails before its commit."""


def command(folder: Path, seed: int, failed: int, attempts: int = ATTEMPTS) -> list[str]:
    """Return the command that runs batches until so many have failed.

    Args:
        folder: Where the state is; empty.
        seed: Decides everything.
        failed: How many.
        attempts: Of how many attempts at a batch one succeeds.
    """
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    class_path = f"{Path(pyspark.__file__).parent}/jars/*:{gateway.own_class_path()}"
    settings = [
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={sparklogfile.FOR_PEOPLE}",
        f"-Dstatefulspark.spark.log={folder / 'spark.log'}",
        "-Xmx512m",
        "-XX:+UseSerialGC",
    ]
    numbers = map(str, (seed, failed, attempts))
    return ["java", *opened, *settings, "-cp", class_path, str(_PROGRAM), str(folder / "root"), *numbers]


def counted(output: str) -> dict[str, int]:
    """Return what the last line of the program's output counts."""
    return {word: int(number) for word, number in re.findall(r"(\w+) (\d+)", output.splitlines()[-1])}


def main() -> int:
    """Run batches as the command line says, and tell how far they are; the exit code is 1 if a version is wrong."""
    parser = argparse.ArgumentParser(prog="failedbatches", description=__doc__)
    parser.add_argument("--seed", type=int, default=44)
    parser.add_argument("--failed", type=int, default=100_000, help="how many batches fail")
    parser.add_argument(
        "--attempts",
        type=int,
        default=ATTEMPTS,
        help="of how many attempts one succeeds: more of them test fewer versions",
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            command(Path(folder), chosen.seed, chosen.failed, chosen.attempts), check=False, stdout=sys.stdout
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
