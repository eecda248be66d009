"""The mutation check: the pure modules are changed, one small change at a time, and their tests have to notice each.

A change that no test notices is a promise that no test proves. Such survivors are either killed by a new test or, where no
user can notice the change, listed in `tests/mutants/<group>.toml`; the check fails on a survivor that is not listed there,
and on a listed one that no longer survives. mutmut makes the changes and runs the tests; only `engine` imports it, in a
process of its own.

`python -m mutation [--write] [--workers N] [GROUP ...]` checks these groups. `--write` writes the lists as they have to be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from mutation import groups, survivors, workspace

LISTS = workspace.ROOT / "tests" / "mutants"
BUILD = workspace.ROOT / "build" / "mutants"


def main() -> int:
    """Check the groups; returns what the process exits with: 1 if a list is not what it has to be."""
    parser = argparse.ArgumentParser(prog="mutation")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("groups", nargs="*")
    asked = parser.parse_args()
    chosen = groups.named(tuple(asked.groups))
    found = sum([_check(group, workers=asked.workers, writes=asked.write) for group in chosen])
    return 1 if found else 0


def _check(group: groups.Group, *, workers: int, writes: bool) -> int:
    started = time.monotonic()
    fates = _run(group, workers)
    listed = LISTS / f"{group.name}.toml"
    mutants = survivors.parse(listed.read_text()) if listed.exists() else ()
    if writes:
        listed.write_text(survivors.render(fates, mutants))
        mutants = survivors.parse(listed.read_text())
    said = survivors.problems(fates, mutants)
    counts = Counter(fate for _, fate in fates)
    numbers = ", ".join(f"{counts[fate]} {fate}" for fate in survivors.Fate)
    print(f"{group.name}: {len(fates)} mutants, {numbers}, in {time.monotonic() - started:.0f} s; {len(said)} problems")
    for sentence in said:
        print(f"\n{sentence}")
    return len(said)


def _run(group: groups.Group, workers: int) -> list[tuple[survivors.Mutant, survivors.Fate]]:
    folder = BUILD / group.name
    workspace.lay_out(group, folder)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "mutation.engine", str(workers)]
        ended = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    if ended.returncode:
        raise SystemExit(f"{group.name}: mutmut ended with {ended.returncode}; see {folder / 'log'}.")
    rows = json.loads((folder / "outcome.json").read_text())
    return [(survivors.Mutant(*words), survivors.Fate(fate)) for *words, fate in rows]


if __name__ == "__main__":
    sys.exit(main())
