"""Two live drivers and their deaths, on real Spark and a real S3 server (docs/recovery.md)."""

from __future__ import annotations

import json
from pathlib import Path

import driverprocess
import pytest
from s3server import S3Server
from statefulspark import storage
from statefulspark.checkpoint import catalog, epochs, verify
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Trigger

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_JOB = Path(__file__).with_name("counting_job.py")
ROWS_PER_BATCH = 20  # as in counting_job.py


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
        first.until(lambda: newest_batch(output, first) >= 3, "the first driver works")
        first.pause()
        with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as second:
            second.until(lambda: newest_batch(output, second) >= 5, "the second driver goes on")
            asleep_until = newest_batch(output, first)
            first.resume()
            first.until(lambda: first.exit_code is not None, "the first driver ends")
            assert first.exit_code == ExitCode.FENCED
            # It may have been in the middle of one batch, whose result nobody committed for it.
            assert newest_batch(output, first) <= asleep_until + 1
            second.until(lambda: newest_batch(output, second) >= 7, "the second driver is not disturbed")
            second.stop()
        with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as third:
            third.until(lambda: newest_batch(output, third) >= 8, "the third driver goes on")
            third.terminate()
            third.until(lambda: third.exit_code is not None, "the third driver drains")
            assert third.exit_code == ExitCode.SUCCESS

    assert epochs.newest(store) == 3
    assert wrong_results(output) == {}
    snapshots = [catalog.read_manifest(store, ref.folder) for ref in catalog.list_snapshots(store)]
    assert snapshots[0].trigger is Trigger.STOP
    assert {report.sentence for one in snapshots if not (report := verify.verify(store, one, deep=True)).ok} == set()
    # A driver's checkpoints end where its successor's begin.
    by_age = sorted(snapshots, key=lambda manifest: manifest.id)
    assert [manifest.epoch for manifest in by_age] == sorted(manifest.epoch for manifest in by_age)


def newest_batch(output: Path, driver: driverprocess.Driver) -> int:
    """Return the newest batch that a driver has computed, -1 for none."""
    return max((int(path.name.split("-")[0]) for path in output.glob(f"*-{driver.pid}.json")), default=-1)


def wrong_results(output: Path) -> dict[str, int]:
    """Return the counted rows of each attempt whose counts do not add up to the rows of all batches so far."""
    rows = {path.name: sum(json.loads(path.read_text()).values()) for path in output.glob("*.json")}
    return {name: count for name, count in rows.items() if count != ROWS_PER_BATCH * (int(name.split("-")[0]) + 1)}
