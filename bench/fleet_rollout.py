"""A new image for many jobs at once, without and with a limit of upgrades: how many jobs go down, and how many it reaches.

The operator's own passes decide, in front of a cluster, drivers and storage in memory, and with a simulated clock
(`tests/support/fleetworld.py`). A bad image cannot be pulled, or its driver fails and its standby refuses. Then a good one
follows. Needs nothing but Python:

    PYTHONPATH=tests/support python -m bench.fleet_rollout --jobs 300
"""

from __future__ import annotations

import itertools

from fleetworld import FleetWorld, Trouble

from bench import machine

BAD, GOOD = "registry.example/flights:bad", "registry.example/flights:good"
GOAL = "at most one job down at once, and one job reached by a bad image"


def play(
    limit: int | None, strategy: str, trouble: Trouble, jobs: int, room: int, *, ends_well: bool
) -> tuple[str, ...]:
    """Play one rollout, and return a row of the table.

    Args:
        limit: `--max-concurrent-upgrades`.
        strategy: `Warm` or `Cold`.
        trouble: What is wrong with the bad image.
        jobs: Number of jobs.
        room: Number of standbys that nodes have room for.
        ends_well: Whether a good image follows.
    """
    fleet = FleetWorld(jobs, limit=limit, strategy=strategy, standby_room=room)
    fleet.run_until(fleet.is_stable, within_s=120)
    fleet.watch()
    fleet.bad[BAD] = trouble
    fleet.change({"image": BAD})
    fleet.run(60)
    most_down, reached, waiting = fleet.most_down, sum(fleet.states().values()), fleet.reasons()["UpgradeHalted"]
    took = ""
    if ends_well:
        fleet.watch()
        fleet.change({"image": GOOD})
        took = str(fleet.run_until(lambda: fleet.images()[GOOD] == jobs, within_s=3600))
    later = str(fleet.most_down) if ends_well else ""
    row = (strategy, "none" if limit is None else str(limit), trouble.name.lower())
    return (*row, str(most_down), str(reached), str(waiting), took, later)


def main() -> None:
    """Play all rollouts, and print what happened."""
    parser = machine.parser("fleet_rollout", __doc__)
    parser.add_argument("--jobs", type=int, default=300, help="number of jobs (default: %(default)s)")
    parser.add_argument("--room", type=int, default=30, help="standbys that have room (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=10, help="upgrades that may run at once (default: %(default)s)")
    parser.add_argument("--strategy", choices=("Cold", "Warm"), help="of the upgrades (default: both)")
    parser.add_argument(
        "--good", action="store_true", help="also measure how long a good image takes, which takes minutes"
    )
    options = parser.parse_args()
    print(f"{options.jobs} jobs, room for {options.room} standbys. Goal: {GOAL}.")
    rows = []
    strategies = (options.strategy,) if options.strategy else ("Cold", "Warm")
    for strategy, trouble, limit in itertools.product(strategies, Trouble, (options.limit, None)):
        ends_well = options.good and limit is not None and trouble is Trouble.CRASHES
        rows.append(play(limit, strategy, trouble, options.jobs, options.room, ends_well=ends_well))
        print("  " + " ".join(rows[-1]), flush=True)
    header = ["strategy", "limit", "image", "most down", "reached", "halted", "good image: s", "most down then"]
    machine.table(header, rows)
    machine.finish(options.json, {"jobs": options.jobs, "room": options.room, "rows": rows})


if __name__ == "__main__":
    main()
