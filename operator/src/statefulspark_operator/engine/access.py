"""What drivers and storage are asked with: a token, the authority of a certificate, and credentials, all from Secrets.

A token and the authority of a driver are read once, and again after the driver did not answer, for they may have been
replaced. Credentials of a storage are read for each look at it, since a store may accept what the Secret no longer has.
It must never have a driver with a certificate asked without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from statefulspark import errors
from statefulspark.contract import config
from statefulspark.storage import authorities
from statefulspark.storage.authorities import Authority

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import AUTHORITY_KEY, KeyReference, Storage
from statefulspark_operator.cluster.driver_api import DriverAccess, Trust
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine.memory import STORAGE_SECRET_TTL
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import fault
from statefulspark_operator.lifecycle.situation import (
    HARMLESS_WAITS,
    TLS_SECRET_MISSING,
    Accepted,
    DriverPod,
    DriverSilent,
    Job,
    PodPhase,
    Waiting,
)
from statefulspark_operator.lifecycle.storage_facts import StorageUnreadable
from statefulspark_operator.render import base, defaults


async def find(ports: Ports, job: Job, pod: DriverPod) -> DriverAccess | DriverSilent:
    """Return what a driver is asked with, or why it cannot be."""
    tokens = ports.secrets.find(_token_key(job), ports.now())
    if tokens is None:
        tokens = await ports.gateway.read_secret(job.namespace, names.token(job.name))
        if tokens is None or config.TOKEN_KEY not in tokens:
            return DriverSilent(f"Secret {names.token(job.name)} with its token is missing")
        ports.secrets.keep(_token_key(job), tokens, ports.now())
    token, previous = tokens[config.TOKEN_KEY], tokens.get(config.PREVIOUS_TOKEN_KEY) or None
    if pod.tls_secret is None:
        return DriverAccess(token, previous=previous)
    secret = f"{job.namespace}/{pod.tls_secret}"
    authority = await _read_authority(ports, job, pod.tls_secret)
    if authority is None:
        return DriverSilent(_missing(secret), is_untrusted=True)
    if not authority:
        message = f"Secret {secret} has no {AUTHORITY_KEY}; add the authority that issued its certificate"
        return DriverSilent(message, is_untrusted=True)
    trust = Trust(secret, authority, names.server_name(job.name, job.namespace))
    return DriverAccess(token, trust, previous)


def invalidate(ports: Ports, job: Job, pod: DriverPod) -> None:
    """Have what a driver was asked with read again, because it did not answer."""
    ports.secrets.invalidate(_token_key(job), ports.now())
    if pod.tls_secret is not None:
        ports.secrets.invalidate(_authority_key(job, pod.tls_secret), ports.now())


def forget(ports: Ports, key: JobKey) -> None:
    """Drop the tokens of the jobs of a name, of which none exists any more."""
    ports.secrets.forget(lambda owner, name: owner.startswith(f"{key.namespace}/") and name == names.token(key.name))


async def note_missing_secret(ports: Ports, job: Job, pod: DriverPod) -> DriverPod:
    """Return a pod with why its container has not started, if the Secret of its certificate does not exist.

    Kubernetes shows such a pod as `ContainerCreating` for as long as it takes, and tells why in an event only.
    """
    is_created = pod.phase is not PodPhase.PENDING or pod.is_over or pod.unschedulable is not None
    is_told = pod.waiting is not None and pod.waiting.reason not in HARMLESS_WAITS
    if pod.tls_secret is None or is_created or is_told:
        return pod
    if await _read_authority(ports, job, pod.tls_secret) is not None:
        return pod
    message = f"{_missing(f'{job.namespace}/{pod.tls_secret}')}."
    return replace(pod, waiting=Waiting(TLS_SECRET_MISSING, message))


def _missing(secret: str) -> str:
    return (
        f"Secret {secret}, which spec.driver.tls names, does not exist; create it, or look at why cert-manager has not "
        "issued its Certificate"
    )


async def _read_authority(ports: Ports, job: Job, name: str) -> str | None:
    """Return the authority of a Secret, empty if it has none; None if the Secret does not exist."""
    key = _authority_key(job, name)
    kept = ports.secrets.find(key, ports.now())
    if kept is not None:
        return kept[AUTHORITY_KEY]
    secret = await ports.gateway.read_secret(job.namespace, name)
    if secret is None:
        return None
    authority = secret.get(AUTHORITY_KEY, "")
    if authority:
        # The private key beside it is not kept.
        ports.secrets.keep(key, {AUTHORITY_KEY: authority}, ports.now())
    return authority


def _token_key(job: Job) -> tuple[str, str]:
    """The key of a token has its job's uid: a job that was made again has another token in the Secret of the same name."""
    return f"{job.namespace}/{job.uid}", names.token(job.name)


