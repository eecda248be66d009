"""What templates give to pods that run: their own keys change, and nothing that others have written."""

from __future__ import annotations

import pytest
from executorcases import BOTH, an_executor, with_executors
from jobspecs import a_spec
from pydantic import JsonValue
from situations import LATER, NOW, a_driver, a_job, a_pod, a_standby_pod
from statefulspark_operator.api import names, pod_metadata, revision
from statefulspark_operator.api.pod_metadata import PodMetadata
from statefulspark_operator.api.spec import PodTemplate
from statefulspark_operator.lifecycle import actions, decide
from statefulspark_operator.lifecycle.rules import progress
from statefulspark_operator.lifecycle.situation import ExecutorPod, PodPhase, Rejection, Situation


def a_template(**metadata: JsonValue) -> PodTemplate:
    return PodTemplate(metadata=metadata)


def a_described_pod(*templates: PodTemplate, **others: dict[str, str]) -> dict[str, JsonValue]:
    """The metadata of a pod as templates made it, and what others have written since."""
    given = pod_metadata.given(templates)
    annotations = given.annotations | ({names.ANNOTATION_TEMPLATE: given.record} if given.record else {})
    return {
        "labels": {**given.labels, **others.get("labels", {})},
        "annotations": {**annotations, **others.get("annotations", {})},
    }


def test_a_template_of_one_kind_of_pods_comes_over_that_of_all() -> None:
    common = a_template(labels={"team": "data", "tier": "gold", "site": "a"}, annotations={"note": "x"})

    given = pod_metadata.given((common, None, a_template(labels={"tier": "silver", "site": None})))

    assert given == PodMetadata(labels={"team": "data", "tier": "silver"}, annotations={"note": "x"})


@pytest.mark.parametrize(
    "key",
    [
        names.LABEL_EPOCH,
        names.LABEL_JOB,
        names.LABEL_COMPONENT,
        names.LABEL_VERSION,
        "app.kubernetes.io/name",
        "statefulspark.io/anything",
        "spark-role",
        "spark-app-selector",
    ],
)
def test_labels_that_the_operator_or_spark_set_are_no_part_of_it(key: str) -> None:
    assert pod_metadata.given((a_template(labels={key: "mine"}),)) == PodMetadata()


def test_annotations_of_the_operator_are_no_part_of_it() -> None:
    assert pod_metadata.given((a_template(annotations={names.ANNOTATION_API_TLS: "mine"}),)).record == ""


def test_what_is_new_is_set_and_what_is_gone_is_removed() -> None:
    pod = a_described_pod(a_template(labels={"team": "data", "tier": "gold"}, annotations={"note": "x"}))
    now = pod_metadata.given((a_template(labels={"team": "ml", "tier": "gold"}, annotations={"to": "y"}),))

    labels, annotations = pod_metadata.changes(pod, now)

    assert labels == {"team": "ml"}
    assert annotations == {"to": "y", "note": None, names.ANNOTATION_TEMPLATE: now.record}


def test_without_metadata_the_record_goes_too() -> None:
    pod = a_described_pod(a_template(labels={"team": "data"}))

    assert pod_metadata.changes(pod, PodMetadata()) == ({"team": None}, {names.ANNOTATION_TEMPLATE: None})


def test_what_leaves_the_template_of_a_job_is_again_what_the_installation_gives() -> None:
    pod = a_described_pod(a_template(labels={"team": "data", "tier": "gold"}))

    labels, _ = pod_metadata.changes(pod, PodMetadata(), PodMetadata(labels={"team": "nobody", "site": "a"}))

    assert labels == {"team": "nobody", "tier": None}


def test_what_others_have_written_or_replaced_stays() -> None:
    template = a_template(labels={"team": "data", "tier": "gold"})
    pod = a_described_pod(template, labels={"team": "theirs", "mesh": "on"}, annotations={"seen": "1"})
    now = pod_metadata.given((a_template(labels={"tier": "silver"}),))

    labels, annotations = pod_metadata.changes(pod, now)

    assert labels == {"tier": "silver"}
    assert set(annotations) == {names.ANNOTATION_TEMPLATE}


def test_a_record_that_somebody_has_written_over_removes_nothing() -> None:
    pod = a_described_pod(a_template(labels={"team": "data"}), annotations={names.ANNOTATION_TEMPLATE: "no json"})

    labels, _ = pod_metadata.changes(pod, PodMetadata())

    assert labels == {}


@pytest.mark.parametrize(
    ("field", "metadata", "named"),
    [
        ("podTemplate", {"labels": {"team": "a b"}}, "no value of a label"),
        ("podTemplate", {"labels": {"a b": "team"}}, "is no key"),
        ("podTemplate", {"labels": {"Bad_Prefix/team": "x"}}, "is no key"),
        ("podTemplate", {"labels": {"version": 2}}, "put it in quotes"),
        ("podTemplate", {"labels": ["team"]}, "has to be an object"),
        ("podTemplate", {"annotations": {"a/b/c": "x"}}, "is no key"),
        ("podTemplate", {"annotations": {"note": "x" * (pod_metadata.MOST_BYTES + 1)}}, "at most 100 KiB"),
    ],
)
def test_what_kubernetes_refuses_is_named_before_a_pod_is_touched(
    field: str, metadata: dict[str, JsonValue], named: str
) -> None:
    refused = pod_metadata.problem(a_spec(**{field: {"metadata": metadata}}))

    assert refused is not None
    assert refused.startswith(f"{field}.metadata.")
    assert named in refused


