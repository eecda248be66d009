"""One suite for the gateway port, over the cluster in memory and over a real API server.

What the operator relies on is tested here and nothing else, so that the fake may be believed in every other test.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from apiserver import ApiServer
from fakecluster import FakeGateway
from statefulspark import errors
from statefulspark_operator.api import names
from statefulspark_operator.cluster import kubernetes_gateway, resources
from statefulspark_operator.cluster.gateway import EventNote, Gateway, JobKey
from statefulspark_operator.cluster.kubernetes_gateway import KubernetesGateway
from statefulspark_operator.cluster.resources import Resource

Result = TypeVar("Result")

SPEC: Resource = {"image": "i:1", "job": {"file": "/j.py"}, "storage": {"uri": "s3://state/jobs"}}


class Subject:
    """A gateway under test, in a namespace of its own, with what only an administrator can do beside it."""

    def __init__(self, namespace: str, server: ApiServer | None) -> None:
        self.namespace = namespace
        self._server = server
        self._fake = FakeGateway(lambda: datetime.now(UTC))

    def __call__(self, work: Callable[[Gateway], Coroutine[Any, Any, Result]]) -> Result:
        return asyncio.run(self._with_gateway(work))

    async def _with_gateway(self, work: Callable[[Gateway], Coroutine[Any, Any, Result]]) -> Result:
        if self._server is None:
            return await work(self._fake)
        gateway = await KubernetesGateway.connect(self._server.kubeconfig)
        try:
            return await work(gateway)
        finally:
            await gateway.close()

    def a_job(self, **metadata: object) -> Resource:
        """Create a job and return it as it is read."""
        job = self.manifest(resources.JOB, "flights", spec=SPEC)
        resources.section(job, "metadata").update(metadata)  # type: ignore[arg-type]
        if self._server is None:
            self._fake.add(job)
        else:
            self._server.apply(job)
        return self.read(resources.JOB, "flights")

    def read(self, kind: resources.Kind, name: str) -> Resource:
        found = self(lambda gateway: gateway.get(kind, self.namespace, name))
        assert found is not None
        return found

    def change(self, kind: resources.Kind, name: str, change: Resource) -> None:
        """Change an object as somebody else does."""
        if self._server is None:
            stored = self._fake.objects[(kind.name, self.namespace, name)]
            stored.update(change)
            self._fake.show(stored)
        else:
            patch = ("patch", kind.plural, name, "--type=merge", "-p", json.dumps(change))
            self._server.call("-n", self.namespace, *patch)

    def delete_job(self) -> None:
        if self._server is None:
            self._fake.remove(("StatefulSparkJob", self.namespace, "flights"))
        else:
            self._server.call("-n", self.namespace, "delete", "ssj", "flights", "--wait=false")

    def manifest(self, kind: resources.Kind, name: str, **content: object) -> Resource:
        meta: Resource = {"name": name, "namespace": self.namespace}
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **content}  # type: ignore[dict-item]

    @property
    def key(self) -> JobKey:
        return JobKey(self.namespace, "flights")


@pytest.fixture(params=[pytest.param("memory"), pytest.param("api", marks=pytest.mark.api)])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "memory":
        return Subject("demo", None)
    server: ApiServer = request.getfixturevalue("api_server")
    return Subject(request.getfixturevalue("namespace"), server)


def finalizers(*held: str) -> Resource:
    return {"metadata": {"finalizers": list(held)}}


def version(found: Resource) -> str:
    return resources.text(found, "metadata", "resourceVersion")


def test_what_does_not_exist_is_none(subject: Subject) -> None:
    assert subject(lambda gateway: gateway.get(resources.JOB, subject.namespace, "absent")) is None
    assert subject(lambda gateway: gateway.read_secret(subject.namespace, "absent")) is None


def test_a_second_create_changes_nothing_and_says_so(subject: Subject) -> None:
    first = subject.manifest(resources.CONFIG_MAP, "config", data={"a": "1"})
    second = subject.manifest(resources.CONFIG_MAP, "config", data={"a": "2"})

    assert subject(lambda gateway: gateway.create(first)) is True
    assert subject(lambda gateway: gateway.create(second)) is False
    assert subject.read(resources.CONFIG_MAP, "config")["data"] == {"a": "1"}


def test_apply_creates_and_then_changes(subject: Subject) -> None:
    for value in ("1", "2"):
        manifest = subject.manifest(resources.CONFIG_MAP, "config", data={"a": value})
        subject(lambda gateway, manifest=manifest: gateway.apply(manifest))

    assert subject.read(resources.CONFIG_MAP, "config")["data"] == {"a": "2"}


def test_apply_removes_what_it_no_longer_names(subject: Subject) -> None:
    subject(lambda gateway: gateway.apply(subject.manifest(resources.CONFIG_MAP, "c", data={"a": "1", "b": "1"})))
    subject(lambda gateway: gateway.apply(subject.manifest(resources.CONFIG_MAP, "c", data={"a": "1"})))

    assert subject.read(resources.CONFIG_MAP, "c")["data"] == {"a": "1"}


def test_a_replacement_for_an_old_version_is_refused(subject: Subject) -> None:
    lease = subject.manifest(resources.LEASE, "operator", spec={"holderIdentity": "a", "leaseDurationSeconds": 10})
    subject(lambda gateway: gateway.create(lease))
    first = subject.read(resources.LEASE, "operator")
    kind: Resource = {"apiVersion": resources.LEASE.api_version, "kind": resources.LEASE.name}
    taken: Resource = {**first, **kind, "spec": {**resources.section(first, "spec"), "holderIdentity": "b"}}

    replaced = subject(lambda gateway: gateway.replace(taken))

    assert version(replaced) == version(subject.read(resources.LEASE, "operator")) != version(first)
    assert resources.text(replaced, "spec", "holderIdentity") == "b"
    with pytest.raises(errors.PreconditionFailedError):
        subject(lambda gateway: gateway.replace(taken))


def test_fields_of_others_are_changed_for_a_known_version_only(subject: Subject) -> None:
    subject(lambda gateway: gateway.create(subject.manifest(resources.CONFIG_MAP, "c", data={"a": "theirs"})))
    subject.change(resources.CONFIG_MAP, "c", {"data": {"a": "theirs, too"}})
    old = version(subject.read(resources.CONFIG_MAP, "c"))
    subject.change(resources.CONFIG_MAP, "c", {"data": {"a": "theirs now"}})
    ours = subject.manifest(resources.CONFIG_MAP, "c", data={"a": "ours"})

    for refused in (None, old):
        with pytest.raises(errors.PreconditionFailedError):
            subject(lambda gateway, refused=refused: gateway.apply(ours, resource_version=refused))
    assert subject.read(resources.CONFIG_MAP, "c")["data"] == {"a": "theirs now"}

    known = version(subject.read(resources.CONFIG_MAP, "c"))
    subject(lambda gateway: gateway.apply(ours, resource_version=known))
    assert subject.read(resources.CONFIG_MAP, "c")["data"] == {"a": "ours"}


@pytest.mark.api
def test_every_write_names_the_operator_as_its_manager(api_server: ApiServer, namespace: str) -> None:
    subject = Subject(namespace, api_server)
    job = subject.a_job()
    held = ("statefulspark.io/take-savepoint",)
    patched = subject(lambda gateway: gateway.patch_status(subject.key, {"epoch": 1}, resource_version=version(job)))
    subject(lambda gateway: gateway.patch(subject.key, finalizers(*held), resource_version=patched))
    subject(lambda gateway: gateway.apply(subject.manifest(resources.CONFIG_MAP, "applied", data={"a": "1"})))
    uid = resources.text(a_created_pod(subject, "one", role="standby"), "metadata", "uid")
    subject(lambda gateway: gateway.label_pod(namespace, "one", {"role": "driver"}, uid=uid))

    def managers(kind: resources.Kind, name: str) -> set[str]:
        fields = resources.items(subject.read(kind, name), "metadata", "managedFields")
        return {resources.text(entry, "manager") for entry in fields} - {"kubectl-client-side-apply"}

    assert managers(resources.JOB, "flights") == {names.FIELD_MANAGER}
    assert managers(resources.CONFIG_MAP, "applied") == {names.FIELD_MANAGER}
    assert managers(resources.POD, "one") == {names.FIELD_MANAGER}


def test_a_secret_is_read_decoded(subject: Subject) -> None:
    subject(lambda gateway: gateway.create(subject.manifest(resources.SECRET, "token", stringData={"token": "t/=ü"})))

    assert subject(lambda gateway: gateway.read_secret(subject.namespace, "token")) == {"token": "t/=ü"}


def test_a_value_that_is_no_text_hides_no_other_value_of_its_secret(subject: Subject) -> None:
    """With `keystores`, cert-manager writes `keystore.jks` beside `ca.crt`."""
    kept = {"ca.crt": base64.b64encode(b"PEM").decode(), "keystore.jks": base64.b64encode(b"\xfe\xed\xfe\xed").decode()}
    subject(lambda gateway: gateway.create(subject.manifest(resources.SECRET, "tls", data=kept)))

    assert subject(lambda gateway: gateway.read_secret(subject.namespace, "tls")) == {"ca.crt": "PEM"}


def test_pods_are_listed_by_label(subject: Subject) -> None:
    for name, label in (("one", "a"), ("two", "b")):
        pod = subject.manifest(resources.POD, name, spec={"containers": [{"name": "c", "image": "i"}]})
        resources.section(pod, "metadata")["labels"] = {"job": label, "role": "driver"}
        subject(lambda gateway, pod=pod: gateway.create(pod))

    found = subject(lambda gateway: gateway.list_pods(subject.namespace, "job=b,role=driver"))

    assert [resources.text(pod, "metadata", "name") for pod in found] == ["two"]


def a_created_pod(subject: Subject, name: str, **labels: str) -> Resource:
    pod = subject.manifest(resources.POD, name, spec={"containers": [{"name": "c", "image": "i"}]})
    resources.section(pod, "metadata")["labels"] = dict(labels)
    subject(lambda gateway: gateway.create(pod))
    return subject.read(resources.POD, name)


def test_driver_and_standby_pods_of_a_job_are_listed_together(subject: Subject) -> None:
    a_created_pod(subject, "driver", **names.driver_labels("flights", epoch=1, revision="a"))
    a_created_pod(subject, "standby", **names.standby_labels("flights", revision="b"))
    a_created_pod(subject, "other", **names.standby_labels("trains", revision="b"))
    a_created_pod(subject, "executor", **names.labels("flights"))

    found = subject(lambda gateway: gateway.list_pods(subject.namespace, names.pod_selector("flights")))

    assert sorted(resources.text(pod, "metadata", "name") for pod in found) == ["driver", "standby"]


def test_labels_are_added_to_a_pod_and_others_kept(subject: Subject) -> None:
    uid = resources.text(a_created_pod(subject, "one", job="a", role="standby"), "metadata", "uid")

    for _ in range(2):
        subject(lambda gateway: gateway.label_pod(subject.namespace, "one", {"role": "driver", "epoch": "2"}, uid=uid))

    labels = resources.section(subject.read(resources.POD, "one"), "metadata", "labels")
    assert labels == {"job": "a", "role": "driver", "epoch": "2"}


def test_labels_and_annotations_of_a_pod_go_by_name(subject: Subject) -> None:
    uid = resources.text(a_created_pod(subject, "one", job="a", team="data"), "metadata", "uid")
    notes: dict[str, str | None] = {"note": "x", "seen": "1"}
    subject(lambda gateway: gateway.label_pod(subject.namespace, "one", {}, annotations=notes, uid=uid))

    team: dict[str, str | None] = {"team": None}
    note: dict[str, str | None] = {"note": None}
    for _ in range(2):
        subject(lambda gateway: gateway.label_pod(subject.namespace, "one", team, annotations=note, uid=uid))

    pod = subject.read(resources.POD, "one")
    assert resources.section(pod, "metadata", "labels") == {"job": "a"}
    assert resources.section(pod, "metadata", "annotations") == {"seen": "1"}


def test_another_pod_of_the_same_name_is_not_labelled(subject: Subject) -> None:
    a_created_pod(subject, "one", role="standby")

    with pytest.raises(errors.PreconditionFailedError, match="Conflict"):
        subject(lambda gateway: gateway.label_pod(subject.namespace, "one", {"role": "driver"}, uid="another"))
    with pytest.raises(errors.PreconditionFailedError, match="NotFound"):
        subject(lambda gateway: gateway.label_pod(subject.namespace, "absent", {"role": "driver"}, uid="another"))

    assert resources.section(subject.read(resources.POD, "one"), "metadata", "labels") == {"role": "standby"}


def test_delete_spares_another_object_of_the_same_name(subject: Subject) -> None:
    subject(lambda gateway: gateway.create(subject.manifest(resources.CONFIG_MAP, "config", data={})))
    uid = resources.text(subject.read(resources.CONFIG_MAP, "config"), "metadata", "uid")
    kind, namespace = resources.CONFIG_MAP, subject.namespace

    assert subject(lambda gateway: gateway.delete(kind, namespace, "config", uid="another")) is False
    assert subject(lambda gateway: gateway.delete(kind, namespace, "config", uid=uid)) is True
    assert subject(lambda gateway: gateway.delete(kind, namespace, "config", uid=uid)) is False


def test_a_status_patch_changes_the_status_alone(subject: Subject) -> None:
    job = subject.a_job()
    patch: Resource = {"phase": "Running", "epoch": 1}

    written = subject(lambda gateway: gateway.patch_status(subject.key, patch, resource_version=version(job)))

    found = subject.read(resources.JOB, "flights")
    assert found["status"] == patch
    assert found["spec"] == SPEC
    assert resources.number(found, "metadata", "generation") == 1
    assert version(found) == written


def test_a_status_patch_removes_what_is_null(subject: Subject) -> None:
    job = subject.a_job()
    before: Resource = {"phase": "Running", "restarts": {"count": 1, "consecutive": 1, "lastReason": "x"}}
    after: Resource = {"phase": "Running", "restarts": {"count": 1, "consecutive": 0}}
    first = subject(lambda gateway: gateway.patch_status(subject.key, before, resource_version=version(job)))

    patch = resources.merge_patch(before, after)
    subject(lambda gateway: gateway.patch_status(subject.key, patch, resource_version=first))

    assert subject.read(resources.JOB, "flights")["status"] == after


def test_a_status_patch_for_an_old_version_is_refused(subject: Subject) -> None:
    job = subject.a_job()
    subject(lambda gateway: gateway.patch_status(subject.key, {"epoch": 1}, resource_version=version(job)))

    with pytest.raises(errors.PreconditionFailedError):
        subject(lambda gateway: gateway.patch_status(subject.key, {"epoch": 2}, resource_version=version(job)))

    assert subject.read(resources.JOB, "flights")["status"] == {"epoch": 1}


def test_a_status_patch_of_a_job_that_is_gone_is_refused(subject: Subject) -> None:
    job = subject.a_job()
    subject.delete_job()

    with pytest.raises(errors.PreconditionFailedError):
        subject(lambda gateway: gateway.patch_status(subject.key, {"epoch": 2}, resource_version=version(job)))


def test_the_cluster_has_an_identity_that_stays(subject: Subject) -> None:
    first = subject(lambda gateway: gateway.read_cluster_id())

    assert first
    assert subject(lambda gateway: gateway.read_cluster_id()) == first


def test_a_finalizer_holds_a_deleted_job_until_it_is_taken_off(subject: Subject) -> None:
    job = subject.a_job()
    held = ("statefulspark.io/take-savepoint",)
    subject(lambda gateway: gateway.patch(subject.key, finalizers(*held), resource_version=version(job)))
    subject.delete_job()

    deleted = subject.read(resources.JOB, "flights")
    assert resources.time(deleted, "metadata", "deletionTimestamp") is not None

    subject(lambda gateway: gateway.patch(subject.key, finalizers(), resource_version=version(deleted)))
    assert subject(lambda gateway: gateway.get(resources.JOB, subject.namespace, "flights")) is None


def test_finalizers_are_not_written_over_a_newer_version(subject: Subject) -> None:
    job = subject.a_job()
    subject(lambda gateway: gateway.patch_status(subject.key, {"epoch": 1}, resource_version=version(job)))

    with pytest.raises(errors.PreconditionFailedError):
        subject(lambda gateway: gateway.patch(subject.key, finalizers("a.b/c"), resource_version=version(job)))


def test_a_watch_shows_each_version_of_one_object_its_deletion_and_nothing_else(subject: Subject) -> None:
    def a_map(name: str, value: str) -> Resource:
        return subject.manifest(resources.CONFIG_MAP, name, data={"a": value})

    async def scene(gateway: Gateway) -> list[str]:
        shown: list[str] = []

        async def until(number: int) -> None:
            while len(shown) < number:
                shown.append(await asyncio.wait_for(anext(watch), 20))

        watch = gateway.watch(resources.CONFIG_MAP, subject.namespace, "code")
        await until(1)
        await gateway.apply(a_map("other", "1"))
        for number, value in ((2, "1"), (3, "2")):
            await gateway.apply(a_map("code", value))
            await until(number)
        known = await gateway.get(resources.CONFIG_MAP, subject.namespace, "code")
        assert shown[-1] == version(known or {})
        await gateway.delete(resources.CONFIG_MAP, subject.namespace, "code")
        await until(4)
        return shown

    shown = subject(scene)

    assert shown[0] == ""
    assert len(set(shown)) == 4


def test_a_watch_begins_with_what_is_there(subject: Subject) -> None:
    subject(lambda gateway: gateway.create(subject.manifest(resources.CONFIG_MAP, "code", data={"a": "1"})))
    there = version(subject.read(resources.CONFIG_MAP, "code"))

    async def scene(gateway: Gateway) -> list[str]:
        watch = gateway.watch(resources.CONFIG_MAP, subject.namespace, "code")
        return [await asyncio.wait_for(anext(watch), 20) for _ in range(2)]

    assert subject(scene) == ["", there]


def test_an_event_is_accepted(subject: Subject) -> None:
    job = subject.a_job()
    uid = resources.text(job, "metadata", "uid")

    subject(lambda gateway: gateway.post_event(subject.key, uid, EventNote("Running", "All queries run.")))


def test_an_event_about_a_savepoint_is_accepted(subject: Subject) -> None:
    savepoint = savepoint_object(subject, "nightly")
    uid, key = resources.text(savepoint, "metadata", "uid"), JobKey(subject.namespace, "nightly")
    note = EventNote("SavepointDisposed", "nightly: 10 bytes are free.")

    subject(lambda gateway: gateway.post_event(key, uid, note, kind=resources.SAVEPOINT))


def savepoint_object(subject: Subject, name: str, **metadata: object) -> Resource:
    """Create a savepoint object and return it as it is listed."""
    manifest = subject.manifest(resources.SAVEPOINT, name, spec={"jobName": "flights"})
    resources.section(manifest, "metadata").update(metadata)  # type: ignore[arg-type]
    assert subject(lambda gateway: gateway.create(manifest)) is True
    listed = subject(lambda gateway: gateway.list_all(resources.SAVEPOINT, subject.namespace))
    return next(found for found in listed or () if resources.text(found, "metadata", "name") == name)


def test_savepoints_are_listed_whole_and_of_one_namespace(subject: Subject) -> None:
    savepoint_object(subject, "first")
    second = savepoint_object(subject, "second")

    assert (second["kind"], second["apiVersion"]) == ("SparkSavepoint", "statefulspark.io/v1alpha1")
    assert second["spec"] == {"jobName": "flights"}
    assert len(subject(lambda gateway: gateway.list_all(resources.SAVEPOINT, subject.namespace)) or ()) == 2
    assert subject(lambda gateway: gateway.list_all(resources.SAVEPOINT, "elsewhere")) == ()


def test_identities_are_listed_in_pages_by_namespace_label_and_all_together(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_gateway, "_PAGE", 2)
    pods = [a_created_pod(subject, name, role="driver") for name in ("one", "two", "three")]
    other = a_created_pod(subject, "four", role="other")
    uids, all_uids = ({resources.text(pod, "metadata", "uid") for pod in found} for found in (pods, (*pods, other)))

    def listed(namespace: str | None, selector: str = "") -> frozenset[str]:
        return subject(lambda gateway: gateway.list_uids(resources.POD, namespace, selector))

    assert listed(subject.namespace, "role=driver") == uids
    assert listed(subject.namespace) == all_uids
    assert listed(None) >= all_uids
    assert listed("elsewhere") == frozenset()


def test_what_was_deleted_is_created_again_although_a_version_is_named(subject: Subject) -> None:
    ours = subject.manifest(resources.CONFIG_MAP, "c", data={"a": "ours"})
    applied = subject(lambda gateway: gateway.apply(ours))
    assert applied == version(subject.read(resources.CONFIG_MAP, "c"))
    again = subject(lambda gateway: gateway.apply(ours, resource_version=applied))
    subject(lambda gateway: gateway.delete(resources.CONFIG_MAP, subject.namespace, "c"))

    subject(lambda gateway: gateway.apply(ours, resource_version=again))

    assert subject.read(resources.CONFIG_MAP, "c")["data"] == {"a": "ours"}


def test_applying_the_same_again_changes_nothing(subject: Subject) -> None:
    ours = subject.manifest(resources.CONFIG_MAP, "c", data={"a": "ours"})
    subject(lambda gateway: gateway.apply(ours))
    before = version(subject.read(resources.CONFIG_MAP, "c"))

    subject(lambda gateway: gateway.apply(ours))
    subject(lambda gateway: gateway.apply(ours, resource_version=before))

    assert version(subject.read(resources.CONFIG_MAP, "c")) == before


def test_objects_are_listed_by_their_labels(subject: Subject) -> None:
    savepoint_object(subject, "first", labels={names.LABEL_JOB: "flights"})
    savepoint_object(subject, "second", labels={names.LABEL_JOB: "trains"})

    selector = f"{names.LABEL_JOB}=trains"
    listed = subject(lambda gateway: gateway.list_all(resources.SAVEPOINT, subject.namespace, selector=selector))

    assert [resources.text(found, "metadata", "name") for found in listed or ()] == ["second"]


def test_the_objects_of_a_kind_that_the_cluster_does_not_know_are_none_and_not_nothing(subject: Subject) -> None:
    unknown = resources.Kind("statefulspark.io/v1alpha1", "Unknown", "unknowns")

    assert subject(lambda gateway: gateway.list_all(unknown, subject.namespace)) is None


def test_the_status_and_the_finalizer_of_a_savepoint_are_its_own(subject: Subject) -> None:
    key, kind = JobKey(subject.namespace, "mine"), resources.SAVEPOINT
    before = version(savepoint_object(subject, "mine"))

    patched = subject(
        lambda gateway: gateway.patch_status(key, {"phase": "Pending"}, resource_version=before, kind=kind)
    )
    held = (names.DELETE_FILES,)
    subject(lambda gateway: gateway.patch(key, finalizers(*held), resource_version=patched, kind=kind))
    subject(lambda gateway: gateway.delete(kind, subject.namespace, "mine"))
    deleted = subject.read(kind, "mine")
    subject(lambda gateway: gateway.patch(key, finalizers(), resource_version=version(deleted), kind=kind))

    assert deleted["status"] == {"phase": "Pending"}
    assert subject(lambda gateway: gateway.get(kind, subject.namespace, "mine")) is None
    with pytest.raises(errors.PreconditionFailedError):
        subject(lambda gateway: gateway.patch_status(key, {"phase": "Failed"}, resource_version=patched, kind=kind))


def a_pod_to_try(subject: Subject, **spec: object) -> Resource:
    containers: list[Resource] = [{"name": "driver", "image": "i:1"}]
    return subject.manifest(resources.POD, "flights-driver-1", spec={"containers": containers, **spec})


def test_a_dry_run_creates_nothing(subject: Subject) -> None:
    assert subject(lambda gateway: gateway.dry_run(a_pod_to_try(subject))) is None

    assert subject(lambda gateway: gateway.get(resources.POD, subject.namespace, "flights-driver-1")) is None


def test_a_dry_run_names_a_field_that_does_not_exist(subject: Subject) -> None:
    refused = subject(lambda gateway: gateway.dry_run(a_pod_to_try(subject, nodeSelctor={"pool": "a"})))

    assert refused is not None
    assert refused.reason == "ManifestRejected"
    assert 'unknown field "spec.nodeSelctor"' in refused.message
