"""One tenant against another, with the operator as a process: the chart's rights, a real API server and a real S3 server.

What each attack is told, and that nothing of the other tenant's was touched. What needs less is tested beside what it is
about; `docs/howto/secure.md` names the test of each promise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from apiserver import ApiServer
from loopbackdriver import DriverPort
from manifests import a_manifest
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import OwnerRecord, SnapshotKind
from statefulspark.storage import ObjectInfo, ObjectStore, StorageOptions, open_store
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = [pytest.mark.api, pytest.mark.s3]

_SAVEPOINT = "savepoints/00000043-upgrade"
_numbers = itertools.count(1)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        request, length = self.rfile.readline(), 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self.rfile.read(length)
        self.server.requests.append(request.decode())
        head = f"HTTP/1.1 {self.server.answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.wfile.write(head.encode())


class _Server(socketserver.ThreadingTCPServer):
    """A server that answers every request the same, and remembers them."""

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.requests = answer, list[str]()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


def _served(server: _Server) -> Iterator[_Server]:
    serving_it = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving_it.start()
    yield server
    server.shutdown()
    serving_it.join()
    server.server_close()


@pytest.fixture(scope="module")
def inner_server() -> Iterator[_Server]:
    """A server that the operator reaches and the tenant does not."""
    yield from _served(_Server("200 OK"))


@pytest.fixture(scope="module")
def redirecting_server(inner_server: _Server) -> Iterator[_Server]:
    """A server of the tenant's that sends whoever asks it to the inner one."""
    yield from _served(_Server(f"302 Found\r\nLocation: {inner_server.endpoint}/latest/meta-data"))


@pytest.fixture(scope="module")
def operator(
    api_server: ApiServer, s3: S3Server, redirecting_server: _Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("operator-of-tenants")
    namespaces = tuple(f"tenant-{number}" for number in range(1, 9))
    for namespace in namespaces:
        api_server.call("create", "namespace", namespace)
    kubeconfig = as_operator(api_server, namespaces, folder)
    process = Operator(kubeconfig, namespaces, folder, endpoints=(s3.endpoint, redirecting_server.endpoint))
    process.start()
    try:
        yield process
    finally:
        process.kill()


class Tenant(Scene):
    """The attacker: a job in a namespace of its own, and keys of its own that reach its own bucket."""

    def __init__(self, server: ApiServer, operator: Operator, s3: S3Server, port: DriverPort) -> None:
        super().__init__(server, next(operator.unused), operator, s3, port)
        self.keys: StorageOptions = s3.new_user(f"key-of-{self.namespace}")
        bucket = resources.text(self.spec, "storage", "uri").removeprefix("s3://").partition("/")[0]
        s3.give(bucket, self.keys.access_key or "")
        self.store = open_store(self.store.uri, self.keys)
        self.spec = {**self.spec, "suspend": True}

    def apply_credentials(self) -> None:
        keys: Resource = {
            "AWS_ACCESS_KEY_ID": self.keys.access_key or "",
            "AWS_SECRET_ACCESS_KEY": self.keys.secret_key or "",
        }
        meta: Resource = {"name": "s3", "namespace": self.namespace}
        self.server.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys})

    def adopt(self, location: str, policy: str) -> str:
        """Have a savepoint object made of files that are there, and return what it says at its end."""
        name = f"mine-{next(_numbers)}"
        wanted: Resource = {"jobName": "flights", "source": {"uri": location}, "deletionPolicy": policy}
        kind: Resource = {"apiVersion": resources.SAVEPOINT.api_version, "kind": resources.SAVEPOINT.name}
        self.server.apply({**kind, "metadata": {"name": name, "namespace": self.namespace}, "spec": wanted})

        def message() -> str:
            return resources.text(self.server.get(self.namespace, f"ssp/{name}"), "status", "message")

        self.until("an answer", lambda: message() != "")
        assert "Completed" not in self.server.call("-n", self.namespace, "get", f"ssp/{name}")
        told = message()
        patch = ("patch", "ssp", name, "--type=merge", "-p", '{"spec":{"deletionPolicy":"Delete"}}')
        self.server.call("-n", self.namespace, *patch)
        self.server.call("-n", self.namespace, "delete", "ssp", name, "--timeout=60s")
        return told

    def until_told(self, words: str) -> str:
        self.until(words, lambda: words in resources.text(self.status(), "message"))
        return resources.text(self.status(), "message")


@pytest.fixture
def tenant(api_server: ApiServer, operator: Operator, s3: S3Server) -> Iterator[Tenant]:
    with serving() as port:
        yield Tenant(api_server, operator, s3, port)


@dataclasses.dataclass(frozen=True)
class Victim:
    """The other tenant: a job that has a savepoint, in a bucket of its own."""

    store: ObjectStore
    location: str
    objects: tuple[ObjectInfo, ...]

    @property
    def is_untouched(self) -> bool:
        return self.store.list("") == self.objects


@pytest.fixture
def victim(s3: S3Server) -> Victim:
    owner = s3.new_user(f"billing-{next(_numbers)}")
    bucket = s3.new_bucket("billing")
    store = open_store(f"s3://{bucket}", s3.options()).child(layout.job_prefix("team-b", "billing"))
    written = a_manifest(43, kind=SnapshotKind.SAVEPOINT).model_copy(update={"namespace": "team-b", "job": "billing"})
    store.write(f"{_SAVEPOINT}/files/delays/1.zip", b"x")
    catalog.write_manifest(store, _SAVEPOINT, written)
    s3.give(bucket, owner.access_key or "")
    return Victim(store, f"{store.uri}/{_SAVEPOINT}", store.list(""))


