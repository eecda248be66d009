"""What the demo is told and what it tells: settings, the objects that it applies, the progress line, the report."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from demo import (
    cluster,
    failure,
    machine,
    observer,
    picture,
    preflight,
    progress,
    report,
    resources,
    settings,
    story,
    timeline,
)
from manifests import a_manifest
from oracle.compare import Comparison
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark_operator.api.spec import StatefulSparkJobSpec

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "flights"
FOREIGN = {
    "KUBECONFIG": "/home/me/.kube/config",
    "S3_ENDPOINT": "https://s3.example",
    "S3_BUCKET": "mine",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "JOB_IMAGE": "registry.example/flights:1",
    "OPERATOR_IMAGE": "registry.example/operator:1",
}
CONNECTION = cluster.Connection(
    kubeconfig=Path("kubeconfig"),
    kubectl_command=("kubectl",),
    s3_endpoint="http://127.0.0.1:7070",
    s3_pod_endpoint="http://s3:7070",
    bucket="bucket",
    folder="run-1",
    access_key="key",
    secret_key="secret",
    region="us-east-1",
)


def test_without_a_kubeconfig_the_demo_uses_a_cluster_of_its_own() -> None:
    chosen = settings.parse([], {})

    assert chosen.foreign is None
    assert chosen.keep is False
    assert chosen.job_image == "localhost/statefulspark-flights:dev"


@pytest.mark.parametrize(("value", "keep"), [("1", True), ("0", False), ("", False)])
def test_keep_is_taken_from_the_environment(value: str, *, keep: bool) -> None:
    assert settings.parse([], {"KEEP": value}).keep is keep


def test_executors_are_asked_for_by_the_environment_and_are_in_the_resource() -> None:
    chosen = settings.parse([], {"DEMO_EXECUTORS": "2"})

    *_, job = resources.fill_in(resources.load(EXAMPLE), CONNECTION, chosen)

    spec = StatefulSparkJobSpec.model_validate(job["spec"])
    assert (spec.executor.instances, spec.executor.memory) == (2, "512m")


@pytest.mark.parametrize("given", ["two", "-1", "1.5"])
def test_a_number_of_executors_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(failure.DemoFailedError, match="must be a number of pods"):
        settings.parse([], {"DEMO_EXECUTORS": given})


@pytest.mark.parametrize(
    ("executors", "available_gib", "is_room"),
    [
        pytest.param(0, 1.0, True, id="none are asked for"),
        pytest.param(2, 14.0, True, id="a driver, its standby and the executors of both fit"),
        pytest.param(2, 13.9, False, id="they do not fit"),
        pytest.param(2, None, True, id="nobody knows"),
    ],
)
def test_executors_that_do_not_fit_are_refused_before_anything_starts(
    executors: int, available_gib: float | None, *, is_room: bool
) -> None:
    said = preflight.no_room(executors, available_gib)

    assert (said == []) is is_room
    assert all("DEMO_EXECUTORS=2 needs 14 GiB" in sentence for sentence in said)


def test_the_memory_that_is_available_is_read_where_there_is_any(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       24 kB\nMemAvailable:    6291456 kB\n")
    (tmp_path / "old").write_text("MemTotal:       24 kB\n")

    assert [machine.available_gib(tmp_path / name) for name in ("meminfo", "old", "nowhere")] == [6.0, None, None]


def test_a_cluster_of_the_readers_own_is_described_by_the_environment() -> None:
    chosen = settings.parse(["--namespace", "demo"], FOREIGN)

    assert chosen.foreign is not None
    assert chosen.foreign.s3_pod_endpoint == "https://s3.example"
    assert (chosen.namespace, chosen.job_image) == ("demo", "registry.example/flights:1")


def test_everything_that_is_missing_for_the_readers_own_cluster_is_named_at_once() -> None:
    given = {name: value for name, value in FOREIGN.items() if name not in ("S3_BUCKET", "JOB_IMAGE")}

    with pytest.raises(failure.DemoFailedError) as failed:
        settings.parse([], given)

    assert "S3_BUCKET: an existing bucket" in failed.value.message
    assert "JOB_IMAGE" in failed.value.message
    assert "S3_ENDPOINT" not in failed.value.message


def test_a_kubeconfig_that_does_not_exist_is_named_before_anything_starts() -> None:
    with pytest.raises(failure.DemoFailedError, match="config, which does not exist"):
        preflight.check(settings.parse([], FOREIGN))


def test_the_clusters_own_shell_lines_are_understood() -> None:
    lines = (
        "export KUBECONFIG=/a/kubeconfig\nexport S3_ENDPOINT=http://127.0.0.1:1\nexport S3_POD_ENDPOINT='http://s3:2'\n"
        "export AWS_ACCESS_KEY_ID=k\nexport AWS_SECRET_ACCESS_KEY=s\nexport AWS_REGION=r\n"
    )

    assert cluster.parse_environment(lines)["S3_POD_ENDPOINT"] == "http://s3:2"
    with pytest.raises(failure.DemoFailedError, match="does not name S3_ENDPOINT"):
        cluster.parse_environment(lines.replace("S3_ENDPOINT", "OTHER"))


def test_the_example_is_applied_with_this_clusters_addresses() -> None:
    chosen = settings.parse(["--namespace", "demo", "--files-per-batch", "9"], {})
    namespace, secret, job = resources.fill_in(resources.load(EXAMPLE), CONNECTION, chosen)

    assert namespace["metadata"] == {"name": "demo"}
    assert secret["stringData"] == {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    spec = StatefulSparkJobSpec.model_validate(job["spec"])
    assert spec.storage.uri == "s3://bucket/run-1/state"
    assert spec.storage.endpoint == "http://s3:7070"
    assert spec.job.parameters == {
        "input": "s3a://bucket/run-1/input",
        "output": "s3://bucket/run-1/output",
        "files_per_batch": "9",
        "trigger": "2 seconds",
    }


@pytest.mark.parametrize(
    ("arguments", "executors", "files"),
    [
        pytest.param([], "0", 4, id="in the driver"),
        pytest.param([], "2", 2, id="executors take longer to be ready for version 2"),
        pytest.param(["--files-per-batch", "9"], "2", 9, id="as told"),
    ],
)
def test_the_input_lasts_until_version_2_is_ready(arguments: list[str], executors: str, files: int) -> None:
    assert settings.parse(arguments, {"DEMO_EXECUTORS": executors}).files_per_batch == files


def test_the_example_as_it_is_written_is_a_valid_resource_with_no_unknown_field() -> None:
    *_, job = resources.load(EXAMPLE)
    spec = StatefulSparkJobSpec.model_validate(job["spec"])

    written = json.loads(spec.model_dump_json(by_alias=True, exclude_unset=True))
    assert written == job["spec"]


def test_version_2_of_the_job_is_the_file_beside_version_1() -> None:
    changed = resources.change_to_version_2()

    assert changed == {"spec": {"job": {"file": "/opt/job/flights_v2.py"}}}
    for change in (changed, resources.break_job()):
        name = Path(change["spec"]["job"]["file"]).name  # type: ignore[index]
        assert (EXAMPLE / name).exists()
        assert name in (EXAMPLE / "Dockerfile").read_text("utf-8")


def test_the_progress_line_says_where_the_job_is() -> None:
    state = replace(story.begin(1000, START), stage=story.Stage.STREAMING)
    at = START + timedelta(seconds=83)
    commits = [timeline.CommitPoint(at, "aircraft", 4, 1, 250), timeline.CommitPoint(at, "carriers", 3, 1, 16)]
    look = observer.Look(story.Seen(at, flights=250, epoch=1), observer.JobView(phase="Running"), ())

    text = progress.line(state, look, started_at=START, commits=commits, last_snapshot=7)

    assert text == (
        "01:23  Running     ██████░░░░░░░░░░░░░░░░░░     250 of 1,000      25/s  batches 4+3  snapshot 7  epoch 1  streaming"
    )


def an_outcome(comparison: Comparison) -> report.Outcome:
    def commit(second: float, epoch: int, batch: int) -> timeline.CommitPoint:
        return timeline.CommitPoint(START + timedelta(seconds=second), "aircraft", batch, epoch, 100)

    def mark(second: float, kind: timeline.MarkKind) -> timeline.Mark:
        return timeline.Mark(START + timedelta(seconds=second), kind, kind.value)

    history = timeline.Timeline(
        commits=(
            commit(5, 1, 0),
            commit(9, 1, 1),
            commit(22, 2, 2),
            commit(23, 2, 3),
            commit(26, 3, 4),
            commit(28, 3, 5),
            commit(30, 3, 6),
            commit(32, 4, 7),
            commit(41, 5, 8),
        ),
        marks=(
            mark(0, timeline.MarkKind.APPLIED),
            mark(10, timeline.MarkKind.KILLED),
            mark(24, timeline.MarkKind.KILLED_GUARDED),
            mark(27, timeline.MarkKind.BROKEN),
            mark(29, timeline.MarkKind.BLOCKED),
            mark(31, timeline.MarkKind.CHANGED),
            mark(33, timeline.MarkKind.CHANGED_COLD),
        ),
    )
    return report.Outcome(
        flights=500,
        comparison=comparison,
        history=history,
        snapshots={
            1: a_cut_at(1, SnapshotKind.CHECKPOINT, epoch=1, second=6),
            2: a_cut_at(2, SnapshotKind.CHECKPOINT, epoch=2, second=25, restored_from="checkpoint 1"),
            3: a_cut_at(3, SnapshotKind.SAVEPOINT, epoch=2, second=32, restored_from="checkpoint 2"),
        },
        started_at=START,
        finished_at=START + timedelta(seconds=42),
        machine={"cpus": "2", "memory": "8 GiB"},
    )


def a_cut_at(number: int, kind: SnapshotKind, *, epoch: int, second: int, restored_from: str | None = None) -> Manifest:
    at = START + timedelta(seconds=second)
    return a_manifest(number, kind=kind, namespace="flights", epoch=epoch, now=at, restored_from=restored_from)


EXACT = Comparison(lost=0, repeated=0, different=0, keys=516, fields=3000, rows_by_version={1: 3, 2: 2})


def test_the_report_has_every_promised_figure() -> None:
    built = report.build(an_outcome(EXACT))

    promised = (
        "flights",
        "lost",
        "repeated",
        "different",
        "recovery_s",
        "standby_recovery_s",
        "upgrade_pause_s",
        "cold_upgrade_pause_s",
        "bad_upgrade_downtime_s",
        "checkpoints",
        "savepoints",
    )
    assert {name: built[name] for name in promised} == {
        "flights": 500,
        "lost": 0,
        "repeated": 0,
        "different": 0,
        "recovery_s": 13.0,
        "standby_recovery_s": 3.0,
        "upgrade_pause_s": 2.0,
        "cold_upgrade_pause_s": 9.0,
        "bad_upgrade_downtime_s": 0.0,
        "checkpoints": 2,
        "savepoints": 1,
    }
    assert built["restored_from"] == "checkpoint 2"
    assert json.loads(json.dumps(built)) == built


@pytest.mark.parametrize(
    "found",
    [replace(EXACT, lost=1), replace(EXACT, repeated=1), replace(EXACT, different=1)],
    ids=["one row lost", "one row repeated", "one row different"],
)
def test_one_fault_makes_the_outcome_bad(found: Comparison) -> None:
    outcome = an_outcome(found)

    assert not outcome.is_good
    assert "The results are WRONG" in report.sentences(outcome)[0]


def test_an_outcome_without_a_kill_is_not_good_either() -> None:
    outcome = an_outcome(EXACT)

    assert outcome.is_good
    assert not replace(outcome, history=replace(outcome.history, marks=())).is_good


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "throughput.png"
    picture.draw(an_outcome(EXACT), target)

    assert target.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
