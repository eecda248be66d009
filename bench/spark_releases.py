"""Keyed state and restart on each supported release of Spark, in turns in one run: which release to take.

The environments are those of `make compat`, which makes them. Each round runs, for each release, `bench.keyed_state` with
three contenders and `bench.restart`, each with that release's PySpark and an archive of the JVM for it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from statefulspark.sparkinternals import releases

from bench import machine, restart

RELEASES = tuple(map(releases.text, releases.SUPPORTED))
ENVIRONMENTS = machine.ROOT / "build" / "compat" / "python3"
CONTENDERS = ("floor", "jvm", "plain")


def run(release: str, module: str, *flags: str) -> dict[str, object]:
    """Run a benchmark in the environment of a release, and return its figures."""
    home = ENVIRONMENTS / release
    with tempfile.TemporaryDirectory(prefix="statefulspark-bench-") as folder:
        figures = Path(folder) / "figures.json"
        environment = {**os.environ, "STATEFULSPARK_JVM_ARCHIVE": str(home / "jvm.jsa"), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [str(home / "bin" / "python"), "-m", f"bench.{module}", *flags, "--json", str(figures)]
        subprocess.run(command, check=True, env=environment, cwd=machine.ROOT, stdout=subprocess.DEVNULL)
        measured: dict[str, object] = json.loads(figures.read_text())
        return measured


def train(release: str) -> None:
    """Make the JVM's archive for a release, unless there is one."""
    home = ENVIRONMENTS / release
    if not (home / "bin" / "python").exists():
        raise SystemExit(f"{home} does not exist; `make compat SPARK={release}` makes it.")
    if not (home / "jvm.jsa").exists():
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [str(home / "bin" / "python"), str(restart.TRAINING), str(home / "jvm.jsa")]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and compare."""
    parser = machine.parser("spark_releases", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each release has its turn")
    parser.add_argument("--rows", type=int, default=200_000, help="rows per batch of keyed state, and number of keys")
    chosen = parser.parse_args(arguments)
    for release in RELEASES:
        train(release)
    keyed: dict[str, list[dict[str, float]]] = {release: [] for release in RELEASES}
    restarts: dict[str, list[tuple[float, float]]] = {release: [] for release in RELEASES}
    for number in range(chosen.rounds):
        for release in RELEASES:
            rows = str(chosen.rows)
            only = ("--only", ",".join(CONTENDERS), "--rows", rows, "--keys", rows)
            keyed[release].append(run(release, "keyed_state", *only)["median_s"])  # type: ignore[arg-type]
            took = run(release, "restart", "--turns", "3")
            restarts[release].append(tuple(statistics.median(took[side][1:]) for side in ("ours_s", "bare_s")))  # type: ignore[index]
        print(f"round {number + 1} of {chosen.rounds} done", file=sys.stderr, flush=True)
    print(f"{machine.described()}; medians of {chosen.rounds} rounds in turns")
    machine.table(
        ("Spark", *(f"{name}, s/batch" for name in CONTENDERS), "plain / floor", "restart, s", "/ bare"),
        [(release, *_row(keyed[release], restarts[release])) for release in RELEASES],
    )
    machine.finish(chosen.json, {"keyed_s": keyed, "restarts_s": restarts})
    return 0


def _row(keyed: list[dict[str, float]], restarts: list[tuple[float, float]]) -> tuple[str, ...]:
    ours_s = statistics.median(ours for ours, _ in restarts)
    return (
        *(f"{statistics.median(one[name] for one in keyed):.2f}" for name in CONTENDERS),
        f"{statistics.median(one['plain'] / one['floor'] for one in keyed):.2f}",
        f"{ours_s:.1f}",
        f"{statistics.median(ours / bare for ours, bare in restarts):.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
