"""Two live drivers and their deaths, on real Spark and a real S3 server: DESIGN §3.5."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import driverprocess
import pytest
from s3server import S3Server
from statefulspark import storage
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Trigger
from statefulspark.snapshot import catalog, epochs, verify

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_JOB = Path(__file__).with_name("counting_job.py")
ROWS_PER_BATCH = 20  # as in counting_job.py
_PATIENCE_S = 180.0


def test_a_paused_driver_is_fenced_after_the_takeover_and_a_killed_one_is_followed(
    s3: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    """The first driver sleeps through a takeover and writes nothing more; the second is killed; the third drains."""
    root = f"s3://{s3_bucket}/state"
    store = storage.open_store(f"{root}/default/counting", s3.options())
    output = tmp_path / "output"
    output.mkdir()
    wishes = ("--parameter", f"output={output}", "--checkpoint-interval", "2s")

    with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as first:
        wait_for(lambda: newest_batch(output, first) >= 3, "the first driver works", first)
        first.pause()
        with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as second:
            wait_for(lambda: newest_batch(output, second) >= 5, "the second driver goes on", second)
            asleep_until = newest_batch(output, first)
            first.resume()
            wait_for(lambda: first.exit_code is not None, "the first driver ends", first)
            assert first.exit_code == ExitCode.FENCED
            # It may have been in the middle of one batch, whose result nobody committed for it.
            assert newest_batch(output, first) <= asleep_until + 1
            wait_for(lambda: newest_batch(output, second) >= 7, "the second driver is not disturbed", second)
            second.kill()
        with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as third:
            wait_for(lambda: newest_batch(output, third) >= 8, "the third driver goes on", third)
            third.terminate()
            wait_for(lambda: third.exit_code is not None, "the third driver drains", third)
            assert third.exit_code == ExitCode.DRAINED

    assert epochs.newest(store) == 3
    assert wrong_results(output) == {}
    snapshots = [catalog.read_manifest(store, ref.folder) for ref in catalog.list_snapshots(store)]
    assert snapshots[0].trigger is Trigger.STOP
    assert {report.sentence for one in snapshots if not (report := verify.verify(store, one, deep=True)).ok} == set()
    # A driver's checkpoints end where its successor's begin.
    by_age = sorted(snapshots, key=lambda manifest: manifest.id)
    assert [manifest.epoch for manifest in by_age] == sorted(manifest.epoch for manifest in by_age)


def newest_batch(output: Path, driver: driverprocess.DriverProcess) -> int:
    """Return the newest batch that a driver has computed, -1 for none."""
    return max((int(path.name.split("-")[0]) for path in output.glob(f"*-{driver.pid}.json")), default=-1)


def wrong_results(output: Path) -> dict[str, int]:
    """Return the counted rows of each attempt whose counts do not add up to the rows of all batches so far."""
    rows = {path.name: sum(json.loads(path.read_text()).values()) for path in output.glob("*.json")}
    return {name: count for name, count in rows.items() if count != ROWS_PER_BATCH * (int(name.split("-")[0]) + 1)}


def wait_for(fact: Callable[[], bool], what: str, driver: driverprocess.DriverProcess) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not fact():
        has_ended = driver.exit_code is not None and not fact()
        if has_ended or time.monotonic() > deadline_s:
            said = driver.log.read_text()[-3000:]
            pytest.fail(f"{what}: not so, and the driver's exit code is {driver.exit_code}\n{said}", pytrace=False)
        time.sleep(0.05)
