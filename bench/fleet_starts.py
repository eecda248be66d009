"""The drivers of a whole fleet end at once, without and with a limit of starts: how many start together, and who waits.

The operator's own passes decide, in front of a cluster, drivers and storage in memory, and with a simulated clock
(`tests/support/fleetworld.py`). Needs nothing but Python:

    PYTHONPATH=tests/support python -m bench.fleet_starts --jobs 300
"""

from __future__ import annotations

from collections.abc import Callable

from fleetworld import FleetWorld
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.lifecycle.pace import Pace
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable

from bench import machine

NAMESPACES = 10
LONGEST_S = 1200


def all_at_once(fleet: FleetWorld) -> None:
    """End all drivers."""
    fleet.lose_drivers(fleet.jobs)


def operators_die(fleet: FleetWorld) -> None:
    """End all drivers, and the operator every ten seconds for a minute."""
    fleet.lose_drivers(fleet.jobs)
    for _ in range(6):
        fleet.run(10)
        fleet.replace_operator()


def storage_away(fleet: FleetWorld) -> None:
    """End all drivers while no store answers for two minutes."""
    for job in fleet.jobs.values():
        job.storage.unreadable = StorageUnreadable("StorageUnreachable", "no answer")
    fleet.lose_drivers(fleet.jobs)
    fleet.run(120)
    for job in fleet.jobs.values():
        job.storage.unreadable = None


CASES: dict[str, Callable[[FleetWorld], None]] = {
    "all drivers end": all_at_once,
    "and six operators die": operators_die,
    "while storage is away for 120 s": storage_away,
}


def running_fleet(jobs: int, pace: Pace | None) -> FleetWorld:
    """Return jobs that run, and whose pace is not used up."""
    fleet = FleetWorld(jobs, limit=10, strategy="Cold", spread=NAMESPACES)
    fleet.run_until(lambda: fleet.images().total() == jobs, within_s=LONGEST_S)
    fleet.pace = fleet.starts.pace = pace
    return fleet


def play(case: str, fleet: FleetWorld) -> tuple[str, ...]:
    """Play a case, and return a row of the table."""
    jobs = len(fleet.jobs)
    fleet.watch()
    CASES[case](fleet)
    took_s = fleet.run_until(lambda: fleet.images().total() == jobs, within_s=LONGEST_S)
    first, last = min(fleet.started), max(fleet.started)
    in_a_minute = max(sum(fleet.started[second + more] for more in range(60)) for second in range(first, last + 1))
    passes = sum(job.passes for job in fleet.jobs.values())
    return (case, str(max(fleet.started.values())), str(in_a_minute), str(last - first), str(took_s), str(passes))


def alone(fleet: FleetWorld) -> str:
    """Return after how many seconds the driver of one job is started while the others run."""
    fleet.watch()
    began = fleet.time
    fleet.lose_drivers([next(iter(fleet.jobs))])
    fleet.run_until(lambda: bool(fleet.started), within_s=LONGEST_S)
    return str(round((fleet.time - began).total_seconds()))


def beside_new_ones(fleet: FleetWorld) -> str:
    """Return after how many seconds a lost driver is started while as many new jobs as there are wait for their turn."""
    lost = next(iter(fleet.jobs))
    fleet.add(JobKey("new", f"new-{number}") for number in range(len(fleet.jobs)))
    fleet.run(2)
    before, began = fleet.jobs[lost].status.epoch, fleet.time
    fleet.lose_drivers([lost])
    fleet.run_until(lambda: fleet.jobs[lost].status.epoch != before, within_s=LONGEST_S)
    return str(round((fleet.time - began).total_seconds()))


def main() -> None:
    """Play all cases, and print what happened."""
    parser = machine.parser("fleet_starts", __doc__)
    parser.add_argument("--jobs", type=int, default=300, help="number of jobs (default: %(default)s)")
    parser.add_argument("--per-minute", type=int, default=90, help="starts in a minute (default: %(default)s)")
    parser.add_argument("--case", choices=CASES, action="append", help="play only this one; repeatable")
    options = parser.parse_args()
    rows, single = [], []
    for pace in (Pace(options.per_minute), None):
        limit = str(pace.per_minute) if pace is not None else "none"
        for case in options.case or CASES:
            fleet = running_fleet(options.jobs, pace)
            rows.append((limit, *play(case, fleet)))
            print("  " + " ".join(rows[-1]), flush=True)
        fleet.run(10)
        single.append((limit, alone(fleet), beside_new_ones(fleet)))
        print("  " + " ".join(single[-1]), flush=True)
    header = ["a minute", "case", "most in 1 s", "most in 60 s", "first to last: s", "all run after: s", "passes"]
    machine.table(header, rows)
    machine.table(["a minute", "one job alone starts after: s", "beside as many new jobs: s"], single)
    machine.finish(options.json, {"jobs": options.jobs, "rows": rows, "single": single})


if __name__ == "__main__":
    main()
