"""Code outside of the image: which spec is taken, which code a spec stands for, what a pod gets, what is kept."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
import yaml
from jobspecs import a_spec
from pydantic import JsonValue, ValidationError
from statefulspark_operator.api import code as api
from statefulspark_operator.api import revision
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.situation import Job, Rejection
from statefulspark_operator.render import code as rendered
from statefulspark_operator.render import driver, executor
from statefulspark_operator.render.base import Manifest, Subject

SUM = "ab" * 32
FILES = {"flights.py": b"print(1)\n", "rules.py": b"LIMIT = 3\n"}
JOB = Job("demo", "flights", "uid-1", 1)
ZIP: dict[str, JsonValue] = {"s3": {"uri": "s3://code/flights.zip", "sha256": SUM}}


def from_config_map(file: str | None = None, **source: JsonValue) -> StatefulSparkJobSpec:
    """A spec whose code is in the ConfigMap `code`, executors included."""
    job: dict[str, JsonValue] = {"source": {"configMap": {"name": "code", **source}}}
    return a_spec(job=job if file is None else {**job, "file": file}, executor={"instances": 1})


@pytest.mark.parametrize(
    ("job", "why"),
    [
        pytest.param({}, "path of the job's Python file in the image", id="nothing"),
        pytest.param({"source": {}, "file": "a.py"}, "exactly one place", id="no place"),
        pytest.param({"source": {"configMap": {"name": "a", "key": "a.py"}, **ZIP}}, "exactly one", id="two places"),
        pytest.param({"source": {"configMap": {"name": "a"}}}, "says which of the files", id="a ConfigMap, no file"),
        pytest.param({"source": ZIP}, "says which of the files", id="a zip, no file"),
        pytest.param({"source": ZIP, "file": "/opt/job/a.py"}, "inside the code", id="a path of the image"),
        pytest.param({"source": ZIP, "file": "a/../../b.py"}, "inside the code", id="a path that leads out"),
        pytest.param(
            {"source": {"configMap": {"name": "a", "key": "a.py"}}, "file": "b.py"}, "no other file", id="another file"
        ),
        pytest.param(
            {"source": {"configMap": {"name": "a", "key": "a.zip"}}}, "put a zip at an s3", id="a zip as a key"
        ),
        pytest.param({"source": {"s3": {"uri": "s3://a/b", "sha256": SUM}}}, ".py or .zip", id="an object of no kind"),
        pytest.param(
            {"source": {"s3": {"uri": "file:///a.py", "sha256": SUM}}}, "s3:// address", id="a file on the node"
        ),
        pytest.param({"source": {"s3": {"uri": "s3://a/b.py", "sha256": "AB"}}}, "sha256", id="no checksum"),
        pytest.param({"source": {"s3": {"uri": "s3://a/b.py"}}}, "sha256", id="an object without a checksum"),
    ],
)
def test_code_that_cannot_be_is_refused_in_a_sentence(job: JsonValue, why: str) -> None:
    with pytest.raises(ValidationError, match=r".") as refused:
        a_spec(job=job)

    assert why in str(refused.value)


def test_a_spec_of_before_has_the_revision_of_before() -> None:
    assert revision.revision_of(a_spec()) == "38683d0cc2"


def test_the_checksum_of_a_key_is_what_sha256sum_prints_and_that_of_all_keys_is_of_its_lines() -> None:
    lines = "".join(f"{hashlib.sha256(FILES[name]).hexdigest()}  {name}\n" for name in ("flights.py", "rules.py"))

    assert api.checksum_of(FILES, "flights.py") == hashlib.sha256(FILES["flights.py"]).hexdigest()
    assert api.checksum_of(FILES, None) == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        pytest.param(from_config_map(key="flights.py"), ("flights.py",), id="a key: it alone"),
        pytest.param(from_config_map("flights.py"), ("flights.py", "rules.py"), id="no key: every file"),
        pytest.param(
            from_config_map(key="flights.py", sha256=hashlib.sha256(FILES["flights.py"]).hexdigest()),
            ("flights.py",),
            id="the content that is asked for",
        ),
    ],
)
def test_the_code_of_a_config_map_is_chosen(spec: StatefulSparkJobSpec, chosen: tuple[str, ...]) -> None:
    source = code.config_map_of(spec)
    assert source is not None

    found = code.choose(spec, source, FILES)

    assert isinstance(found, code.Chosen)
    assert tuple(found.files) == chosen


@pytest.mark.parametrize(
    ("spec", "files", "reason", "words"),
    [
        pytest.param(from_config_map("flights.py"), None, "CodeMissing", "ConfigMap code that", id="no ConfigMap"),
        pytest.param(
            from_config_map(key="other.py"),
            FILES,
            "CodeMissing",
            "flights.py, rules.py",
            id="no such key, what there is",
        ),
        pytest.param(from_config_map("a.py"), {}, "CodeMissing", "it has: none", id="an empty ConfigMap"),
        pytest.param(
            from_config_map(key="flights.py", sha256=SUM), FILES, "CodeChecksumMismatch", SUM, id="another content"
        ),
    ],
)
def test_code_that_is_not_there_is_a_reason(
    spec: StatefulSparkJobSpec, files: dict[str, bytes] | None, reason: str, words: str
) -> None:
    source = code.config_map_of(spec)
    assert source is not None

    found = code.choose(spec, source, files)

    assert isinstance(found, Rejection)
    assert (found.reason, words in found.message) == (reason, True)


def test_other_content_is_another_revision_and_the_same_content_the_same() -> None:
    spec = from_config_map("flights.py")

    first, second = (code.pin(spec, checksum * 32) for checksum in ("aa", "bb"))

    assert revision.revision_of(first) != revision.revision_of(second)
    assert revision.revision_of(first) == revision.revision_of(code.pin(spec, "aa" * 32))


def test_a_spec_that_says_which_content_it_wants_is_not_told_another() -> None:
    spec = from_config_map("flights.py", sha256=SUM)

    assert code.pin(spec, "cc" * 32) == spec


def test_text_and_bytes_of_a_config_map_are_files_alike() -> None:
    binary: Resource = {"b.py": base64.b64encode(b"\xff").decode()}

    assert resources.config_map_files({"data": {"a.py": "é"}, "binaryData": binary}) == {
        "a.py": "é".encode(),
        "b.py": b"\xff",
    }


def _container(manifest: Manifest) -> Resource:
    (found,) = resources.items(manifest, "spec", "containers")
    return found


@pytest.mark.parametrize("role", ["driver", "standby", "executor"])
def test_files_of_a_config_map_are_mounted_from_the_copy_of_their_revision(role: str) -> None:
    subject = Subject(JOB, from_config_map("flights.py"))

    pod = _pod(subject, role)

    volume = next(found for found in resources.items(pod, "spec", "volumes") if found["name"] == rendered.VOLUME)
    assert volume["configMap"] == {"name": "flights-code-r1"}
    container = _container(pod)
    assert {"name": "job-code", "mountPath": "/opt/job", "readOnly": True} in resources.items(container, "volumeMounts")
    assert {"name": "PYTHONPATH", "value": "/opt/job"} in resources.items(container, "env")
    assert "initContainers" not in resources.section(pod, "spec")


@pytest.mark.parametrize("role", ["driver", "standby", "executor"])
def test_an_object_is_fetched_before_anything_starts_from_what_is_kept_of_it(role: str) -> None:
    storage = {"uri": "s3://state/jobs", "s3": {"endpoint": "http://s3:9000", "credentialsSecretRef": {"name": "s3"}}}
    proxy: dict[str, JsonValue] = {"env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]}
    runners: dict[str, JsonValue] = {"driver": proxy, "executor": {"instances": 1, **proxy}}
    spec = a_spec(job={"source": ZIP, "file": "flights.py"}, storage=storage, **runners)

    pod = _pod(Subject(JOB, spec), role)

    (fetching,) = resources.items(pod, "spec", "initContainers")
    assert fetching["args"] == [
        *("statefulspark", "code", f"s3://state/jobs/demo/flights/code/{SUM}/flights.zip"),
        *("--sha256", SUM, "--into", "/opt/job", "--endpoint", "http://s3:9000"),
    ]
    variables = [variable["name"] for variable in resources.items(fetching, "env")]
    assert (variables[0], variables[-1]) == ("AWS_ACCESS_KEY_ID", "HTTPS_PROXY")
    assert resources.section(fetching, "securityContext")["readOnlyRootFilesystem"] is True


def test_workers_find_modules_beside_the_jobs_file_and_in_the_root_of_a_zip() -> None:
    spec = a_spec(job={"source": ZIP, "file": "app/main.py"})

    assert rendered.variables(spec) == [{"name": "PYTHONPATH", "value": "/opt/job/app:/opt/job"}]


def test_the_example_without_an_image_runs_the_example() -> None:
    folder = Path(__file__).resolve().parents[3] / "examples" / "quickstart"
    spec = StatefulSparkJobSpec.model_validate(yaml.safe_load((folder / "job.yaml").read_text())["spec"])
    source = code.config_map_of(spec)
    assert source is not None

    chosen = code.choose(spec, source, {"counter.py": (folder / "counter.py").read_bytes()})

    assert isinstance(chosen, code.Chosen)
    assert rendered.entry(spec) == "/opt/job/counter.py"


@pytest.mark.parametrize(
    ("spec", "entry"),
    [
        (a_spec(), "/j.py"),
        (from_config_map(key="flights.py"), "/opt/job/flights.py"),
        (a_spec(job={"source": ZIP, "file": "app/main.py"}), "/opt/job/app/main.py"),
        (a_spec(job={"source": {"s3": {"uri": "s3://c/a/flights.py", "sha256": SUM}}}), "/opt/job/flights.py"),
    ],
)
def test_the_driver_runs_the_file_where_it_is(spec: StatefulSparkJobSpec, entry: str) -> None:
    args = _container(driver.pod(Subject(JOB, spec), epoch=1, revision="r1"))["args"]

    assert isinstance(args, list)
    assert args[-1] == entry


def _pod(subject: Subject, role: str) -> Manifest:
    match role:
        case "driver":
            return driver.pod(subject, epoch=1, revision="r1")
        case "standby":
            return driver.standby_pod(subject, name="flights-standby-1", revision="r1")
        case _:
            return executor.template(subject, executor.Owner("flights-driver-1", "r1", 1))


def test_the_kept_code_never_changes_and_goes_with_its_revision() -> None:
    manifest = rendered.kept(Subject(JOB, from_config_map("flights.py")), revision="r1", files=FILES, owner_uid="uid-2")

    assert manifest["immutable"] is True
    assert resources.config_map_files(manifest) == FILES
    (owner,) = resources.items(manifest, "metadata", "ownerReferences")
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ControllerRevision", "flights-r1", "uid-2")


def test_a_driver_whose_code_could_not_be_fetched_says_why() -> None:
    report = '{"exitCode": 13, "reason": "CodeChecksumMismatch", "message": "it has another"}'
    failed: Resource = {"name": "code", "state": {"terminated": {"exitCode": 13, "message": report}}}
    waiting: Resource = {"name": "driver", "state": {"waiting": {"reason": "PodInitializing"}}}
    status: Resource = {"phase": "Failed", "initContainerStatuses": [failed], "containerStatuses": [waiting]}
    labels: Resource = {"statefulspark.io/epoch": "3", "statefulspark.io/revision": "r"}

    pod = pods.read_driver_pod({"metadata": {"name": "p", "uid": "u", "labels": labels}, "status": status})

    assert pod is not None
    assert pod.exit is not None
    assert pod.exit.report is not None
    assert (pod.exit.code, pod.exit.report.reason) == (13, "CodeChecksumMismatch")