@pytest.mark.parametrize(
    ("common", "own"),
    [
        pytest.param("x" * 70_000, "x" * 70_000, id="of both templates together"),
        pytest.param('"' * 90_000, "", id="with the record, in which a quote is two characters"),
    ],
)
def test_annotations_that_no_pod_has_room_for_are_named_before_a_pod_is_touched(common: str, own: str) -> None:
    """A change of them makes no new revision, so nothing else tries the pods."""
    spec = a_spec(
        pod_template=a_template(annotations={"a": common}), driver={"pod_template": a_template(annotations={"b": own})}
    )

    assert "podTemplate and spec.driver.podTemplate have too many annotations" in (pod_metadata.problem(spec) or "")


def test_the_field_with_the_mistake_is_named() -> None:
    good, bad = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "-"}}}

    refused = pod_metadata.problem(a_spec(driver={"podTemplate": good}, executor={"instances": 1, "podTemplate": bad}))

    assert refused is not None
    assert refused.startswith("executor.podTemplate.metadata.labels: '-'")


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {"team": "", "example.com/team": "Data_1.x", "gone": None}},
        {"annotations": {"Example.com/note": "any text: {}", "n": None}, "labels": None},
    ],
)
def test_what_kubernetes_takes_is_no_problem(metadata: dict[str, JsonValue]) -> None:
    assert pod_metadata.problem(a_spec(podTemplate={"metadata": metadata})) is None


def test_a_revision_that_runs_gets_the_metadata_of_a_template_that_it_did_not_have() -> None:
    running = a_spec()
    current = a_spec(image="i:2", driver={"podTemplate": {"metadata": {"labels": {"team": "data"}}}})

    merged = revision.running_spec(current, running)
    back = revision.running_spec(running, merged)

    assert (merged.image, merged.driver.pod_template) == ("i:1", current.driver.pod_template)
    assert back.driver.pod_template is None


def test_a_revision_that_runs_does_not_get_the_pod_of_such_a_template() -> None:
    current = a_spec(driver={"podTemplate": {"spec": {"nodeSelector": {"pool": "a"}}}})

    assert revision.running_spec(current, a_spec()).driver.pod_template is None


TEAM = {"metadata": {"labels": {"team": "data"}}}
SPEC = a_spec(podTemplate=TEAM, executor={"instances": 2})
GIVEN = pod_metadata.given((SPEC.pod_template,))
REVISION = revision.revision_of(SPEC)


def a_labelled_job(*executors: ExecutorPod, described: str = "", **changes: object) -> Situation:
    """A job that runs, whose template says something that its pods may not have yet."""
    pod = a_pod(revision=REVISION, asked_executors=2, described=described)
    base: dict[str, object] = {"spec": SPEC, "driver": a_driver(revision=REVISION), "pods": (pod,)}
    return with_executors(*executors, **(base | changes))


DRIVER = actions.PodReference("flights-driver-1", "uid-1")
EXECUTORS = tuple(actions.PodReference(pod.name, pod.uid) for pod in BOTH)
REJECTED = Rejection("SpecInvalid", "no")
DECISIONS: dict[str, tuple[Situation, tuple[actions.Action, ...]]] = {
    "the driver has nothing of it": (a_labelled_job(), (actions.DescribePods((DRIVER,), GIVEN),)),
    "nor have its executors": (
        a_labelled_job(*BOTH),
        (actions.DescribePods((DRIVER,), GIVEN), actions.DescribePods(EXECUTORS, GIVEN, are_executors=True)),
    ),
    "an executor that started since has nothing of it": (
        a_labelled_job(an_executor(1, described=GIVEN.record), an_executor(2), described=GIVEN.record),
        (actions.DescribePods(EXECUTORS[1:], GIVEN, are_executors=True),),
    ),
    "all have it": (a_labelled_job(an_executor(1, described=GIVEN.record), described=GIVEN.record), ()),
    "an executor leaves, one has ended, and one is another driver's": (
        a_labelled_job(
            an_executor(1, is_leaving=True),
            an_executor(2, phase=PodPhase.FAILED),
            an_executor(3, "flights-standby-s1"),
            described=GIVEN.record,
            standbys=(a_standby_pod(),),
        ),
        (),
    ),
    "the pod is of another revision": (
        a_labelled_job(pods=(a_pod(asked_executors=2, revision="before"),), driver=a_driver(revision="before")),
        (),
    ),
    "the pod is being deleted": (a_labelled_job(pods=(a_pod(revision=REVISION, deletion_deadline=LATER),)), ()),
    "the spec is refused": (a_labelled_job(rejection=REJECTED), ()),
    "the job is deleted": (a_labelled_job(job=a_job(deletion_requested_at=NOW)), ()),
}


@pytest.mark.parametrize(("situation", "expected"), DECISIONS.values(), ids=DECISIONS)
def test_pods_that_run_get_what_their_template_says(situation: Situation, expected: tuple[actions.Action, ...]) -> None:
    decision = decide.decide(situation)

    assert tuple(act for act in decision.actions if isinstance(act, actions.DescribePods)) == expected


def test_of_many_executors_some_get_it_in_each_pass() -> None:
    many = [an_executor(number) for number in range(1, 90)]

    (described,) = decide.decide(a_labelled_job(*many, described=GIVEN.record)).actions

    assert isinstance(described, actions.DescribePods)
    assert len(described.pods) == progress.DESCRIBED_AT_ONCE
