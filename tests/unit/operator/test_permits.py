"""What the operator opens for a tenant: locations by namespace for its own identity, and servers."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

import pytest
from snapshots import a_manifest
from statefulspark import errors
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout
from statefulspark.contract.manifest import SnapshotKind
from statefulspark.contract.notes import SavepointPointer
from statefulspark.storage import StorageOptions
from statefulspark.testing import stores
from statefulspark_operator.api.code import ObjectCode
from statefulspark_operator.api.spec import S3, Storage
from statefulspark_operator.api.status import SnapshotStatus
from statefulspark_operator.cluster import permits
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.storage_reader import NoSavepoint, SnapshotStorageReader, StorageTarget
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

GIVEN = permits.parse({"team-a": ["s3://bucket/a/", "s3://spare"]}, [])
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
TENANT = StorageTarget(Storage(uri="s3://bucket/a"), "team-a", "mine", None, "uid")
FOREIGN = "s3://bucket/b/team-b/billing/savepoints/00000043-upgrade"


@pytest.mark.parametrize("uri", ["s3://bucket/a", "s3://bucket/a/", "s3a://bucket/a/deep/er", "s3://spare/anything"])
def test_the_own_identity_is_used_at(uri: str) -> None:
    GIVEN.require_location("team-a", uri)


@pytest.mark.parametrize(
    ("namespace", "uri"),
    [
        pytest.param("team-a", "s3://bucket/ab", id="a prefix without a boundary"),
        pytest.param("team-a", "s3://bucket", id="the folder above"),
        pytest.param("team-a", "s3://bucket/b/team-b", id="a folder beside"),
        pytest.param("team-a", "s3://bucket2/a", id="another bucket"),
        pytest.param("team-b", "s3://bucket/a", id="another namespace"),
        pytest.param("*", "s3://bucket/a", id="no namespace"),
    ],
)
def test_the_own_identity_is_not_used_at(namespace: str, uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="IdentityNotPermitted"):
        GIVEN.require_location(namespace, uri)


@pytest.mark.parametrize("uri", ["s3://bucket/a/../b", "s3://bucket/a//b", "s3://bucket/./a", "file:///a", "bucket/a"])
def test_what_is_no_location_is_refused(uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError):
        GIVEN.require_location("team-a", uri)


class Cloud:
    """Buckets that the operator's own identity reaches, and what of them was opened."""

    def __init__(self) -> None:
        self.bucket = stores.MemoryStore("s3://bucket")
        self.opened: list[str] = []
        self.reader = SnapshotStorageReader(self._open, allowed=GIVEN)
        manifest = a_manifest(43, kind=SnapshotKind.SAVEPOINT)
        self.bucket.write(f"{FOREIGN.removeprefix('s3://bucket/')}/files/delays/1.zip", b"x")
        written = manifest.model_copy(update={"namespace": "team-b", "job": "billing"})
        catalog.write_manifest(self.bucket, FOREIGN.removeprefix("s3://bucket/"), written)

    def _open(self, uri: str, options: StorageOptions) -> stores.MemoryStore:
        del options
        self.opened.append(uri)
        return self.bucket.child(uri.removeprefix("s3://bucket").strip("/"))


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def is_refused(answer: object) -> bool:
    return isinstance(answer, StorageUnreadable) and answer.reason == "IdentityNotPermitted" and not answer.may_pass


def test_a_savepoint_of_another_team_is_not_looked_at(cloud: Cloud) -> None:
    assert is_refused(asyncio.run(cloud.reader.find_savepoint(TENANT, FOREIGN)))
    assert cloud.opened == []


def test_a_savepoint_of_another_team_is_not_deleted(cloud: Cloud) -> None:
    before = cloud.bucket.list("")

    with pytest.raises(errors.SpecRejectedError, match="IdentityNotPermitted"):
        asyncio.run(cloud.reader.dispose(TENANT, FOREIGN))

    assert cloud.bucket.list("") == before


def test_a_foreign_storage_uri_and_a_foreign_snapshot_to_restore_are_not_read(cloud: Cloud) -> None:
    elsewhere = replace(TENANT, storage=Storage(uri="s3://bucket/b"))

    assert is_refused(asyncio.run(cloud.reader.read(elsewhere, savepoint=None)))
    assert is_refused(asyncio.run(cloud.reader.read(TENANT, savepoint=FOREIGN)))
    assert cloud.opened == ["s3://bucket/a"]


def test_foreign_code_is_not_read_and_nothing_of_it_is_told(cloud: Cloud) -> None:
    cloud.bucket.write("b/secret.py", b"password")
    source = ObjectCode(uri="s3://bucket/b/secret.py", sha256="0" * 64)

    with pytest.raises(errors.SpecRejectedError, match="IdentityNotPermitted"):
        asyncio.run(cloud.reader.check_code(TENANT, source, "secret.py"))
    with pytest.raises(errors.SpecRejectedError, match="IdentityNotPermitted"):
        asyncio.run(cloud.reader.keep_code(TENANT, source))


def test_a_checksum_that_does_not_fit_is_answered_with_no_other(cloud: Cloud) -> None:
    cloud.bucket.write("a/mine.py", b"print()")
    source = ObjectCode(uri="s3://bucket/a/mine.py", sha256="0" * 64)

    with pytest.raises(errors.SpecRejectedError, match="CodeChecksumMismatch") as refused:
        asyncio.run(cloud.reader.check_code(TENANT, source, "mine.py"))

    assert hashlib.sha256(b"print()").hexdigest() not in refused.value.message


