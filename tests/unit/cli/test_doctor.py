"""`statefulspark doctor` as a person and a script see it, over a local folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from manifests import a_manifest
from sparkroot import FakeQuery
from statefulspark import storage
from statefulspark.checkpoint import catalog, closure, epochs
from statefulspark.cli import main
from statefulspark.contract import diagnosis
from statefulspark.contract.config import RestoreConfig
from statefulspark.recovery import recovery, restore
from statefulspark.recovery.plan import Author
from statefulspark.storage import ObjectStore, StorageOptions

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = main.main(["doctor", "--storage", *arguments, "--allow-local-files"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Make a storage root with one job that has one checkpoint."""
    fill(job_of(f"file://{tmp_path}/state"))
    return f"file://{tmp_path}/state"


def fill(store: ObjectStore) -> None:
    """Do what a first start and its first checkpoint leave."""
    plan = recovery.plan_recovery(store, restore=RestoreConfig())
    now = datetime(2026, 1, 1, tzinfo=UTC)
    epochs.claim(store, assigned=None, holder="pod", claim_id="start", now=now)
    author = Author("default", "words", 1, now)
    restore.carry_out(store, restore.settle(store, plan, author), author)
    query = FakeQuery(store)
    query.run_batch()
    entries = (closure.close_over(store, query.path, query.batch),)
    catalog.write_checkpoint(store, a_manifest(1, entries, claim="start"))


def job_of(root: str) -> ObjectStore:
    return storage.open_store(f"{root}/default/words", StorageOptions(allow_local_files=True))


def break_it(root: str) -> str:
    store = job_of(root)
    key = next(info.key for info in store.list("generations") if "commits/" in info.key)
    store.delete_many([key])
    return key


@pytest.mark.parametrize("arguments", [(), ("--job", "default/words")], ids=["a root", "a job below it"])
def test_a_healthy_job_ends_with_0(run: Run, root: str, arguments: tuple[str, ...]) -> None:
    code, out, err = run(root, *arguments)

    assert (code, err) == (0, "")
    assert f"Job:       {root}/default/words\n" in out
    assert "Health:    healthy\n" in out
    assert "Restart:   A driver continues from checkpoint 1 in generation 1.\n" in out
    assert out.splitlines()[-1].split()[:3] == ["checkpoint", "1", "complete"]


def test_a_broken_job_ends_with_1_and_names_the_file(run: Run, root: str) -> None:
    key = break_it(root)

    code, out, _ = run(f"{root}/default/words")

    assert code == 1
    assert "BROKEN" in out
    assert key in out


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_script_gets_the_whole_diagnosis(run: Run, root: str, form: str, read: Callable[[str], object]) -> None:
    break_it(root)

    code, out, _ = run(root, "-o", form)

    found = diagnosis.Diagnosis.model_validate(read(out))
    assert (code, found.healthy, found.kind) == (1, False, diagnosis.PlaceKind.ROOT)
    assert found.jobs[0].checkpoints[0].broken[0].problem == "Missing"


def test_one_snapshot_is_explained_by_its_files(run: Run, root: str) -> None:
    key = break_it(root)

    code, out, _ = run(f"{root}/default/words/checkpoints/00000001")

    assert code == 1
    assert out.splitlines()[-1].split()[0] == "Missing"
    assert out.splitlines()[-1].endswith(key)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("nothing",), 15, "is empty", id="an empty place"),
        pytest.param(("state", "--job", "default/other"), 15, "is empty", id="a job that is not there"),
        pytest.param(("state", "--job", "words"), 2, "default/words", id="a job without its namespace"),
    ],
)
def test_what_cannot_be_explained_is_one_sentence(
    run: Run, root: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended = run(f"{root.removesuffix('/state')}/{arguments[0]}", *arguments[1:])

    assert (ended[0], ended[1], ended[2].count("\n")) == (code, "", 1)
    assert said in ended[2]


@pytest.mark.s3
def test_the_same_is_said_of_a_job_on_s3(run: Run, s3: object, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: StorageOptions = s3.options()  # type: ignore[attr-defined]
    store = storage.open_store(f"s3://{s3_bucket}/state/default/words", options)
    fill(store)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options.access_key or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options.secret_key or "")
    where = (f"s3://{s3_bucket}/state", "--deep", "--endpoint", options.endpoint or "")

    healthy = run(*where)
    key = next(info.key for info in store.list("generations") if "commits/" in info.key)
    store.delete_many([key])
    broken = run(*where)

    assert (healthy[0], broken[0]) == (0, 1)
    assert key in broken[1]


def test_storage_that_cannot_be_reached_ends_with_16(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    code, out, err = run("s3://bucket/state", "--endpoint", "http://127.0.0.1:9")

    assert (code, out, err.count("\n")) == (16, "", 1)
