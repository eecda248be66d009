"""The doctor on storage folders that are whole, and broken in each way there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import etags
import pytest
from snapshots import Job
from sparkroot import FakeQuery
from statefulspark import doctor, errors
from statefulspark.checkpoint import epochs
from statefulspark.cli import doctor as doctor_command
from statefulspark.commandline import output
from statefulspark.commandline.output import OutputFormat
from statefulspark.contract import diagnosis, layout
from statefulspark.contract.manifest import Manifest, OwnerRecord
from statefulspark.contract.notes import DamageNote
from statefulspark.recovery import damage, generations
from statefulspark.retention import rules
from statefulspark.sparkinternals import releases
from statefulspark.testing import stores


@dataclass
class Case:
    """A job with two checkpoints, a savepoint and a driver that has run."""

    job: Job
    query: FakeQuery
    checkpoints: tuple[Manifest, ...]
    savepoint: str

    def examine(self, *, deep: bool = False) -> diagnosis.JobHealth:
        found = doctor.examine(self.job.store, self.how(deep=deep))
        assert found.kind is diagnosis.PlaceKind.JOB
        assert found.healthy is not bool(found.jobs[0].problems)
        return found.jobs[0]

    def how(self, *, deep: bool = False) -> doctor.Examination:
        return doctor.Examination(self.job.clock.now, rules.PrunePolicy(), deep, self.job.open_store)

    def file_of(self, manifest: Manifest, part: str) -> str:
        (query,) = manifest.queries
        return next(f"{query.path}/{file.path}" for file in query.files if part in file.path)


@pytest.fixture
def case() -> Case:
    return _a_case(Job())


def _a_case(job: Job) -> Case:
    now = job.clock.now
    epochs.ensure_owner(job.store, OwnerRecord(namespace="default", job="flights", owner_id="uid-1", created_at=now))
    epochs.claim(job.store, assigned=None, holder="flights-driver-1", claim_id="a", now=now)
    job.start()
    query = FakeQuery(job.store)
    checkpoints = []
    for _ in range(2):
        query.run_batch()
        query.run_batch()
        query.upload_snapshots()
        query.run_batch()
        checkpoints.append(job.checkpoint(query))
        job.clock.forward(10)
    place = job.savepoint(query)
    return Case(job, query, tuple(checkpoints), place.folder)


def test_a_whole_job_is_healthy_and_explained(case: Case) -> None:
    health = case.examine(deep=True)

    assert health.problems == ()
    assert [one.label for one in health.checkpoints] == ["checkpoint 2", "checkpoint 1"]
    assert [one.label for one in health.savepoints] == ["savepoint 3"]
    assert all(one.ok and one.files for one in (*health.checkpoints, *health.savepoints))
    assert (health.owner.owner_id, health.owner.epoch, health.owner.holder) == ("uid-1", 1, "flights-driver-1")
    assert [(one.generation, one.role) for one in health.generations] == [(1, "in use")]
    assert health.restart.sentence == "A driver continues from checkpoint 2 in generation 1."
    assert health.restart.batches == {"delays": 5}
    assert (health.foreign, health.notes) == ((), ())


def test_no_folder_of_the_product_is_foreign(case: Case) -> None:
    for folder in layout.OWN_FOLDERS:
        case.job.store.write(f"{folder}/later/file", b"")

    assert case.examine().foreign == ()


def test_nothing_is_written(case: Case) -> None:
    before = {info.key: info.etag for info in case.job.bucket.list("")}

    case.examine(deep=True)

    assert {info.key: info.etag for info in case.job.bucket.list("")} == before


def test_batches_after_the_newest_checkpoint_are_foretold(case: Case) -> None:
    case.query.run_batch()

    restart = case.examine().restart

    assert restart.salvages
    assert "completes the batches that were committed after checkpoint 2 as checkpoint 4" in restart.sentence


def test_state_of_another_spark_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.3.0")
    manifest = case.checkpoints[-1].model_copy(update={"versions": {"pyspark": "4.2.0"}})
    case.job.store.write(layout.checkpoint_manifest(2), manifest.sealed())

    health = case.examine()

    sentence = "Checkpoint 2 was written by PySpark 4.2.0, and PySpark 4.3.0 is installed."
    assert (health.restart.other_spark, health.notes) == (sentence, (sentence,))


def test_a_missing_file_is_named_with_what_was_expected(case: Case) -> None:
    key = case.file_of(case.checkpoints[-1], "changelog")
    size = next(info.size_bytes for info in case.job.store.list(layout.GENERATIONS) if info.key == key)
    case.job.store.delete_many([key])

    health = case.examine()

    assert health.checkpoints[0].broken == (
        diagnosis.BrokenFile(
            path=f"{case.job.store.uri}/{key}", problem="Missing", expected=f"{size} bytes", found="nothing"
        ),
    )
    assert any(sentence.startswith("Checkpoint 2 is broken: ") and key in sentence for sentence in health.problems)
    assert health.restart.restored_from == "checkpoint 1"
    assert any("newest state cannot be used" in sentence for sentence in health.problems)


@pytest.mark.parametrize(
    ("body", "deep", "problem", "found"),
    [
        pytest.param(b"", False, "SizeDiffers", "0 bytes", id="a file that was cut off"),
        pytest.param(None, False, "ChecksumDiffers", "bytes with other content", id="a file that was replaced"),
    ],
)
def test_a_damaged_file_is_told_by_what_is_there(
    case: Case, body: bytes | None, deep: bool, problem: str, found: str
) -> None:
    key = case.file_of(case.checkpoints[-1], "commits/5")
    original = case.job.store.read(key)
    case.job.store.write(key, body if body is not None else bytes(len(original)))

    (broken,) = case.examine(deep=deep).checkpoints[0].broken

    assert (broken.problem, broken.expected) == (problem, f"{len(original)} bytes")
    assert broken.found.endswith(found)


def test_a_broken_savepoint_is_a_problem_although_no_start_needs_it(case: Case) -> None:
    key = next(info.key for info in case.job.store.list(f"{case.savepoint}/files"))
    case.job.store.delete_many([key])

    health = case.examine()

    assert [sentence.split(":")[0] for sentence in health.problems] == ["Savepoint 3 is broken"]
    assert health.restart.fallback is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param(layout.checkpoint_manifest(2), "Checkpoint 2 cannot be read", id="a checkpoint's manifest"),
        pytest.param("savepoints/00000003/_metadata.json", "Savepoint 3 cannot be read", id="a savepoint's manifest"),
        pytest.param(layout.generation_record(1), "generation.json is no readable", id="a generation's record"),
        pytest.param(layout.epoch(1), "epochs/00000001.json is no readable", id="an epoch's record"),
        pytest.param(layout.OWNER, "owner.json is no readable", id="the owner's record"),
    ],
)
def test_a_document_that_cannot_be_read_is_named(case: Case, key: str, said: str) -> None:
    case.job.store.write(key, b'{"kind": "check')

    problems = case.examine().problems

    assert any(said in sentence for sentence in problems), problems


def test_when_nothing_verifies_a_driver_is_said_to_refuse(case: Case) -> None:
    case.job.store.delete_many([info.key for info in case.job.store.list(layout.GENERATIONS) if "commits/" in info.key])

    health = case.examine()

    assert not health.restart.possible
    assert health.restart.sentence.startswith("A driver refuses to start: ")
    assert health.restart.sentence in health.problems


def test_what_pruning_would_free_is_counted(case: Case) -> None:
    for _ in range(4):
        case.query.run_batch()
        case.query.upload_snapshots()
        case.job.checkpoint(case.query)
    case.job.clock.forward(3600)

    freeable = case.examine().freeable

    assert freeable.checkpoints == ("checkpoints/00000001/_metadata.json", "checkpoints/00000002/_metadata.json", *(
        f"checkpoints/{number:08d}/_metadata.json" for number in (4,)
    ))  # fmt: skip
    assert freeable.waiting_files > 0
    assert freeable.waiting_size_bytes > 0
    assert (freeable.files, freeable.size_bytes) == (0, 0)


def test_strangers_are_pointed_out_and_no_damage(case: Case) -> None:
    case.job.store.write("notes.txt", b"hello")
    case.job.store.write("generations/00000001/delays/tmp.bak", b"x")
    case.job.store.write("savepoints/00000009-half/files/delays/x", b"x")

    health = case.examine()

    assert health.foreign == ("notes.txt",)
    assert health.problems == ()
    assert any(note.startswith("1 file is below generations/ that no log of Spark names") for note in health.notes)
    assert any("00000009-half has no manifest" in note for note in health.notes)


def a_note_of_damage(case: Case, epoch: int) -> DamageNote:
    now = case.job.clock.now
    return DamageNote(generation=1, epoch=epoch, query="delays", batch_id=5, said="Corruption.", noted_at=now)


def test_notes_on_damage_are_listed_with_how_to_clear_them(case: Case) -> None:
    """They decide what a start uses, and could be found by nobody who did not know of the folder."""
    damage.write(case.job.store, a_note_of_damage(case, 1))
    case.job.clock.forward(10)
    key = case.file_of(case.checkpoints[1], "commits/5")
    case.job.store.write(key, case.job.store.read(key))
    case.job.clock.forward(10)
    damage.write(case.job.store, a_note_of_damage(case, 2))

    counting, past = case.examine().notes

    assert counting.startswith(
        "memory://bucket/default/flights/damage/00000001-00000002.json: a driver could not load the"
    )
    assert "Corruption." in counting
    assert "the note is deleted" in counting
    assert past.startswith("memory://bucket/default/flights/damage/00000001-00000001.json is outdated")


def test_a_generation_that_was_never_completed_is_explained(case: Case) -> None:
    case.job.store.write("generations/00000002/reserved.json", case.job.store.read(layout.epoch(1)))

    health = case.examine()

    assert [(one.generation, one.role) for one in health.generations] == [(2, "unfinished"), (1, "in use")]
    assert health.notes == ("Generation 2 was never completed; no start uses it.",)
    assert health.problems == ()


def test_what_a_standby_carries_ahead_is_explained(case: Case) -> None:
    holder = generations.reservation_of_standby("flights-standby-3", 1, claim_id="one", now=case.job.clock.now)
    generations.reserve(case.job.store, above=1, holder=holder)

    health = case.examine()

    assert [(one.generation, one.role) for one in health.generations] == [(2, "unfinished"), (1, "in use")]
    assert health.notes == (
        "The standby flights-standby-3 has carried state ahead into generation 2, last at "
        f"{case.job.clock.now.isoformat()}; only that standby uses it, and without it pruning removes it.",
    )
    assert (health.problems, health.restart.generation) == ((), 1)


def test_a_generation_that_was_given_up_is_explained(case: Case) -> None:
    case.job.store.write("generations/00000002/reserved.json", case.job.store.read(layout.epoch(1)))
    generations.abandon(case.job.store, (2,), epoch=1, now=case.job.clock.now)

    health = case.examine()

    assert [(one.generation, one.role) for one in health.generations] == [(2, "abandoned"), (1, "in use")]
    assert (health.problems, health.restart.generation) == ((), 1)


@pytest.mark.parametrize(
    ("prefix", "jobs", "foreign"),
    [
        pytest.param("", ["memory://bucket/default/flights"], ("readme/",), id="a root"),
        pytest.param("default", ["memory://bucket/default/flights"], (), id="a namespace"),
    ],
)
def test_a_root_is_searched_for_jobs(case: Case, prefix: str, jobs: list[str], foreign: tuple[str, ...]) -> None:
    case.job.bucket.write("readme/first.txt", b"hello")
    where = case.job.bucket.child(prefix) if prefix else case.job.bucket

    found = doctor.examine(where, case.how())

    assert found.kind is diagnosis.PlaceKind.ROOT
    assert ([job.location for job in found.jobs], found.foreign) == (jobs, foreign)
    assert found.healthy


@pytest.mark.parametrize(("body", "kind"), [(None, "empty"), (b"x", "foreign")])
def test_a_place_without_a_job_is_told_apart(body: bytes | None, kind: str) -> None:
    job = Job()
    if body is not None:
        job.bucket.write("else/where.txt", body)

    found = doctor.examine(job.bucket, doctor.Examination(job.clock.now, rules.PrunePolicy()))

    assert (found.kind, found.jobs) == (kind, ())


def _break_nothing(case: Case, key: str) -> None:
    assert case.job.store.info(key)


def _delete(case: Case, key: str) -> None:
    case.job.store.delete_many([key])


@pytest.mark.parametrize("change", [_break_nothing, _delete], ids=["whole", "a file is missing"])
@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_one_snapshot_is_examined_by_its_own_folder(case: Case, kind: str, change: Callable[[Case, str], None]) -> None:
    folder = case.savepoint if kind == "savepoint" else layout.checkpoint(2)
    files = case.job.store.list(f"{folder}/files") if kind == "savepoint" else ()
    change(case, files[0].key if files else case.file_of(case.checkpoints[-1], "commits/5"))

    found = doctor.examine(case.job.store.child(folder), case.how())

    assert (found.kind, found.snapshot is not None) == (diagnosis.PlaceKind.SNAPSHOT, True)
    assert found.healthy is (change is _break_nothing)


def test_a_checkpoint_that_was_moved_away_from_its_files_is_broken(case: Case) -> None:
    """A.173: checkpoints cannot be moved."""
    case.job.bucket.write("elsewhere/_metadata.json", case.job.store.read(layout.checkpoint_manifest(2)))

    found = doctor.examine(case.job.bucket.child("elsewhere"), case.how())

    assert found.snapshot is not None
    assert "outside its job's folder" in str(found.snapshot.problem)


def test_storage_that_cannot_be_asked_is_no_diagnosis(case: Case) -> None:
    class Unreachable(stores.MemoryStore):
        def list_names(self, prefix: str) -> tuple[str, ...]:
            raise errors.TransientError("StorageUnreachable", "no answer")

    with pytest.raises(errors.TransientError):
        doctor.examine(Unreachable("memory://bucket"), case.how())


def test_an_old_epoch_is_told_with_its_age(case: Case) -> None:
    case.job.clock.forward(3600)

    owner = case.examine().owner

    assert owner.claimed_at is not None
    assert case.job.clock.now - owner.claimed_at > timedelta(hours=1)


def a_staged_file(*, batch: int) -> str:
    return layout.staged_file("out", generation=1, batch_id=batch, epoch=1, unique="ab" * 16)


def test_folders_beside_the_state_are_told_with_whose_they_are(case: Case) -> None:
    case.job.store.write("scratch/00000001/delays/state/0/0/1.changelog", b"12")
    case.job.store.write("scratch/rehearsal-ab12/checkpoint/metadata", b"{}")
    case.job.store.write(f"generations/00000001/delays/{a_staged_file(batch=5)}", b"12345")
    case.job.store.write("sinks/delays/out/marker.json", b"{}")

    health = case.examine()

    assert health.problems == health.foreign == ()
    assert [(one.path, one.whose, one.files, one.size_bytes) for one in health.beside] == [
        ("generations/00000001/delays/staged/out", "sink out of query delays", 1, 5),
        ("scratch/00000001", "start of epoch 1", 1, 2),
        ("scratch/rehearsal-ab12", "rehearsal of a standby", 1, 2),
    ]
    assert any("scratch/00000001" in note and "the next start removes it" in note for note in health.notes)
    assert any("scratch/rehearsal-ab12" in note and "a start ten minutes later" in note for note in health.notes)


def test_what_a_dead_driver_staged_in_vain_is_freeable(case: Case) -> None:
    before = case.examine().freeable
    case.job.store.write(f"generations/00000001/delays/{a_staged_file(batch=0)}", b"12345")

    freeable = case.examine().freeable

    assert freeable.waiting_files == before.waiting_files + 1
    found = doctor.examine(case.job.store, case.how())
    told = output.render(doctor_command.report(found, now=case.job.clock.now), OutputFormat.TEXT)
    assert "generations/00000001/delays/staged/out" in told


@pytest.mark.parametrize(("written", "examined"), etags.LIVES.values(), ids=etags.LIVES)
def test_nothing_is_accused_for_its_etag(written: etags.EtagOf, examined: etags.EtagOf) -> None:
    changing = etags.Changing(written, examined)
    case = _a_case(Job(etag_of=changing))
    changing.change()

    found = case.examine(deep=True)

    assert found.problems == ()
    assert [health.uncompared for health in (*found.checkpoints, *found.savepoints)] == [()] * 3


def test_what_could_not_be_compared_is_told_and_no_problem() -> None:
    """A table beside which there is no checksum, as another program may leave it."""
    job = Job().on(etags.Untold(stores.MemoryStore(etag_of=etags.Encrypted())))
    query = job.running(batches=1)
    query.upload_snapshots()
    job.store.delete_many([info.key for info in job.store.list("") if info.key.endswith(".sst.crc")])
    job.checkpoint(query)
    case = Case(job, query, (), "")

    found = case.examine(deep=True)
    text = output.render(
        doctor_command.report(doctor.examine(job.store, case.how()), now=job.clock.now), OutputFormat.TEXT
    )

    tables = tuple(f"{job.store.uri}/{info.key}" for info in job.store.list("") if info.key.endswith(".sst"))
    assert (found.problems, found.checkpoints[0].uncompared) == ((), tables)
    assert (
        f"Checkpoint 1: nothing tells what the content of {tables[0]} and 1 more files was; only the" in found.notes[-1]
    )
    assert "nothing tells" not in text
