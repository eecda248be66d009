"""What a standby saves when a driver dies: from the kill to the first batch that the next driver commits.

A driver is killed, and a cold one is started at once; then that one is killed, and a standby that was ready is activated at
once. Both go on from the same storage, in the same run, one after the other. Nothing of an operator is in these times.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from bench import machine, state_size


def main() -> None:
    """Measure, print, and write the figures."""
    parser = machine.parser("standby", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=4, metavar="MB", help="of the state")
    options = parser.parse_args()
    print(f"Machine: {machine.described()}")
    cold_s, warm_s, phases = measure(options.rounds, options.size)
    machine.table(
        ["next driver", "median s", "least s", "most s"],
        [
            [name, f"{statistics.median(times):.1f}", f"{min(times):.1f}", f"{max(times):.1f}"]
            for name, times in (("cold", cold_s), ("standby", warm_s), ("standby is ready after", phases))
        ],
    )
    machine.finish(options.json, {"cold_s": cold_s, "standby_s": warm_s, "ready_after_s": phases})


def measure(rounds: int, size_mb: int) -> tuple[list[float], list[float], list[float]]:
    """Return the pauses with a cold driver, those with a standby, and how long each standby took to be ready."""
    cold_s, warm_s, ready_s = list[float](), list[float](), list[float]()
    with machine.workplace() as (server, folder):
        feeder = state_size.Feeder(folder / "input")
        feeder.fill(size_mb)
        bucket, output = server.new_bucket(), f"s3://{server.new_bucket()}/out"
        uri = f"s3://{bucket}/state"
        generations = server.objects / bucket / "state" / "default" / "blobs" / "generations"
        parameters = {"input": feeder.folder, "value_bytes": state_size.VALUE_BYTES, "output": output}

        def a_driver(number: int) -> machine.Driver:
            log = folder / f"driver-{number}.log"
            return machine.Driver("blobs.py", uri, server, log, parameters=parameters)

        running = a_driver(0)
        running.start()
        epoch = 1
        for number in range(1, rounds + 1):
            running.wait_committed(state_size.UID, feeder.files - 1)
            successor = a_driver(2 * number)
            killed_s = _kill(running, feeder)
            successor.start()
            cold_s.append(_first_commit(generations, feeder.files - 1) - killed_s)
            epoch += 1
            running = a_driver(2 * number + 1)
            began_s = time.time()
            running.start("--standby")
            machine.wait_for(lambda one=running: _ready(one), "the standby is ready")  # type: ignore[misc]
            ready_s.append(time.time() - began_s)
            epoch += 1
            killed_s = _kill(successor, feeder)
            running.post("/v1/activate", {"requestId": f"take-{epoch}", "epoch": epoch})
            warm_s.append(_first_commit(generations, feeder.files - 1) - killed_s)
        running.kill()
    return cold_s, warm_s, ready_s


def _ready(standby: machine.Driver) -> bool | None:
    told = (standby.get("/v1/status") or {}).get("standby")
    return True if isinstance(told, dict) and told.get("state") == "Ready" else None


def _kill(driver: machine.Driver, feeder: state_size.Feeder) -> float:
    """Kill a driver, and feed a file that only the next one can read; return when."""
    driver.wait_committed(state_size.UID, feeder.files - 1)
    driver.kill()
    feeder.write(range(state_size.TOUCHED_KEYS))
    return time.time()


def _first_commit(generations: Path, batch: int) -> float:
    """Wait until a batch is committed; return when."""

    def look() -> float | None:
        return time.time() if list(generations.glob(f"*/{state_size.UID}/commits/{batch}")) else None

    while (seen_s := look()) is None:
        time.sleep(0.01)
    return seen_s


if __name__ == "__main__":
    main()
