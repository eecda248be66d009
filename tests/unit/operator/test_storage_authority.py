"""The authority of an S3 server is read from its Secret, and what is missing there is told with the endpoint."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import certificates
import pytest
import s3server
from jobworld import JobWorld
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.cluster import permits
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.storage_reader import SnapshotStorageReader, StorageTarget
from statefulspark_operator.engine import access
from statefulspark_operator.lifecycle.storage_facts import StorageFacts, StorageUnreadable

ENDPOINT = "https://s3.example:9000"
JOB = JobKey("demo", "flights")


def a_storage(endpoint: str = ENDPOINT, uri: str = "s3://state/jobs") -> Storage:
    connection = {
        "endpoint": endpoint,
        "credentialsSecretRef": {"name": "s3"},
        "caSecretRef": {"name": "s3-ca", "key": "ca.crt"},
    }
    return Storage.model_validate({"uri": uri, "s3": connection})


def connected(secret: dict[str, str] | None, storage: Storage) -> StorageTarget | StorageUnreadable:
    """Connect with a Secret that has these values."""
    world = JobWorld()
    keys = {"AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY}
    for name, values in (("s3", keys), ("s3-ca", secret)):
        world.cluster.objects.pop(("Secret", JOB.namespace, name), None)
        if values is not None:
            metadata = {"name": name, "namespace": JOB.namespace}
            world.cluster.add({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)})
    return asyncio.run(access.connection(world.world, JOB, storage, owner_id=None))


@pytest.mark.parametrize(
    ("secret", "reason", "said"),
    [
        pytest.param(None, "CaMissing", "Secret demo/s3-ca does not exist; create it, and put", id="no Secret"),
        pytest.param({"tls.crt": "x"}, "CaMissing", "Secret demo/s3-ca has no key ca.crt; put", id="no key"),
        pytest.param(
            {"ca.crt": "x"}, "CaInvalid", "The key ca.crt of Secret demo/s3-ca has no certificate in PEM", id="no PEM"
        ),
    ],
)
def test_what_is_missing_is_told_with_the_secret_the_key_and_the_endpoint(
    secret: dict[str, str] | None, reason: str, said: str
) -> None:
    refused = connected(secret, a_storage())

    assert isinstance(refused, StorageUnreadable)
    assert (refused.reason, refused.may_pass) == (reason, False)
    assert said in refused.message
    assert f"the certificate authority of {ENDPOINT} there, in PEM" in refused.message


@pytest.mark.s3
@pytest.mark.parametrize("is_right", [True, False], ids=["the authority", "another authority"])
def test_the_operators_own_client_trusts_the_authority_of_the_secret(tmp_path: Path, *, is_right: bool) -> None:
    issued, other = certificates.issue(tmp_path / "private"), certificates.issue(tmp_path / "other")
    with s3server.running(tmp_path / "s3", issued) as server:
        storage = a_storage(server.endpoint, f"s3://{server.new_bucket()}/jobs")
        target = connected({"ca.crt": (issued if is_right else other).authority.read_text()}, storage)
        assert isinstance(target, StorageTarget)
        facts = asyncio.run(
            SnapshotStorageReader(allowed=permits.parse({}, [server.endpoint])).read(target, savepoint=None)
        )

    if is_right:
        assert isinstance(facts, StorageFacts)
    else:
        assert isinstance(facts, StorageUnreadable)
        assert re.search(r"not issued by the authority in Secret demo/s3-ca, key ca\.crt", facts.message)
        assert server.endpoint in facts.message
