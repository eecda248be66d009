"""What the commands of the matrix have in common: choose scenarios, run them, and go on where an earlier run ended."""

from __future__ import annotations

import argparse
import fnmatch
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path

from faults import matrix, row, surroundings
from faults.matrix import Place
from faults.scenario import Scenario


def choose(scenarios: Sequence[Scenario[Place]], names: Sequence[str]) -> list[Scenario[Place]]:
    """Return the scenarios that are meant.

    Args:
        scenarios: All that there are.
        names: Each is the name of a scenario, or else the begin of several, in which `*` stands for anything; without
            any, all but the long ones are meant.
    """
    if not names:
        return [one for one in scenarios if not one.is_long]
    known = {one.name for one in scenarios}
    patterns = [name if name in known else f"{name}*" for name in names]
    return [one for one in scenarios if any(fnmatch.fnmatchcase(one.name, pattern) for pattern in patterns)]


def main(program: str, scenarios: Sequence[Scenario[Place]], kind: type[Place]) -> int:
    """Read the command line and run.

    Args:
        program: Its module.
        scenarios: All that there are.
        kind: What runs the job.

    Returns:
        0 when every scenario ended as it must, 1 when one did not.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description="Run faults under load, and compare with the truth."
    )
    parser.add_argument(
        "--scenario",
        action="append",
        help="only this one, or those that begin like it, where * stands for anything; repeatable",
    )
    parser.add_argument("--seed", type=int, help="of everything random; a new one when omitted")
    parser.add_argument("--again", action="store_true", help="also those that have passed before")
    parser.add_argument("--list", action="store_true", help="show the names and end")
    parser.add_argument(
        "--together", type=int, default=1, help="so many in one world, one after the other, where they can"
    )
    parser.add_argument("--rate", type=float, default=surroundings.Load().per_second, help="events in a second")
    parser.add_argument("--keys", type=int, default=surroundings.Load().keys, help="number of keys")
    parser.add_argument("--folder", type=Path, default=Path("build") / program, help="gets the report and the logs")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers and drivers are ended
    report = row.Report(chosen.folder.resolve() / "report.jsonl")
    wanted = choose(scenarios, chosen.scenario or ())
    if chosen.list:
        print("\n".join(one.name for one in wanted))
        return 0
    due = [one for one in wanted if chosen.again or not report.has_passed(one.name)]
    seed = secrets.randbelow(1 << 31) if chosen.seed is None else chosen.seed
    print(f"seed {seed}: {len(due)} of {len(wanted)} scenarios; the others have passed before", flush=True)
    load = surroundings.Load(per_second=chosen.rate, keys=chosen.keys)
    folder = chosen.folder.resolve() / "worlds"
    is_good = matrix.run(
        matrix.groups_of(due, chosen.together),
        folder=folder,
        report=report,
        seed=seed,
        load=load,
        say=lambda line: print(line, flush=True),
        kind=kind,
    )
    print(f"The table is {report.table}.")
    return 0 if is_good else 1
