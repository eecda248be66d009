"""What sinks have staged: pruned when no snapshot needs it, and never before."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark.checkpoint import closure, epochs, savepoint
from statefulspark.contract import layout
from statefulspark.contract.manifest import PreparedEntry
from statefulspark.contract.notes import SavepointPointer
from statefulspark.contract.prepared import PreparedRecord
from statefulspark.retention import pruning, rules, staged_files

GRACE_S = 60.0
POLICY = rules.PrunePolicy()
FILE = "00000001-00000002-00000001-aabbcc.parquet"
STAGED = f"{layout.staging('delays', 'out')}/{FILE}"
RECORD = "prepared/out/00000002-00000001.json"


@pytest.fixture
def job() -> Job:
    """A job whose driver of epoch 1 has staged a file and died; epoch 2 is claimed, and nothing names the file."""
    made = Job()
    _claim(made)
    made.start()
    query = FakeQuery(made.store)
    query.run_batch()
    made.checkpoint(query)
    made.store.write(STAGED, b"rows")
    _claim(made)
    return made


def _claim(job: Job) -> None:
    epochs.claim(job.store, assigned=None, holder="driver", claim_id=str(epochs.newest(job.store)), now=job.clock.now)


def _record() -> bytes:
    words = json.dumps({"files": [{"path": FILE}]})
    record = PreparedRecord(
        job="default/flights", query_uid="delays", uid="out", sink="KafkaSink", generation=1, batch_id=2, epoch=1,
        prepared_at=Job().clock.now, transaction=words,
    )  # fmt: skip
    return record.to_json().encode()


def _prune_twice(job: Job) -> None:
    pruning.run(job.store, POLICY, job.clock.now, open_store=job.open_store, staging=True)
    pruning.run(job.store, POLICY, job.clock.forward(GRACE_S), open_store=job.open_store, staging=True)


def _in_a_generation(job: Job) -> None:
    job.store.write(f"{layout.query_root(1, 'delays')}/{RECORD}", _record())


def _in_a_savepoint(job: Job) -> None:
    _take_savepoint(job, location=None)


def _in_a_savepoint_elsewhere(job: Job) -> None:
    _take_savepoint(job, location="memory://bucket/backups")


def _take_savepoint(job: Job, location: str | None) -> None:
    root = layout.query_root(1, "delays")
    job.store.write(f"{root}/{RECORD}", _record())
    request = job.savepoint_request(9, epoch=2)
    place = savepoint.resolve_target(job.store, request, location=location, open_store=job.open_store)
    entry = closure.close_over(job.store, root, 0)
    size = len(_record())
    files = (*entry.files, entry.files[0].model_copy(update={"path": RECORD, "size_bytes": size, "checksum": None}))
    prepared = (PreparedEntry(uid="out", path=RECORD, batch_id=2),)
    entry = entry.model_copy(update={"files": files, "prepared": prepared})
    savepoint.take_savepoint(job.store, (entry,), request, place, completed_at=job.clock)
    job.store.delete_many([f"{root}/{RECORD}"])


def _in_a_savepoint_that_cannot_be_read(job: Job) -> None:
    _in_a_savepoint(job)
    job.store.write(f"{layout.savepoint(9)}/_metadata.json", b"{")


def _with_a_pointer_that_cannot_be_read(job: Job) -> None:
    job.store.write(layout.savepoint_pointer(9), b"{")


@pytest.mark.parametrize(
    "name_it",
    [
        _in_a_generation,
        _in_a_savepoint,
        _in_a_savepoint_elsewhere,
        _in_a_savepoint_that_cannot_be_read,
        _with_a_pointer_that_cannot_be_read,
    ],
    ids=lambda one: one.__name__.strip("_"),
)
def test_a_file_that_a_transaction_names_or_may_name_stays(job: Job, name_it: Callable[[Job], None]) -> None:
    name_it(job)

    _prune_twice(job)

    assert job.store.info(STAGED) is not None
    folders = staged_files.list_folders(job.store, job.store.list(layout.GENERATIONS), open_store=job.open_store)
    assert [(folder.path, len(folder.files), folder.unneeded) for folder in folders] == [("staging/delays/out", 1, ())]


def test_a_file_of_a_dead_driver_that_nothing_names_goes_after_the_grace_time(job: Job) -> None:
    first = pruning.run(job.store, POLICY, job.clock.now, staging=True)
    early = pruning.run(job.store, POLICY, job.clock.forward(GRACE_S - 1), staging=True)
    late = pruning.run(job.store, POLICY, job.clock.forward(1), staging=True)

    assert STAGED in first.marks
    assert early.delete_files == ()
    assert late.delete_files == (STAGED,)
    assert job.store.info(STAGED) is None


def test_a_file_whose_transaction_appears_within_the_grace_time_stays(job: Job) -> None:
    """An older driver may commit one more batch, which is a legitimate head."""
    pruning.run(job.store, POLICY, job.clock.now, staging=True)
    _in_a_generation(job)
    pruning.run(job.store, POLICY, job.clock.forward(GRACE_S), staging=True)

    assert job.store.info(STAGED) is not None


@pytest.mark.parametrize(
    "key",
    [
        f"{layout.staging('delays', 'out')}/00000001-00000003-00000002-ddeeff.parquet",
        f"{layout.staging('delays', 'out')}/notes.txt",
        f"{layout.STAGING}/readme",
    ],
    ids=["of the driver that runs", "not ours", "not a sink's"],
)
def test_what_is_not_a_dead_drivers_stays(job: Job, key: str) -> None:
    job.store.write(key, b"rows")

    _prune_twice(job)

    assert job.store.info(key) is not None


def test_a_savepoint_that_was_disposed_of_elsewhere_needs_nothing(job: Job) -> None:
    pointer = SavepointPointer(location="memory://bucket/backups/gone")
    job.store.write(layout.savepoint_pointer(9), pointer.to_json().encode())

    _prune_twice(job)

    assert job.store.info(STAGED) is None
