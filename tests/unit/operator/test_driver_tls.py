"""TLS between the operator and a driver: the client against real servers, and what a pass makes of a Secret."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import Issued, issue
from fakecontrol import TOKEN, FakeControl, served
from jobworld import KEY, SPEC, JobWorld
from situationcases import an_untrusted_driver
from situations import a_pod, a_situation
from statefulspark.contract.api import JobStatus, StopRequest
from statefulspark_operator.api import names
from statefulspark_operator.api.conditions import ConditionStatus, ConditionType
from statefulspark_operator.api.status import Phase, StandbyState, StandbyStatus
from statefulspark_operator.cluster import pods, resources
from statefulspark_operator.cluster.driver_api import DriverAccess, HttpDriverApi, Trust
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine import access
from statefulspark_operator.engine.memory import REREAD_AFTER
from statefulspark_operator.lifecycle import decide, upgrade_facts
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.situation import (
    TLS_SECRET_MISSING,
    DriverPod,
    DriverSilent,
    Job,
    PodPhase,
    Waiting,
)

SECRET = "flights-tls"
NAME = "flights-driver.demo.svc"
JOB = Job("demo", "flights", "uid-1", 1)


def trust(authority: Path, name: str = NAME) -> DriverAccess:
    return DriverAccess(TOKEN, Trust(f"demo/{SECRET}", authority.read_text(), name))


def pod_at(url: str, secret: str | None = SECRET) -> DriverPod:
    return a_pod(ip="127.0.0.1", api_port=urlsplit(url).port, tls_secret=secret)


def ask(pod: DriverPod, *attempts: DriverAccess) -> list[JobStatus | DriverSilent]:
    """Ask a driver with the same client, once with each access."""

    async def scene() -> list[JobStatus | DriverSilent]:
        drivers = HttpDriverApi()
        try:
            return [await drivers.status(pod, attempt) for attempt in attempts]
        finally:
            await drivers.close()

    return asyncio.run(scene())


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """A server that speaks no TLS; yields its URL and what it is told first."""
    told: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                told.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", told
        thread.join(10)


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue(tmp_path / "first")


def test_a_driver_is_asked_by_its_address_and_verified_by_its_name(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        (answer,) = ask(pod_at(url), trust(issued.authority))

    assert isinstance(answer, JobStatus)


def test_a_driver_of_another_authority_is_not_trusted_and_the_secret_is_named(issued: Issued, tmp_path: Path) -> None:
    other = issue(tmp_path / "second")

    with served(FakeControl(), tls=issued.tls) as url:
        (answer,) = ask(pod_at(url), trust(other.authority))

    assert isinstance(answer, DriverSilent)
    assert answer.is_untrusted
    assert answer.message.startswith("its certificate is not trusted: ")
    assert answer.message.endswith(
        f"Secret demo/{SECRET} must have the authority that issued tls.crt as ca.crt, and a certificate for {NAME}"
    )


def test_the_driver_of_another_job_is_not_trusted(tmp_path: Path) -> None:
    other = issue(tmp_path / "other", name="others-driver.demo.svc")

    with served(FakeControl(), tls=other.tls) as url:
        (answer,) = ask(pod_at(url), trust(other.authority))

    assert isinstance(answer, DriverSilent)
    assert (answer.is_untrusted, "Hostname mismatch" in answer.message) == (True, True)


def test_an_authority_that_is_no_pem_is_named(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        (answer,) = ask(pod_at(url), DriverAccess(TOKEN, Trust(f"demo/{SECRET}", "not PEM", NAME)))

    assert answer == DriverSilent(
        f"ca.crt of Secret demo/{SECRET} is no certificate in PEM; replace it", is_untrusted=True
    )


def test_a_renewed_authority_is_used_by_the_same_client(issued: Issued, tmp_path: Path) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        old = trust(issued.authority)
        issued.replace_with(issue(tmp_path / "second"))

        before, after = ask(pod_at(url), old, trust(issued.authority))

    assert (isinstance(before, DriverSilent), isinstance(after, JobStatus)) == (True, True)


def test_what_speaks_no_tls_is_never_told_the_token(issued: Issued) -> None:
    with listener() as (url, told):
        (answer,) = ask(pod_at(url), trust(issued.authority))

    assert isinstance(answer, DriverSilent)
    assert [TOKEN.encode() in said or b"Authorization" in said for said in told] == [False]


@pytest.mark.parametrize("secret", [SECRET, None], ids=["with a certificate", "without"])
def test_a_driver_is_never_asked_otherwise_than_its_pod_says(issued: Issued, secret: str | None) -> None:
    """A pod with a certificate is not asked without an authority, and no authority is left unused."""
    with served(FakeControl(), tls=issued.tls) as url:
        (answer,) = ask(pod_at(url, secret), DriverAccess(TOKEN) if secret else trust(issued.authority))

    assert answer == DriverSilent("it is not known how to verify its certificate", is_untrusted=True)


def test_a_stop_is_not_sent_to_a_driver_that_is_not_trusted(issued: Issued, tmp_path: Path) -> None:
    control = FakeControl()
    other = issue(tmp_path / "second")

    async def scene(url: str) -> DriverSilent | None:
        drivers = HttpDriverApi()
        try:
            return await drivers.stop(pod_at(url), trust(other.authority), StopRequest(request_id="r", savepoint=True))
        finally:
            await drivers.close()

    with served(control, tls=issued.tls) as url:
        answer = asyncio.run(scene(url))

    assert (isinstance(answer, DriverSilent), control.started) == (True, [])


def world_with(**secret: str) -> JobWorld:
    """A job with a certificate, and a Secret with these keys; no Secret without any."""
    spec: Resource = json.loads(json.dumps(SPEC))
    spec["driver"] = {**resources.section(spec, "driver"), "tls": {"secretRef": {"name": SECRET}}}
    world = JobWorld(spec=spec)
    if secret:
        put(world, **secret)
    return world


def put(world: JobWorld, **secret: str) -> None:
    values = {key.replace("_", "."): value for key, value in secret.items()}
    meta: Resource = {"name": SECRET, "namespace": KEY.namespace}
    world.cluster.objects.pop(("Secret", KEY.namespace, SECRET), None)
    world.cluster.add({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(values)})


def reads(world: JobWorld) -> int:
    return world.cluster.reads.count(f"get Secret {SECRET}")


def test_the_pod_of_a_job_with_a_certificate_says_so() -> None:
    world = world_with(ca_crt="authority")
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    (pod,) = (item for (kind, _, _), item in world.cluster.objects.items() if kind == "Pod")

    driver = pods.read_driver_pod(pod)
    assert driver is not None
    assert driver.tls_secret == SECRET


def test_the_authority_is_read_once_while_the_driver_answers() -> None:
    world = world_with(ca_crt="authority", tls_key="private")
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    world.run(120)

    assert reads(world) == 1


def test_the_private_key_is_not_kept() -> None:
    world = world_with(ca_crt="authority", tls_key="private")
    world.run_until(lambda: world.status.phase is Phase.RUNNING)

    assert "private" not in repr(world.world.secrets)


def find(world: JobWorld) -> DriverAccess | DriverSilent:
    world.cluster.objects.setdefault(
        ("Secret", KEY.namespace, names.token(KEY.name)),
        {"kind": "Secret", "metadata": {}, "stringData": {"token": "token"}},
    )
    job = dataclasses.replace(JOB, namespace=KEY.namespace, name=KEY.name)
    return asyncio.run(access.find(world.world, job, a_pod(tls_secret=SECRET)))


def test_both_tokens_of_a_rotation_are_read() -> None:
    world = world_with(ca_crt="first")
    world.cluster.objects[("Secret", KEY.namespace, names.token(KEY.name))] = {
        "kind": "Secret",
        "metadata": {},
        "stringData": {"token": "new", "previous": "old"},
    }

    found = find(world)
    assert isinstance(found, DriverAccess)
    assert (found.token, found.previous) == ("new", "old")


def test_an_authority_that_is_renewed_is_read_after_a_driver_was_not_trusted() -> None:
    world = world_with(ca_crt="first")
    job = dataclasses.replace(JOB, namespace=KEY.namespace, name=KEY.name)
    find(world)
    put(world, ca_crt="second")
    world.time += REREAD_AFTER + timedelta(seconds=1)

    access.invalidate(world.world, job, a_pod(tls_secret=SECRET))

    found = find(world)
    assert isinstance(found, DriverAccess)
    assert found.trust == Trust(f"{KEY.namespace}/{SECRET}", "second", names.server_name(KEY.name, KEY.namespace))


def test_a_secret_without_an_authority_is_named() -> None:
    message = f"Secret {KEY.namespace}/{SECRET} has no ca.crt; add the authority that issued its certificate"

    assert find(world_with(tls_crt="x")) == DriverSilent(message, is_untrusted=True)


def test_an_authority_that_is_added_to_its_secret_is_read_at_once() -> None:
    world = world_with(tls_crt="x")
    find(world)

    put(world, tls_crt="x", ca_crt="first")

    assert isinstance(find(world), DriverAccess)


def test_a_secret_that_is_gone_is_named_and_nobody_is_asked() -> None:
    found = find(world_with())

    assert isinstance(found, DriverSilent)
    missing = f"Secret {KEY.namespace}/{SECRET}, which spec.driver.tls names, does not exist; "
    assert (found.is_untrusted, found.message.startswith(missing)) == (True, True)


def test_a_job_whose_secret_is_missing_says_so_and_runs_once_it_is_there() -> None:
    """Kubernetes shows its pod as ContainerCreating for ever, and tells why in an event."""
    world = world_with()
    world.kubelet_starts_pods = False
    world.run(1)
    (pod,) = (item for (kind, _, _), item in world.cluster.objects.items() if kind == "Pod")
    container: Resource = {"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [container]}
    world.cluster.show(pod)
    world.run(10)

    ready = next(one for one in world.status.conditions if one.type is ConditionType.READY)
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, Reason.CONTAINER_WAITING.word)
    missing = (
        f"(TlsSecretMissing): Secret {KEY.namespace}/{SECRET}, which spec.driver.tls names, does not exist; create it"
    )
    assert missing in ready.message

    put(world, ca_crt="authority")
    world.kubelet_starts_pods = True
    world.run_until(lambda: world.status.phase is Phase.RUNNING)


def test_a_starting_driver_that_is_not_trusted_is_a_reason_of_its_own() -> None:
    untrusted = DriverSilent("its certificate is of X", is_untrusted=True)

    decision = decide.decide(dataclasses.replace(a_situation(phase=Phase.STARTING), driver=untrusted))

    assert (decision.reason, decision.message) == (
        Reason.DRIVER_NOT_TRUSTED,
        "flights-driver-1: its certificate is of X.",
    )


@pytest.mark.parametrize("for_s", [301, 3601], ids=["after the progress timeout", "after the stall timeout"])
def test_a_job_that_runs_is_not_ready_and_never_restarted_because_its_driver_is_not_trusted(for_s: int) -> None:
    """Another process would have the same certificate."""
    decision = decide.decide(an_untrusted_driver(for_s))

    ready = next(one for one in decision.status.conditions if one.type is ConditionType.READY)
    assert (ready.status, ready.reason, decision.actions) == (ConditionStatus.FALSE, "DriverNotTrusted", ())


def _standby(**changes: object) -> StandbyStatus | None:
    record = StandbyStatus(
        number=1, pod="flights-standby-1", revision="new", state=StandbyState.CREATING, since=a_situation().now
    )
    pod = a_pod(0, name=record.pod, uid="s", revision="new", **changes)
    situation = a_situation(standby=record)
    return upgrade_facts.current_standby(dataclasses.replace(situation, standbys=(pod,), standby=None))


def test_a_standby_waits_for_a_certificate_that_is_issued_a_moment_later() -> None:
    standby = _standby(phase=PodPhase.PENDING, waiting=Waiting(TLS_SECRET_MISSING, "m"))

    assert standby is not None
    assert standby.state is StandbyState.CREATING
