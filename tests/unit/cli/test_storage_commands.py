"""`checkpoint` and `savepoint` on storage alone, over a local folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from manifests import a_manifest, a_query, an_operator
from statefulspark import launch, storage
from statefulspark.checkpoint import catalog
from statefulspark.cli import main
from statefulspark.contract import base, config, layout
from statefulspark.contract.manifest import (
    FileEntry,
    Manifest,
    SnapshotFormat,
    SnapshotKind,
    Trigger,
)
from statefulspark.contract.notes import SavepointPointer
from statefulspark.storage import ObjectStore, StorageOptions

_NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv(config.ENV_CONFIG, raising=False)

    def run_command(*arguments: str) -> Result:
        code = main.main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def root(tmp_path: Path) -> ObjectStore:
    return storage.open_store(f"file://{tmp_path}/state/default/words", StorageOptions(allow_local_files=True))


def a_cut_of_words(kind: SnapshotKind, number: int, path: str, name: str | None = None) -> Manifest:
    bodies = {"commits/12": b"12345", "offsets/12": b"123456"}
    query = a_query(
        "counts",
        an_operator("by-word", name="tws", partitions=4, max_parallelism=128),
        batch_id=12,
        path=path,
        offsets=('{"topic":{"0":41}}',),
    )
    files = (FileEntry(path=name, size_bytes=len(body), crc32=base.crc32_hex(body)) for name, body in bodies.items())
    return a_manifest(
        number,
        [query.model_copy(update={"files": tuple(files)})],
        kind=kind,
        job="words",
        trigger=Trigger.PERIODIC if kind is SnapshotKind.CHECKPOINT else Trigger.MANUAL,
        epoch=7,
        generation=3,
        now=_NOON,
        completed_at=_NOON + timedelta(seconds=2),
        savepoint_name=name,
        versions={"statefulspark": "0.1.0"},
    )


def put_checkpoint(root: ObjectStore, number: int) -> None:
    path = layout.query_root(3, "counts")
    root.write(f"{path}/commits/12", b"12345")
    root.write(f"{path}/offsets/12", b"123456")
    root.write(
        layout.checkpoint_manifest(number), a_cut_of_words(SnapshotKind.CHECKPOINT, number, path).to_json().encode()
    )


def put_savepoint(root: ObjectStore, number: int, name: str) -> str:
    folder = layout.savepoint(number, name)
    root.write(f"{folder}/files/counts/commits/12", b"12345")
    root.write(f"{folder}/files/counts/offsets/12", b"123456")
    manifest = a_cut_of_words(SnapshotKind.SAVEPOINT, number, "files/counts", name)
    root.write(f"{folder}/_metadata.json", manifest.to_json().encode())
    return f"{root.uri}/{folder}"


def at(root: ObjectStore) -> tuple[str, ...]:
    return ("--storage", root.uri, "--allow-local-files")


def test_checkpoints_are_listed_newest_first(run: Run, root: ObjectStore) -> None:
    for number in (41, 42):
        put_checkpoint(root, number)
    put_savepoint(root, 43, "nightly")
    root.write(f"{layout.checkpoint(44)}/unfinished", b"")

    result = run("checkpoint", "list", *at(root))

    header, *rows = [line.split() for line in result.out.splitlines()]
    assert result.code == 0
    assert header == ["ID", "TRIGGER", "FORMAT", "AGE", "SIZE", "FILES", "BATCHES"]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("42", "Periodic", "Native", "counts=12"),
        ("41", "Periodic", "Native", "counts=12"),
    ]


@pytest.fixture
def developed(tmp_path: Path) -> tuple[Path, ObjectStore]:
    """A job file, and the root of its job while it is developed."""
    file = tmp_path / "my jobs" / "job.py"
    file.parent.mkdir()
    file.write_text('import statefulspark as ss\njob = ss.Job("words")\njob.run()\n')
    state = launch.development_storage(file.parent).uri
    return file, storage.open_store(f"{state}/default/words", StorageOptions(allow_local_files=True))


@pytest.mark.parametrize("command", [("checkpoint", "list"), ("savepoint", "list"), ("doctor",)], ids=" ".join)
def test_the_state_of_a_job_that_is_developed_is_found_in_its_folder(
    run: Run, developed: tuple[Path, ObjectStore], command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the URI of a folder with the name of the job, and a flag to allow it."""
    file, root = developed
    monkeypatch.chdir(file.parent)
    put_checkpoint(root, 42)
    put_savepoint(root, 43, "nightly")
    root.write(layout.epoch(1), b"{}")

    here, by_uri = run(*command, "--dev"), run(*command, *at(root))

    assert here == by_uri
    assert ("42" in here.out) or ("43" in here.out)


