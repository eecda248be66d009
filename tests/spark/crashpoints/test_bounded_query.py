"""A query that has ended stays part of every cut while the others go on (A.128), on real Spark and a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path

import driverprocess
import pytest
from s3server import S3Server
from statefulspark import storage
from statefulspark.checkpoint import catalog, verify
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.manifest import Manifest
from statefulspark.storage import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_JOB = Path(__file__).with_name("bounded_job.py")
_FILES = 3


def test_a128_a_query_that_has_ended_is_part_of_every_later_cut(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    """The ended query stays at its last batch, the job goes on, and the next start repeats nothing of it."""
    root = f"s3://{s3_bucket}/state"
    store = storage.open_store(f"{root}/default/bounded", s3.options())
    source, output = tmp_path / "input", tmp_path / "output"
    for folder in (source, output):
        folder.mkdir()
    feed(source, range(_FILES))
    wishes = ("--parameter", f"input={source}", "--parameter", f"output={output}", "--checkpoint-interval", "1s")

    with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as first:
        first.until(lambda: newest(output, "bounded") == _FILES - 1, "the bounded query has read everything")
        ended_at = newest(output, "endless")
        first.until(lambda: newest(output, "endless") > ended_at + 10, "the other goes on")
        first.until(lambda: cut(store).get("endless", -1) > ended_at + 5, "checkpoints go on")
        assert cut(store)["bounded"] == _FILES - 1
        first.terminate()
        first.until(lambda: first.exit_code is not None, "the driver drains")
        assert first.exit_code == ExitCode.SUCCESS
    last = newest_manifest(store)
    assert {query.uid: query.batch_id for query in last.queries} == {
        "bounded": _FILES - 1,
        "endless": newest(output, "endless"),
    }
    assert verify.verify(store, last, deep=True).ok

    feed(source, [_FILES])
    with driverprocess.running(_JOB, s3, root, tmp_path, *wishes) as second:
        second.until(lambda: newest(output, "bounded") == _FILES, "what came since is read")
        second.until(lambda: cut(store).get("bounded") == _FILES, "and is in a checkpoint")
    (counts,) = [json.loads(path.read_text()) for path in output.glob(f"bounded-{_FILES:06d}-*.json")]
    assert counts == {"0": _FILES + 1, "1": _FILES + 1}


def feed(folder: Path, numbers: range | list[int]) -> None:
    for number in numbers:
        (folder / f"{number:04d}.json").write_text('{"k": 0}\n{"k": 1}\n')


def newest(output: Path, query: str) -> int:
    """Return the newest batch that any driver has computed, -1 for none."""
    return max((int(path.name.split("-")[1]) for path in output.glob(f"{query}-*.json")), default=-1)


def newest_manifest(store: ObjectStore) -> Manifest:
    return catalog.read_manifest(store, next(iter(catalog.list_snapshots(store))).folder)


def cut(store: ObjectStore) -> dict[str, int]:
    """Return the batches of the newest checkpoint; empty without one."""
    if not list(catalog.list_snapshots(store)):
        return {}
    return {query.uid: query.batch_id for query in newest_manifest(store).queries}
