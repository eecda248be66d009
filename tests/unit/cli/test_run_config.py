"""`statefulspark run`: what the flags make of the configuration."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from restores import a_restore
from statefulspark import errors
from statefulspark.cli import main, options, run
from statefulspark.contract import config
from statefulspark.contract.rights import SinkRight

_JOB = 'import statefulspark as ss\njob = ss.Job("words")\njob.run()\n'


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(config.ENV_CONFIG, raising=False)
    file = tmp_path / "job.py"
    file.write_text(_JOB)
    return file


def _args(*arguments: str | Path) -> dict[str, Any]:
    return run.command.make_context("run", [*map(str, arguments)]).params


def _configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    monkeypatch.setenv(config.ENV_CONFIG, str(file))


def test_a_job_needs_a_file_and_a_storage_only(job_file: Path) -> None:
    built = run.build_config(_args(job_file, "--storage", "s3://bucket/prefix"))

    assert built == config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket/prefix"))


def test_development_on_one_machine_needs_one_flag(job_file: Path) -> None:
    built = run.build_config(_args(job_file, "--dev"))

    storage = config.StorageConfig(uri=(job_file.parent / ".statefulspark").as_uri(), allow_local_files=True)
    assert built == config.JobConfig(name="words", storage=storage, api_port=0)


def test_the_certificate_of_a_configuration_file_stays(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = '{"certificate": "/tls/tls.crt", "key": "/tls/tls.key"}'
    _configured(tmp_path, monkeypatch, f'{{"name": "w", "storage": {{"uri": "s3://b/p"}}, "apiTls": {tls}}}')

    built = run.build_config(_args(job_file))

    assert built.api_tls == config.ApiTlsConfig(certificate="/tls/tls.crt", key="/tls/tls.key")


def test_a_storage_that_is_named_wins_over_the_one_for_development(job_file: Path) -> None:
    built = run.build_config(_args(job_file, "--dev", "--storage", "s3://bucket/prefix"))

    assert built.storage.uri == "s3://bucket/prefix"


def test_every_flag_arrives(job_file: Path) -> None:
    flags = (
        "--name w2 --namespace team --storage s3://b/p --endpoint http://s3:9000 --region eu --allow-local-files "
        "--savepoint-location s3://b/sp --checkpoint-interval 5s --checkpoint-timeout 1m --checkpoint-min-pause 500ms "
        "--checkpoint-tolerable-failures 7 --checkpoint-retention-count 9 --checkpoint-retention-max-age 2h "
        "--checkpoint-prune-delay 90s --checkpoint-history-limit 7 --restore-checkpoint-id 41 --restore-claim-mode Claim "
        "--restore-drop-state old --restore-drop-state older --restore-repeat-output-of orders/table "
        "--restore-repeat-output-of orders/log --restore-lose-output-of orders/table --api-port 0 --master local[2] "
        "--rehearsal PlanOnly --conf spark.a=1 --conf spark.b=x=y --parameter input=/data --parameter empty="
    )

    built = run.build_config(_args(job_file, *flags.split()))

    assert built == config.JobConfig(
        name="w2",
        namespace="team",
        storage=config.StorageConfig(
            uri="s3://b/p", s3=config.S3Config(endpoint="http://s3:9000", region="eu"), allow_local_files=True
        ),
        savepoint_location="s3://b/sp",
        checkpoint=config.CheckpointConfig(
            interval=timedelta(seconds=5),
            timeout=timedelta(minutes=1),
            min_pause=timedelta(milliseconds=500),
            tolerable_failures=7,
            retention=config.RetentionConfig(count=9, max_age=timedelta(hours=2)),
            prune_delay=timedelta(seconds=90),
            history_limit=7,
        ),
        restore=a_restore(
            snapshot="checkpoint:41",
            drop_state=("old", "older"),
            claim_mode=config.ClaimMode.CLAIM,
            repeat_output_of=("orders/table", "orders/log"),
            lose_output_of=("orders/table",),
        ),
        engine=config.EngineConfig(master="local[2]", conf={"spark.a": "1", "spark.b": "x=y"}),
        api_port=0,
        rehearsal=config.Rehearsal.PLAN_ONLY,
        parameters={"input": "/data", "empty": ""},
    )


def test_flags_win_over_the_file_and_the_rest_of_the_file_stays(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(
        tmp_path,
        monkeypatch,
        """{"name": "fromfile", "namespace": "team", "ownerId": "uid-1", "storage":
        {"uri": "s3://b/p", "s3": {"region": "eu"}}, "checkpoint": {"interval": "30s", "retention": {"count": 4}},
        "parameters": {"a": "1", "b": "2"}, "apiPort": 9000}""",
    )

    built = run.build_config(_args(job_file, "--checkpoint-retention-count", "8", "--parameter", "b=3"))

    assert built == config.JobConfig(
        name="fromfile",
        namespace="team",
        owner_id="uid-1",
        storage=config.StorageConfig(uri="s3://b/p", s3=config.S3Config(region="eu")),
        checkpoint=config.CheckpointConfig(interval=timedelta(seconds=30), retention=config.RetentionConfig(count=8)),
        parameters={"a": "1", "b": "3"},
        api_port=9000,
    )


def test_a_start_asked_for_by_flag_replaces_the_one_in_the_file(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _configured(
        tmp_path,
        monkeypatch,
        '{"name": "w", "storage": {"uri": "s3://b/p"}, "restore": {"source": {"uri": "s3://b/old"}, "nonce": "once"}}',
    )

    built = run.build_config(_args(job_file, "--restore-empty"))

    assert built.restore == a_restore(empty=True)


@pytest.mark.parametrize(
    ("flags", "reason", "named"),
    [
        pytest.param((), "StorageMissing", "--storage", id="no storage"),
        pytest.param(("--storage", "gs://b"), "ConfigInvalid", "gs://b", id="a storage that is not shared"),
        pytest.param(
            ("--storage", "s3://b", "--checkpoint-interval", "0s"), "ConfigInvalid", "(got 0 s)", id="no time"
        ),
        pytest.param(
            ("--storage", "s3://b", "--checkpoint-retention-count", "0"),
            "ConfigInvalid",
            "retention",
            id="nothing retained",
        ),
        pytest.param(("--storage", "s3://b", "--api-port", "70000"), "ConfigInvalid", "70000", id="no such port"),
        pytest.param(
            ("--dev", "--api-tls-certificate", "a.crt"),
            "TlsIncomplete",
            "--api-tls-key",
            id="a certificate without its key",
        ),
        pytest.param(
            ("--dev", "--api-tls-key", "a.key"),
            "TlsIncomplete",
            "--api-tls-certificate",
            id="a key without its certificate",
        ),
    ],
)
def test_a_wrong_configuration_is_one_sentence(job_file: Path, flags: tuple[str, ...], reason: str, named: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        run.build_config(_args(job_file, *flags))

    assert raised.value.reason == reason
    assert named in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param("print('no job')\n", "NameMissing", id="no job in it"),
        pytest.param("a = Job('a')\nb = ss.Job('b')\n", "NameMissing", id="two jobs in it"),
        pytest.param("name = 'x'\njob = Job(name)\n", "NameMissing", id="the name is computed"),
        pytest.param("def broken(:\n", "JobFileRaised", id="it is no Python"),
    ],
)
def test_a_name_that_cannot_be_read_from_the_file_is_asked_for(job_file: Path, source: str, reason: str) -> None:
    job_file.write_text(source)

    with pytest.raises(errors.StatefulSparkError) as raised:
        options.declared_name(job_file)

    assert raised.value.reason == reason


def test_a_missing_job_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"nowhere\.py") as raised:
        options.declared_name(tmp_path / "nowhere.py")

    assert raised.value.reason == "JobFileMissing"


@pytest.mark.parametrize(
    ("flags", "snapshot"),
    [
        (("--restore-checkpoint-id", "41"), "checkpoint:41"),
        (("--restore-uri", "s3://b/default/w/savepoints/00000043/"), "s3://b/default/w/savepoints/00000043"),
    ],
)
def test_a_snapshot_has_a_number_or_a_uri(job_file: Path, flags: tuple[str, ...], snapshot: str) -> None:
    built = run.build_config(_args(job_file, "--storage", "s3://b", *flags))

    assert built.restore.snapshot == snapshot


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--restore-checkpoint-id", "latest"), id="a checkpoint that is no number"),
        pytest.param(("--restore-uri", "41"), id="a number as a folder"),
        pytest.param(("--restore-checkpoint-id", "41", "--restore-empty"), id="a snapshot and none at once"),
        pytest.param(("--checkpoint-interval", "10"), id="a duration without a unit"),
        pytest.param(("--parameter", "novalue"), id="a parameter without a value"),
        pytest.param(("--log-format", "xml"), id="an unknown log format"),
        pytest.param(("--standby", "--check"), id="a standby and a check at once"),
        pytest.param(("-o", "json"), id="the format of a report that is not asked for"),
        pytest.param(("--restore-nonce", "a", "--restore-again"), id="two names for a restore"),
    ],
)
def test_a_wrong_flag_is_a_usage_error(
    job_file: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["run", str(job_file), *flags])

    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert said.startswith("error: ")


def _restore(job_file: Path, *flags: str) -> config.RestoreConfig:
    return run.build_config(_args(job_file, "--storage", "s3://b", *flags)).restore


@pytest.mark.parametrize(
    "wish", [("--restore-empty",), ("--restore-checkpoint-id", "41"), ("--restore-uri", "s3://b/sp")]
)
def test_again_is_another_wish_each_time_and_counts_as_done_for_the_same_command_without_it(
    job_file: Path, wish: tuple[str, ...]
) -> None:
    plain, first, second = _restore(job_file, *wish), *(_restore(job_file, *wish, "--restore-again") for _ in range(2))

    assert not first.is_done([plain.once_key or ""])
    assert not second.is_done([first.once_key or ""])
    assert plain.is_done([second.once_key or ""])
    assert first.source == plain.source


@pytest.mark.parametrize(
    "word",
    [
        ("--ownership", "TakeOver"),
        ("--restore-repeat-output-of", "orders/table"),
        ("--restore-lose-output-of", "orders/table"),
    ],
)
def test_again_says_a_word_once_more(job_file: Path, word: tuple[str, ...]) -> None:
    plain, again = _restore(job_file, *word), _restore(job_file, *word, "--restore-again")

    assert (plain.word, plain.once_key, again.once_key) == ("start", None, None)
    assert again.word.startswith("again at 20")
    for right in SinkRight:
        assert right.key(again.word, "orders/table") != right.key(plain.word, "orders/table")


@pytest.mark.parametrize("flags", [("--restore-again",), ("--restore-nonce", "july")])
def test_a_name_for_no_wish_is_refused(job_file: Path, flags: tuple[str, ...]) -> None:
    with pytest.raises(errors.SpecRejectedError, match="needs --restore-uri") as raised:
        _restore(job_file, *flags)

    assert raised.value.reason == "RestoreMissing"