@pytest.mark.parametrize(
    ("policy", "why"),
    [("Retain", "is a savepoint of team-b/billing"), ("Delete", "so it is adopted with deletionPolicy Retain only")],
)
def test_with_keys_that_reach_both_a_savepoint_of_another_cannot_be_adopted_nor_deleted(
    tenant: Tenant, victim: Victim, s3: S3Server, policy: str, why: str
) -> None:
    tenant.keys = s3.options()
    tenant.apply()
    tenant.until_phase("Suspended")

    assert why in tenant.adopt(victim.location, policy)

    assert victim.is_untouched


def test_keys_of_one_tenant_reach_nothing_of_another_and_whoever_tries_is_told(tenant: Tenant, victim: Victim) -> None:
    with pytest.raises(errors.StateUnknownError, match="AccessDenied"):
        open_store(victim.store.uri, tenant.keys).list("")
    tenant.apply()
    tenant.until_phase("Suspended")

    told = tenant.adopt(victim.location, "Retain")

    assert "AccessDenied" in told
    assert victim.location in told
    assert victim.is_untouched


def test_a_job_whose_storage_is_the_bucket_of_another_is_told_so_and_writes_nothing(
    tenant: Tenant, victim: Victim
) -> None:
    bucket = victim.store.uri.removeprefix("s3://").partition("/")[0]
    storage = resources.section(tenant.spec, "storage")
    tenant.apply(storage={**storage, "uri": f"s3://{bucket}/jobs"}, suspend=False)

    told = tenant.until_told("AccessDenied")

    assert f"s3://{bucket}/jobs/{tenant.namespace}/flights" in told
    assert "check" in told
    assert tenant.server.names(tenant.namespace, "pods") == []
    assert victim.is_untouched


def test_a_folder_of_another_owner_stays_when_a_job_that_names_it_is_deleted_with_its_state(tenant: Tenant) -> None:
    """The same manifest was applied in a second cluster."""
    owner = OwnerRecord(
        namespace=tenant.namespace, job="flights", owner_id="of-the-first-cluster", created_at=datetime.now(UTC)
    )
    tenant.store.write(layout.OWNER, owner.to_json().encode())
    catalog.write_checkpoint(tenant.store, a_manifest(1))
    before = tenant.store.list("")
    tenant.apply(deletionPolicy="Delete")
    tenant.until_phase("Suspended")

    tenant.server.call("-n", tenant.namespace, "delete", "ssj", "flights", "--timeout=60s")

    notes = ("get", "events", "-o", "jsonpath={range .items[?(@.reason=='StateKept')]}{.message}{end}")
    assert "uid of-the-first-cluster" in tenant.server.call("-n", tenant.namespace, *notes)
    assert tenant.store.list("") == before


def test_a_server_of_the_tenants_sends_the_operator_nowhere(
    tenant: Tenant, redirecting_server: _Server, inner_server: _Server
) -> None:
    storage, connection = resources.section(tenant.spec, "storage"), resources.section(tenant.spec, "storage", "s3")
    code = {"s3": {"uri": "s3://bucket/flights.py", "sha256": hashlib.sha256(b"guessed").hexdigest()}}
    tenant.apply(
        storage={**storage, "s3": {**connection, "endpoint": redirecting_server.endpoint}},
        job={"file": "flights.py", "source": code},
        suspend=False,
    )

    told = tenant.until_told(redirecting_server.endpoint)

    assert redirecting_server.requests
    assert inner_server.requests == []
    assert inner_server.endpoint not in told
    assert tenant.server.names(tenant.namespace, "pods") == []


def test_keys_that_a_policy_limits_to_a_prefix_reach_no_other_prefix_of_the_bucket(
    tenant: Tenant, s3: S3Server
) -> None:
    bucket = s3.new_bucket("shared")
    tenant.keys = s3.new_user(f"limited-{next(_numbers)}")
    s3.allow(bucket, tenant.keys.access_key or "", "team-a/")
    billing = open_store(f"s3://{bucket}/team-b", s3.options()).child(layout.job_prefix("team-b", "billing"))
    catalog.write_checkpoint(billing, a_manifest(43))
    objects, storage = billing.list(""), resources.section(tenant.spec, "storage")
    own = open_store(f"s3://{bucket}/team-a", tenant.keys)

    tenant.apply(storage={**storage, "uri": f"s3://{bucket}/team-b"}, suspend=False)

    assert f"s3://{bucket}/team-b" in tenant.until_told("check the access key")
    with pytest.raises(errors.StateUnknownError, match="AccessDenied"):
        own.copy_from(open_store(billing.uri, tenant.keys), [(objects[0].key, "stolen")])
    own.write("mine", b"")
    assert (billing.list(""), [info.key for info in own.list("")]) == (objects, ["mine"])


def test_with_keys_that_only_read_nothing_is_deleted_and_the_job_says_why(tenant: Tenant, s3: S3Server) -> None:
    tenant.apply(deletionPolicy="Delete")
    tenant.until_phase("Suspended")
    uid = resources.text(tenant.server.get(tenant.namespace, "ssj/flights"), "metadata", "uid")
    owner = OwnerRecord(namespace=tenant.namespace, job="flights", owner_id=uid, created_at=datetime.now(UTC))
    store = open_store(tenant.store.uri, s3.options())
    store.write(layout.OWNER, owner.to_json().encode())
    catalog.write_checkpoint(store, a_manifest(1))
    before = store.list("")
    tenant.keys = s3.new_user(f"reader-{next(_numbers)}")
    bucket = store.uri.removeprefix("s3://").partition("/")[0]
    s3.allow(bucket, tenant.keys.access_key or "", rights=["s3:GetObject"])
    tenant.apply_credentials()

    tenant.server.call("-n", tenant.namespace, "delete", "ssj", "flights", "--wait=false")

    assert store.uri in tenant.until_told("AccessDenied")
    assert store.list("") == before