def test_of_several_jobs_that_are_developed_one_is_named(
    run: Run, developed: tuple[Path, ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, root = developed
    monkeypatch.chdir(file.parent)
    other = storage.open_store(root.uri.replace("words", "numbers"), StorageOptions(allow_local_files=True))
    for store in (root, other):
        store.write(layout.epoch(1), b"{}")
    put_checkpoint(root, 42)

    either = run("checkpoint", "list", "--dev")
    named = run("checkpoint", "list", "--dev", "--job", "default/words")

    assert (either.code, named.code) == (2, 0)
    assert "default/numbers, default/words; name one with --job." in either.err
    assert "42" in named.out


def test_where_no_job_was_developed_there_is_no_state(
    run: Run, developed: tuple[Path, ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(developed[0].parent)

    result = run("checkpoint", "list", "--dev")

    folder = developed[0].parent / ".statefulspark"
    assert (result.code, result.out) == (15, "")
    assert result.err == (f"error: There is no {folder}: change to the folder of a job file that has run with --dev.\n")


@pytest.mark.parametrize(
    ("both", "said"),
    [
        ((), "Name a folder: --storage "),
        (("--storage", "s3://bucket", "--dev"), "The options --storage and --dev exclude "),
    ],
    ids=["neither", "both"],
)
def test_doctor_is_told_one_folder(run: Run, both: tuple[str, ...], said: str) -> None:
    result = run("doctor", *both)

    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {said}")


def test_json_carries_the_names_of_the_api(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 42)

    listed = json.loads(run("checkpoint", "list", "-o", "json", *at(root)).out)

    assert listed == {
        "snapshots": [
            {
                "kind": "Checkpoint",
                "id": 42,
                "location": f"{root.uri}/checkpoints/00000042",
                "trigger": "Periodic",
                "triggeredAt": "2026-11-21T12:00:00Z",
                "completedAt": "2026-11-21T12:00:02Z",
                "sizeBytes": 11,
                "batches": {"counts": 12},
                "format": "Native",
            }
        ]
    }


def test_savepoints_are_listed_with_their_format(run: Run, root: ObjectStore) -> None:
    """A.158."""
    put_savepoint(root, 43, "nightly")
    parquet = a_cut_of_words(SnapshotKind.SAVEPOINT, 44, "files/counts", "rescale")
    parquet = parquet.model_copy(update={"format": SnapshotFormat.CANONICAL})
    root.write(f"{layout.savepoint(44, 'rescale')}/_metadata.json", parquet.to_json().encode())

    table = run("savepoint", "list", *at(root)).out
    listed = json.loads(run("savepoint", "list", "-o", "json", *at(root)).out)
    shown = run("savepoint", "show", "44", *at(root)).out

    assert [line.split()[:3] for line in table.splitlines()] == [
        ["ID", "TRIGGER", "FORMAT"], ["44", "Manual", "Canonical"], ["43", "Manual", "Native"],
    ]  # fmt: skip
    assert [one["format"] for one in listed["snapshots"]] == ["Canonical", "Native"]
    assert "Format:         Canonical\n" in shown


def test_a_damaged_manifest_does_not_hide_the_others(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 41)
    root.write(layout.checkpoint_manifest(42), b'{"kind": "check')

    table = run("checkpoint", "list", *at(root))
    listed = json.loads(run("checkpoint", "list", "-o", "json", *at(root)).out)

    assert [line.split()[:2] for line in table.out.splitlines()[1:]] == [["42", "unreadable"], ["41", "Periodic"]]
    assert listed["snapshots"][0]["reason"] == "DocumentUnreadable"


def test_an_empty_root_is_no_error(run: Run, root: ObjectStore) -> None:
    result = run("checkpoint", "list", *at(root))

    assert result == Result(0, "", f"There are no checkpoints at {root.uri}.\n")
    assert json.loads(run("checkpoint", "list", "-o", "json", *at(root)).out) == {"snapshots": []}


def test_a_root_of_jobs_is_told_with_the_folders_of_its_jobs(run: Run, root: ObjectStore, tmp_path: Path) -> None:
    """A list at the storage root said that there were no savepoints."""
    put_savepoint(root, 43, "nightly")
    root.write(layout.epoch(1), b"{}")

    result = run("savepoint", "list", "--storage", f"file://{tmp_path}/state", "--allow-local-files")

    assert result.err == (
        f"There are no savepoints at file://{tmp_path}/state. It is no job's folder: name one with --job: default/words.\n"
    )


def test_a_folder_of_savepoints_is_told_with_what_it_holds(run: Run, root: ObjectStore, tmp_path: Path) -> None:
    location = put_elsewhere(root, tmp_path, 44)
    archive = location.partition("/savepoints/")[0]

    result = run("savepoint", "list", "--storage", f"{archive}/savepoints", "--allow-local-files")

    assert result.err == (
        f"There are no savepoints at {archive}/savepoints. It is no job's folder, and holds {location}: look at one with "
        "`statefulspark savepoint show LOCATION`.\n"
    )


@pytest.mark.parametrize("wanted", ["42", "latest"])
def test_a_checkpoint_is_described(run: Run, root: ObjectStore, wanted: str) -> None:
    put_checkpoint(root, 41)
    put_checkpoint(root, 42)

    result = run("checkpoint", "show", wanted, *at(root))

    assert "Id:             42\n" in result.out
    assert "Size:           11 B in 2 files\n" in result.out
    assert "Operator:   by-word (tws, 4 partitions, 128 key groups)\n" in result.out
    assert "commits/12" not in result.out
    assert "commits/12" in run("checkpoint", "show", wanted, "-o", "wide", *at(root)).out


def test_the_json_of_a_checkpoint_is_its_manifest(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 42)

    shown = run("checkpoint", "show", "42", "-o", "json", *at(root))

    expected = a_cut_of_words(SnapshotKind.CHECKPOINT, 42, "generations/00000003/counts")
    assert Manifest.model_validate_json(shown.out) == expected


def test_a_checkpoint_that_does_not_exist_is_named_with_those_that_do(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 41)

    result = run("checkpoint", "show", "7", *at(root))

    assert result == Result(15, "", f"error: There is no checkpoint 7 at {root.uri}; completed are: 41.\n")


def test_every_broken_file_is_listed(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 42)
    path = layout.query_root(3, "counts")
    root.delete_many([f"{path}/commits/12"])
    root.write(f"{path}/offsets/12", b"123")

    result = run("checkpoint", "verify", "42", *at(root))
    told = json.loads(run("checkpoint", "verify", "42", "-o", "json", *at(root)).out)

    assert result.code == 17
    assert result.out.splitlines() == [
        "Checkpoint 42 is broken: 2 of 2 files, 11 B.",
        f"  Missing: {root.uri}/{path}/commits/12 does not exist.",
        f"  SizeDiffers: {root.uri}/{path}/offsets/12 has 3 bytes instead of 6.",
    ]
    assert (told["ok"], [one["kind"] for one in told["problems"]]) == (False, ["Missing", "SizeDiffers"])


def test_what_could_not_be_compared_is_said(run: Run, root: ObjectStore) -> None:
    """A file beside which there is no checksum, and whose etag is unknown."""
    put_checkpoint(root, 42)
    manifest = catalog.read_manifest(root, layout.checkpoint(42))
    (query,) = manifest.queries
    root.write(f"{query.path}/a.sst", b"1234")
    more = query.model_copy(update={"files": (*query.files, FileEntry(path="a.sst", size_bytes=4))})
    root.write(layout.checkpoint_manifest(42), manifest.model_copy(update={"queries": (more,)}).to_json().encode())

    result = run("checkpoint", "verify", "42", "--deep", *at(root))
    told = json.loads(run("checkpoint", "verify", "42", "--deep", "-o", "json", *at(root)).out)

    assert result.code == 0
    assert result.out.splitlines() == [
        "Checkpoint 42 is complete: 3 files, 15 B verified.",
        f"Nothing tells what the content of {query.path}/a.sst was, so only the size was compared.",
    ]
    assert (told["ok"], told["uncompared"]) == (True, [f"{query.path}/a.sst"])


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata.json"], ids=["folder", "trailing slash", "manifest"])
def test_a_savepoint_is_found_by_its_uri(run: Run, root: ObjectStore, suffix: str) -> None:
    """A.165: the directory or its metadata file."""
    location = put_savepoint(root, 43, "nightly")

    shown = run("savepoint", "show", location + suffix, "--allow-local-files")
    verified = run("savepoint", "verify", location + suffix, "--deep", "--allow-local-files")

    assert f"Location:       {location}\n" in shown.out
    assert verified == Result(0, "Savepoint 43 is complete: 2 files, 11 B verified.\n", "")


def test_names_and_yaml_are_for_scripts(run: Run, root: ObjectStore) -> None:
    for number in (41, 42):
        put_checkpoint(root, number)

    assert run("checkpoint", "list", "-o", "name", *at(root)).out == "checkpoint/42\ncheckpoint/41\n"
    listed = yaml.safe_load(run("checkpoint", "list", "-o", "yaml", *at(root)).out)
    assert listed == json.loads(run("checkpoint", "list", "-o", "json", *at(root)).out)


def test_a_folder_without_a_manifest_is_told_from_one_that_is_not_there(run: Run, root: ObjectStore) -> None:
    """A.166: missing path, missing metadata and garbage are three different sentences."""
    location = put_savepoint(root, 43, "nightly")
    manifest = f"{layout.savepoint(43, 'nightly')}/_metadata.json"

    root.write(manifest, b"garbage")
    garbage = run("savepoint", "show", location, "--allow-local-files")
    root.delete_many([manifest])
    unfinished = run("savepoint", "show", location, "--allow-local-files")
    missing = run("savepoint", "show", f"{location}-other", "--allow-local-files")

    assert (garbage.code, unfinished.code, missing.code) == (17, 15, 15)
    assert "is no readable Manifest" in garbage.err
    assert "has no _metadata.json" in unfinished.err
    assert "There is no completed snapshot" in missing.err


@pytest.mark.parametrize(
    ("target", "lands"), [("archive/words", "archive/words"), ("archive/", "archive/00000043-nightly")]
)
def test_a_savepoint_is_copied_as_a_whole(run: Run, root: ObjectStore, tmp_path: Path, target: str, lands: str) -> None:
    """A.173: the copy stands on its own."""
    location = put_savepoint(root, 43, "nightly")

    copied = run("savepoint", "copy", location, f"file://{tmp_path}/{target}", "--allow-local-files")
    run("savepoint", "dispose", location, "--allow-local-files")
    verified = run("savepoint", "verify", f"file://{tmp_path}/{lands}", "--deep", "--allow-local-files")

    assert (copied.code, verified.code) == (0, 0)
    assert copied.out == f"savepoint 43 copied to file://{tmp_path}/{lands} (2 files, 11 B)\n"
    assert "100%  11 B of 11 B" in copied.err


def test_a_copy_that_was_interrupted_goes_on(run: Run, root: ObjectStore, tmp_path: Path) -> None:
    location = put_savepoint(root, 43, "nightly")
    elsewhere = storage.open_store(f"file://{tmp_path}/archive", StorageOptions(allow_local_files=True))
    elsewhere.write("words/files/counts/commits/12", b"12345")
    elsewhere.write("words/files/counts/offsets/12", b"1")
    copy = ("savepoint", "copy", location, f"{elsewhere.uri}/words", "--allow-local-files", "-o", "json", "-q")

    first, again = run(*copy), run(*copy)

    assert (first.err, json.loads(first.out)["copiedFiles"]) == ("", 1)
    assert (again.code, json.loads(again.out)["copiedFiles"]) == (0, 0)


def test_what_cannot_be_copied_is_refused_before_anything_is_written(
    run: Run, root: ObjectStore, tmp_path: Path
) -> None:
    put_checkpoint(root, 42)
    first = put_savepoint(root, 43, "nightly")
    second = put_savepoint(root, 44, "other")
    broken = put_savepoint(root, 45, "broken")
    root.delete_many([f"{layout.savepoint(45, 'broken')}/files/counts/commits/12"])
    elsewhere = f"file://{tmp_path}/archive/words"

    def copy(source: str, target: str) -> Result:
        return run("savepoint", "copy", source, target, "--allow-local-files")

    assert copy(f"{root.uri}/checkpoints/00000042", elsewhere).code == 2
    assert copy(first, second).code == 1
    assert copy(first, f"{first}/copy").code == 2
    assert copy(broken, elsewhere).code == 17
    assert copy(f"{root.uri}/savepoints/00000099", elsewhere).code == 15
    assert not (tmp_path / "archive").exists()


def test_a_disposed_savepoint_is_gone_and_nothing_else_is(run: Run, root: ObjectStore) -> None:
    """A.175."""
    put_checkpoint(root, 42)
    keep = put_savepoint(root, 43, "keep")
    location = put_savepoint(root, 44, "nightly")

    result = run("savepoint", "dispose", location, "--allow-local-files")

    assert result == Result(0, f"savepoint {location} deleted (3 objects)\n", "")
    assert root.list(layout.savepoint(44, "nightly")) == ()
    assert run("savepoint", "verify", keep, "--allow-local-files").code == 0
    assert run("checkpoint", "verify", "42", *at(root)).code == 0


def test_a_checkpoint_is_not_disposed_of_as_a_savepoint(run: Run, root: ObjectStore) -> None:
    put_checkpoint(root, 42)

    result = run("savepoint", "dispose", f"{root.uri}/checkpoints/00000042", "--allow-local-files")

    assert result.code == 2
    assert run("checkpoint", "verify", "42", *at(root)).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        pytest.param(("checkpoint", "list"), 2, "--storage", id="no storage"),
        pytest.param(("checkpoint", "list", "--storage", "gs://bucket/x"), 2, "gs://bucket/x", id="an unknown scheme"),
        pytest.param(
            ("checkpoint", "list", "--storage", "file:///tmp/x"), 2, "file:///tmp/x", id="local files unasked"
        ),
        pytest.param(("savepoint", "show", "nightly"), 2, "'nightly'", id="a savepoint that is no uri"),
        pytest.param(("savepoint", "show", "9" * 5000), 2, "must be a number, or a URI", id="a number without end"),
        pytest.param(("checkpoint", "show", "9" * 5000), 2, "must be the number", id="a checkpoint without end"),
        pytest.param(
            ("savepoint", "show", "file:///nowhere/at/all", "--allow-local-files"),
            15,
            "/nowhere/at/all",
            id="no such folder",
        ),
    ],
)
def test_an_error_is_one_sentence_that_names_the_value(
    run: Run, arguments: tuple[str, ...], code: int, named: str
) -> None:
    result = run(*arguments)

    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert named in result.err


def test_inside_a_drivers_pod_its_own_job_is_meant(
    run: Run, root: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_checkpoint(root, 42)
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps({"name": "words", "storage": {"uri": f"file://{tmp_path}/state", "allowLocalFiles": True}})
    )
    monkeypatch.setenv(config.ENV_CONFIG, str(file))

    assert run("checkpoint", "list").out.splitlines()[1].startswith("42")


@pytest.mark.s3
def test_the_same_commands_work_on_s3(run: Run, s3: object, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: StorageOptions = s3.options()  # type: ignore[attr-defined]
    root = storage.open_store(f"s3://{s3_bucket}/state/default/words", options)
    put_checkpoint(root, 42)
    location = put_savepoint(root, 43, "nightly")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options.access_key or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options.secret_key or "")
    endpoint = ("--endpoint", options.endpoint or "")

    assert run("checkpoint", "verify", "latest", "--deep", "--storage", root.uri, *endpoint).code == 0
    assert run("savepoint", "copy", location, f"s3://{s3_bucket}/archive/", *endpoint).code == 0
    assert run("savepoint", "verify", f"s3://{s3_bucket}/archive/00000043-nightly", "--deep", *endpoint).code == 0
    assert run("savepoint", "dispose", location, *endpoint).code == 0
    assert run("savepoint", "show", location, *endpoint).code == 15


def test_unreachable_storage_is_told_from_an_empty_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    result = run("checkpoint", "list", "--storage", "s3://bucket/x", "--endpoint", "http://127.0.0.1:9")

    assert result.code == 16
    assert result.err.count("\n") == 1
    assert "http://127.0.0.1:9" in result.err


def put_elsewhere(root: ObjectStore, tmp_path: Path, number: int) -> str:
    """Make a savepoint in an archive, and keep its number in the job's root."""
    archive = storage.open_store(f"file://{tmp_path}/archive", StorageOptions(allow_local_files=True))
    location = put_savepoint(archive, number, "kept")
    root.write(layout.savepoint_pointer(number), SavepointPointer(location=location).to_json().encode())
    return location


def test_savepoints_at_other_locations_are_listed_with_where_they_are(
    run: Run, root: ObjectStore, tmp_path: Path
) -> None:
    own = put_savepoint(root, 43, "nightly")
    away = put_elsewhere(root, tmp_path, 44)

    result = run("savepoint", "list", *at(root))

    header, newest, older = (line.split() for line in result.out.splitlines())
    assert (result.code, result.err) == (0, "")
    assert header[-1] == "LOCATION"
    assert (newest[0], newest[1], newest[-1]) == ("44", "Manual", away)
    assert (older[0], older[-1]) == ("43", own)
    assert run("savepoint", "list", *at(root), "-o", "name").out == "savepoint/44\nsavepoint/43\n"


def test_a_savepoint_at_another_location_that_is_gone_is_listed_with_why(
    run: Run, root: ObjectStore, tmp_path: Path
) -> None:
    away = put_elsewhere(root, tmp_path, 44)
    storage.open_store(away, StorageOptions(allow_local_files=True)).delete_many(["_metadata.json"])

    table, data = run("savepoint", "list", *at(root)), run("savepoint", "list", *at(root), "-o", "json")

    assert table.out.splitlines()[1].split() == ["44", "not", "there", *"-----", away]
    assert table.err == (
        f"savepoint 44 cannot be read now: There is no savepoint at {away} now: it was moved, disposed of, or never "
        "completed.\n"
    )
    (item,) = json.loads(data.out)["snapshots"]
    assert (item["id"], item["location"], item["reason"]) == (44, away, "SnapshotNotFound")


def test_a_savepoint_at_another_location_is_shown_by_its_number(run: Run, root: ObjectStore, tmp_path: Path) -> None:
    away = put_elsewhere(root, tmp_path, 44)

    shown, verified = (run("savepoint", verb, "44", *at(root)) for verb in ("show", "verify"))

    assert f"Location:       {away}\n" in shown.out
    assert verified.out == "Savepoint 44 is complete: 2 files, 11 B verified.\n"