def _authority_key(job: Job, name: str) -> tuple[str, str]:
    """The key of an authority is not that of the Secret, of which the credentials of a storage may be another part."""
    return f"{job.namespace}/{AUTHORITY_KEY}", name


async def storage_target(ports: Ports, job: Job, accepted: Accepted) -> StorageTarget | StorageUnreadable | None:
    """Return the connection to a job's storage, or why it cannot be reached."""
    if accepted.spec is None:
        return None
    return await connection(ports, JobKey(job.namespace, job.name), accepted.spec.storage, owner_id=job.uid)


async def connection(
    ports: Ports, key: JobKey, storage: Storage, *, owner_id: str | None
) -> StorageTarget | StorageUnreadable:
    """Return the connection to the storage of a job, or why it cannot be reached.

    Args:
        ports: The ports.
        key: The job, which need not exist.
        storage: Its storage.
        owner_id: Uid of its resource; None if it does not exist.
    """
    try:
        return await _connection(ports, key, storage, owner_id)
    except errors.StateUnknownError as error:  # The API server does not let the operator read a Secret.
        return StorageUnreadable(error.reason, error.message, may_pass=not fault.needs_person(error))


async def _connection(
    ports: Ports, key: JobKey, storage: Storage, owner_id: str | None
) -> StorageTarget | StorageUnreadable:
    namespace, storage = key.namespace, defaults.storage(ports.job_defaults, storage)
    authority = await _storage_authority(ports, namespace, storage)
    if isinstance(authority, StorageUnreadable):
        return authority
    reference = storage.s3.credentials_secret_ref
    if reference is None:
        return StorageTarget(storage, namespace, key.name, None, owner_id, authority)
    credentials = ports.secrets.find((namespace, reference.name), ports.now(), STORAGE_SECRET_TTL)
    if credentials is None:
        credentials = await _read_storage_secret(ports, namespace, reference.name, (namespace, reference.name))
        # One that a person has to complete is read each time, so that this is seen.
        if credentials is not None and not _absent(credentials):
            ports.secrets.keep((namespace, reference.name), credentials, ports.now())
    if credentials is None:
        message = f"Secret {namespace}/{reference.name} does not exist; create it with the S3 credentials."
        return StorageUnreadable("CredentialsMissing", message, may_pass=False)
    if absent := _absent(credentials):
        # Without this check the S3 client would use the operator's own identity.
        message = f"Secret {namespace}/{reference.name} has no {' and no '.join(absent)}; add what is missing."
        return StorageUnreadable("CredentialsMissing", message, may_pass=False)
    return StorageTarget(storage, namespace, key.name, credentials, owner_id, authority)


async def _storage_authority(ports: Ports, namespace: str, storage: Storage) -> Authority | StorageUnreadable | None:
    """Return the authority that a storage names, or why there is none to use; None if it names none."""
    reference = storage.s3.ca_secret_ref
    if reference is None:
        return None
    secret, kept_as = f"{namespace}/{reference.name}", _storage_authority_key(namespace, reference)
    values = ports.secrets.find(kept_as, ports.now(), STORAGE_SECRET_TTL)
    if values is None:
        values = await _read_storage_secret(ports, namespace, reference.name, kept_as)
    server = storage.s3.endpoint or storage.uri
    remedy = f"put the certificate authority of {server} there, in PEM"
    if values is None:
        return StorageUnreadable(
            "CaMissing", f"Secret {secret} does not exist; create it, and {remedy}.", may_pass=False
        )
    pem = values.get(reference.key)
    if pem is None:
        return StorageUnreadable("CaMissing", f"Secret {secret} has no key {reference.key}; {remedy}.", may_pass=False)
    if why := authorities.problem(pem):
        return StorageUnreadable(
            "CaInvalid", f"The key {reference.key} of Secret {secret} {why}; {remedy}.", may_pass=False
        )
    ports.secrets.keep(kept_as, {reference.key: pem}, ports.now())
    return Authority(f"Secret {secret}, key {reference.key}", pem)


async def _read_storage_secret(
    ports: Ports, namespace: str, name: str, kept_as: tuple[str, str]
) -> Mapping[str, str] | None:
    """Return what a Secret has. One that went with its namespace had what is remembered: files are still to be deleted."""
    values = await ports.gateway.read_secret(namespace, name)
    if values is None and await ports.gateway.is_ending(namespace):
        return ports.secrets.find(kept_as, ports.now())
    return values


def _storage_authority_key(namespace: str, reference: KeyReference) -> tuple[str, str]:
    """The key of an authority is not that of the Secret, of which other keys may be another storage's."""
    return f"{namespace}/s3/{reference.key}", reference.name


def _absent(credentials: Mapping[str, str]) -> list[str]:
    """Return the keys that a Secret with credentials lacks."""
    return [key for key in base.CREDENTIAL_KEYS if not credentials.get(key)]