def test_a_document_that_leads_to_a_foreign_location_is_not_followed(cloud: Cloud) -> None:
    root = cloud.bucket.child(f"a/{layout.job_prefix('team-a', 'mine')}")
    root.write(layout.savepoint_pointer(43), SavepointPointer(location=FOREIGN).to_json().encode())

    facts = asyncio.run(cloud.reader.read(TENANT, savepoint=None, requests=("any",)))

    assert isinstance(facts, StorageFacts)
    assert facts.requested is None
    assert cloud.opened == ["s3://bucket/a"]


def test_with_credentials_of_its_own_a_job_reaches_what_they_reach_and_adopts_its_own_savepoints_only(
    cloud: Cloud,
) -> None:
    mine, theirs = (
        replace(TENANT, credentials=KEYS),
        replace(TENANT, credentials=KEYS, namespace="team-b", job="billing"),
    )

    refused = asyncio.run(cloud.reader.find_savepoint(mine, FOREIGN))

    assert isinstance(refused, NoSavepoint)
    assert "is a savepoint of team-b/billing" in refused.why
    with pytest.raises(errors.SpecRejectedError, match="StateKept"):
        asyncio.run(cloud.reader.dispose(mine, FOREIGN))
    assert isinstance(asyncio.run(cloud.reader.find_savepoint(theirs, FOREIGN)), SnapshotStatus | NoSavepoint)


HOSTS = {
    "public": ("203.0.113.9",), "loop": ("127.0.0.1",), "both": ("203.0.113.9", "169.254.169.254"), "six": ("::1",),
    "mapped": ("::ffff:127.0.0.1",), "link": ("fe80::1%eth0",), "any": ("::",), "ec2": ("fd00:ec2::254",),
    "nowhere": (),
}  # fmt: skip
OPEN = permits.Permits(resolver=lambda host, _port: HOSTS.get(host, (host,)))
LISTED = permits.parse({}, ["http://127.0.0.1:9000", "https://s3.example.com"])


@pytest.mark.parametrize(
    ("allowed", "endpoint"),
    [
        (OPEN, "http://public:9000"),
        (LISTED, "http://127.0.0.1:9000/"),
        (LISTED, "https://S3.example.com:443"),
    ],
)
def test_a_server_is_connected_to(allowed: permits.Permits, endpoint: str) -> None:
    allowed.require_server(endpoint, is_own_identity=False)


@pytest.mark.parametrize(
    ("allowed", "endpoint", "reason"),
    [
        *((OPEN, f"http://{host}:80", "EndpointNotPermitted") for host in HOSTS if host not in ("public", "nowhere")),
        (OPEN, "http://169.254.169.254", "EndpointNotPermitted"),
        (LISTED, "http://127.0.0.1:9001", "EndpointNotPermitted"),
        (LISTED, "http://s3.example.com:443", "EndpointNotPermitted"),
        (LISTED, "https://s3.example.com.evil.example", "EndpointNotPermitted"),
        (LISTED, "https://s3.example.com@evil.example", "EndpointInvalid"),
        (LISTED, "https://s3.example.com\\.evil.example", "EndpointInvalid"),
        (OPEN, "http://public/?list-type=2", "EndpointInvalid"),
        (OPEN, "gopher://public:70", "EndpointInvalid"),
    ],
)
def test_a_server_is_refused(allowed: permits.Permits, endpoint: str, reason: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=reason):
        allowed.require_server(endpoint, is_own_identity=False)


def test_a_server_without_an_address_is_asked_for_again() -> None:
    with pytest.raises(errors.TransientError, match="StorageUnreachable"):
        OPEN.require_server("http://nowhere:80", is_own_identity=False)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "https://s3.example.com"])
def test_the_own_identity_goes_to_no_server_that_a_resource_names(endpoint: str) -> None:
    target = replace(TENANT, storage=Storage(uri="s3://bucket/a", s3=S3(endpoint=endpoint)))
    listed = permits.parse({"team-a": ["s3://bucket/a/"]}, ["http://127.0.0.1:9000", "https://s3.example.com"])
    reader = SnapshotStorageReader(lambda uri, _options: stores.MemoryStore(uri), allowed=listed)

    assert is_refused(asyncio.run(reader.read(target, savepoint=None)))


def test_stores_of_a_job_with_older_credentials_and_of_one_that_is_gone_are_dropped() -> None:
    opened: list[str | None] = []

    def open_store(uri: str, options: StorageOptions) -> stores.MemoryStore:
        opened.append(options.session_token)
        return stores.MemoryStore(uri)

    reader = SnapshotStorageReader(open_store)
    for token in ("1", "2", "2", "3"):
        target = replace(TENANT, credentials={**KEYS, "AWS_SESSION_TOKEN": token})
        asyncio.run(reader.read(target, savepoint=None))

    assert opened == ["1", "2", "3"]
    assert reader.open_stores == 1
    reader.forget(JobKey("team-a", "mine"))
    assert reader.open_stores == 0


def test_a_store_stays_open_while_another_job_uses_it() -> None:
    reader = SnapshotStorageReader(lambda uri, _options: stores.MemoryStore(uri))
    for job in ("mine", "other"):
        asyncio.run(reader.read(replace(TENANT, credentials=KEYS, job=job), savepoint=None))

    reader.forget(JobKey("team-a", "mine"))

    assert reader.open_stores == 1


def test_locations_that_a_job_names_one_after_the_other_do_not_stay_open() -> None:
    reader = SnapshotStorageReader(lambda uri, _options: stores.MemoryStore(uri))
    for number in range(40):
        asyncio.run(reader.find_savepoint(replace(TENANT, credentials=KEYS), f"s3://bucket/{number}"))

    assert reader.open_stores <= 16
