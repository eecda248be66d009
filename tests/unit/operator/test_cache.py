"""Copies of what the watches show: the newest stays, what is gone stays gone, and what the operator wrote is no news."""

from __future__ import annotations

import pytest
from statefulspark_operator.api import names
from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from watchedobjects import KEY, a_shown_object


def shown_pod(version: int | str, name: str = "flights-driver-1", uid: str | None = None) -> Resource:
    return a_shown_object(resources.POD, name, version, uid, spec={"nodeName": "node-1"})


def versions(copies: cache.Cache) -> dict[str, str]:
    return {resources.text(pod, "metadata", "name"): cache.version_of(pod) for pod in copies.pods(KEY)}


@pytest.mark.parametrize(
    ("shown", "kept"),
    [
        pytest.param((1, 2), "2", id="a newer version replaces"),
        pytest.param((2, 1), "2", id="an older one changes nothing"),
        pytest.param((9, 10), "10", id="versions are numbers, not text"),
        pytest.param(("b", "a"), "a", id="what is no number is news"),
    ],
)
def test_the_newest_version_stays(shown: tuple[int | str, ...], kept: str) -> None:
    copies = cache.Cache()
    for version in shown:
        copies.update(shown_pod(version))

    assert versions(copies) == {"flights-driver-1": kept}


def test_what_is_gone_does_not_come_back_with_an_answer_that_was_on_its_way() -> None:
    copies = cache.Cache()
    copies.update(shown_pod(1, uid="first"))
    copies.remove(shown_pod(3, uid="first"))

    copies.update_written(shown_pod(2, uid="first"))
    assert versions(copies) == {}

    copies.update(shown_pod(4, uid="second"))
    copies.remove(shown_pod(3, uid="first"))
    assert versions(copies) == {"flights-driver-1": "4"}


def test_what_the_operator_wrote_is_no_news_and_what_others_wrote_after_it_is() -> None:
    copies = cache.Cache()
    copies.update_written(shown_pod(5))

    assert copies.is_own_write(shown_pod(5))
    assert not copies.is_own_write(shown_pod(6))
    assert not copies.is_own_write(shown_pod(5, uid="another"))


def test_a_listing_drops_what_it_does_not_name_and_keeps_what_came_meanwhile() -> None:
    copies = cache.Cache()
    copies.update(shown_pod(1, "gone"))
    copies.update(shown_pod(2, "stays"))
    before = copies.pod_entries(KEY)
    copies.update(shown_pod(4, "came"))

    copies.replace((shown_pod(3, "stays"),), before)

    assert versions(copies) == {"stays": "3", "came": "4"}


def test_a_job_that_a_live_read_does_not_find_is_dropped() -> None:
    copies = cache.Cache()
    copies.update(a_shown_object(resources.JOB, "flights", 1))

    copies.update_read(resources.JOB, "demo", "flights", None)

    assert copies.get(resources.JOB, "demo", "flights") is None


def test_what_no_decision_reads_is_not_kept() -> None:
    pod = shown_pod(1)
    annotations: Resource = {"kubectl.kubernetes.io/last-applied-configuration": "{}", names.ANNOTATION_API_PORT: "1"}
    resources.section(pod, "metadata").update({"managedFields": [{"manager": "x"}], "annotations": annotations})
    resources.section(pod, "spec")["containers"] = [{"name": "driver"}]

    slimmed = cache.slim(pod)

    assert slimmed["spec"] == {"nodeName": "node-1"}
    assert "managedFields" not in resources.section(slimmed, "metadata")
    assert resources.section(slimmed, "metadata", "annotations") == {names.ANNOTATION_API_PORT: "1"}


def test_a_reader_finds_everything_else_as_it_was_shown() -> None:
    spec: Resource = {"parallelism": 4, "fraction": 0.5, "suspend": False, "text": 'flüge "und" Züge \n', "none": None}
    status: Resource = {"conditions": [{"type": "Ready", "status": "True"}], "empty": {}, "list": [], "large": 2**53}
    job = a_shown_object(resources.JOB, "flights", 7, spec=spec, status=status)
    copies = cache.Cache()

    copies.update(job)

    assert copies.get(resources.JOB, "demo", "flights") == job
    assert [copy.read() for copy in copies.entries(resources.JOB, "demo")] == [job]


def test_what_a_reader_changes_nobody_else_sees() -> None:
    copies = cache.Cache()
    copies.update(shown_pod(1))

    resources.section(copies.pods(KEY)[0], "spec")["nodeName"] = "another"

    assert resources.text(copies.pods(KEY)[0], "spec", "nodeName") == "node-1"


def test_jobs_that_come_and_go_leave_only_their_identities_which_are_limited() -> None:
    copies = cache.Cache()
    for number in range(10):
        pod = a_shown_object(resources.POD, f"pod-{number}", 1, job=f"job-{number}")
        copies.update_written(pod)
        copies.remove(pod)

    assert (copies._groups, copies._own_versions) == ({}, {})


@pytest.mark.parametrize(
    ("resource", "job"),
    [
        pytest.param(a_shown_object(resources.JOB, "trains", 1), "trains", id="a job is its own"),
        pytest.param(shown_pod(1), "flights", id="a pod belongs to that of its label"),
        pytest.param(
            a_shown_object(resources.SAVEPOINT, "s", 1, spec={"jobName": "trains"}),
            "trains",
            id="a savepoint names one",
        ),
        pytest.param(
            a_shown_object(resources.SAVEPOINT, "s", 1, spec={}), None, id="a savepoint without one wakes nobody"
        ),
    ],
)
def test_events_wake_the_job_that_they_are_about(resource: Resource, job: str | None) -> None:
    assert cache.job_of(resource) == (JobKey("demo", job) if job else None)
