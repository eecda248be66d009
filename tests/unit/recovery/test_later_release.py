"""A root in which a later release has worked: what it wrote is whole, so a start goes on beside it, or stops and says so."""

from __future__ import annotations

import json

import pytest
from restores import a_restore
from snapshots import Job, a_manifest
from sparkroot import FakeQuery
from statefulspark import doctor, errors
from statefulspark.checkpoint import batch_records, catalog, closure
from statefulspark.contract import base, layout
from statefulspark.contract.config import ClaimMode
from statefulspark.contract.manifest import FileEntry
from statefulspark.contract.notes import CLAIM_NAME, WRITER_NAME, DamageNote
from statefulspark.contract.prepared import OutputRecord
from statefulspark.recovery.recovery import StartMode
from statefulspark.retention import pruning, rules

ELSEWHERE = "memory://bucket/elsewhere/00000009"
SAVEPOINT = f"{layout.SAVEPOINTS}/00000003"


@pytest.fixture
def job() -> Job:
    return Job()


def a_root_with_every_document(job: Job) -> FakeQuery:
    """Two checkpoints, a savepoint, a batch after them, and all that lies beside the state."""
    query = FakeQuery(job.store, job.boot().generation)
    for _ in range(2):
        query.run_batch()
        job.checkpoint(query)
    job.savepoint(query)
    job.savepoint(query, location="memory://bucket/elsewhere")
    query.run_batch()
    now = job.clock.now
    record = OutputRecord(batch_id=0, epoch=1).sealed()
    batch_records.BatchRecordLog(job.store, query.path).write(
        batch_records.RecordName(batch_records.RecordKind.OUTPUT, "delays", 0, 1), record
    )
    note = DamageNote(generation=1, epoch=1, query="delays", batch_id=0, said="Gone.", noted_at=now)
    job.store.write(layout.damage_note(1, 1), note.to_json().encode())
    job.store.write(layout.PRUNE_MARKS, pruning.Marks(unused_since={"x": now}).to_json().encode())
    return query


def raise_version(job: Job, key: str) -> None:
    """Write a document as a later release would: with a version more, and a field that this one does not know."""
    document = {**json.loads(job.store.read(key)), "formatVersion": 2, "addedLater": True}
    is_sealed = document.pop("crc32", None) is not None
    body = json.dumps(document, separators=(",", ":")).encode()
    job.store.write(key, base.seal(body) if is_sealed else body)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(layout.OWNER, id="whose the state is"),
        pytest.param(layout.epoch(1), id="the newest epoch"),
        pytest.param(layout.generation_record(1), id="the generation in use"),
        pytest.param(layout.checkpoint_manifest(2), id="the newest checkpoint"),
        pytest.param(
            f"{layout.query_root(1, 'delays')}/output/delays/00000000-00000001.json", id="a record of the state"
        ),
    ],
)
def test_a_start_that_needs_a_document_of_a_later_release_stops_and_names_it(job: Job, key: str) -> None:
    a_root_with_every_document(job)
    raise_version(job, key)
    before = {info.key for info in job.store.list(layout.GENERATIONS)}

    with pytest.raises(
        errors.FormatVersionError, match=f"{key} has format version 2; this release reads 1 for"
    ) as raised:
        job.boot()

    assert "Use the release that wrote it, or a newer one." in raised.value.message
    assert {info.key for info in job.store.list(layout.GENERATIONS)} == before


def test_a_record_of_a_later_release_below_the_newest_checkpoint_is_no_damage_of_it(job: Job) -> None:
    query = a_root_with_every_document(job)
    name = batch_records.RecordName(batch_records.RecordKind.OPERATOR_STATE, "buffer", query.batch, 1)
    record = base.seal(b'{"formatVersion":2,"uid":"buffer"}')
    named = closure.close_over(job.store, query.path, query.batch)
    batch_records.BatchRecordLog(job.store, query.path).write(name, record)
    entry = FileEntry(path=name.key, size_bytes=len(record), crc32=base.crc32_hex(record))
    query_entry = named.model_copy(update={"files": (*named.files, entry)})
    catalog.write_checkpoint(job.store, a_manifest(5, [query_entry]))

    with pytest.raises(errors.FormatVersionError, match="has format version 2"):
        job.boot()


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(layout.BEGAN, id="that there was a beginning"),
        pytest.param(layout.generation_reservation(1), id="who fills the generation"),
        pytest.param(layout.damage_note(1, 1), id="what Spark could not load"),
        pytest.param(layout.PRUNE_MARKS, id="what is unused"),
        pytest.param(layout.checkpoint_manifest(1), id="a checkpoint that has been left behind"),
        pytest.param(f"{SAVEPOINT}/{layout.MANIFEST_NAME}", id="a savepoint"),
        pytest.param(f"{SAVEPOINT}/{WRITER_NAME}", id="who makes a savepoint"),
        pytest.param(layout.savepoint_pointer(4), id="where a savepoint is"),
    ],
)
def test_a_start_that_does_not_need_it_goes_on_in_its_generation(job: Job, key: str) -> None:
    a_root_with_every_document(job)
    raise_version(job, key)

    plan = job.boot()

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.CONTINUE, 1, {"delays": 2})


def test_a_lineage_of_a_later_release_makes_a_root_go_on_as_at_another_place(job: Job) -> None:
    a_root_with_every_document(job)
    raise_version(job, layout.lineage(1))

    plan = job.boot()

    assert (plan.mode, plan.generation, dict(plan.start_batches)) == (StartMode.COPY, 2, {"delays": 2})


def test_a_rollback_restores_by_name_what_it_can_read_beside_checkpoints_of_a_later_release(job: Job) -> None:
    query = a_root_with_every_document(job)
    job.checkpoint(query)
    raise_version(job, layout.checkpoint_manifest(5))

    plan = job.boot(a_restore(snapshot="checkpoint:2", nonce="back"))
    again = job.boot()

    assert (plan.generation, dict(plan.start_batches)) == (2, {"delays": 1})
    assert (again.mode, again.generation, dict(again.start_batches)) == (StartMode.CONTINUE, 2, {"delays": 1})


def test_a_claim_of_a_later_release_is_nobodys_to_take(job: Job) -> None:
    a_root_with_every_document(job)
    job.boot(a_restore(snapshot=f"memory://bucket/default/flights/{SAVEPOINT}", claim_mode=ClaimMode.CLAIM, nonce="a"))
    raise_version(job, f"{SAVEPOINT}/{CLAIM_NAME}")

    with pytest.raises(errors.FormatVersionError, match="for claims of snapshots"):
        job.boot(
            a_restore(snapshot=f"memory://bucket/default/flights/{SAVEPOINT}", claim_mode=ClaimMode.CLAIM, nonce="b")
        )


@pytest.mark.parametrize("key", [layout.generation_record(1), layout.checkpoint_manifest(2)])
def test_the_doctor_says_which_document_keeps_a_driver_from_starting(job: Job, key: str) -> None:
    a_root_with_every_document(job)
    raise_version(job, key)
    how = doctor.Examination(job.clock.now, rules.PrunePolicy(), open_store=job.open_store)

    health = doctor.examine_job(job.store, how)

    assert health.restart.possible is False
    assert f"A driver refuses to start: {job.store.uri}/{key} has format version 2;" in health.restart.sentence
