"""The objects of a job besides its driver pod and configuration: token, Service, revision, access. Pure."""

from __future__ import annotations

import base64

from pydantic import JsonValue
from statefulspark.contract import config as job_config

from statefulspark_operator.api import names
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render import executor
from statefulspark_operator.render.base import Manifest, Subject, metadata


def token_secret(subject: Subject, token: str) -> Manifest:
    """Return the Secret with the token of the driver's API.

    Args:
        subject: The job.
        token: The token; the caller creates it, because this module is pure.
    """
    name = names.token(subject.job.name)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(subject.job, name, names.labels(subject.job.name)),
        "type": "Opaque",
        "stringData": {job_config.TOKEN_KEY: token},
    }


def network_secret(subject: Subject, secret: str) -> Manifest:
    """Return the Secret with which driver and executors authenticate each other, and encrypt what they send.

    Args:
        subject: The job.
        secret: The secret; the caller creates it, because this module is pure.
    """
    name = names.network(subject.job.name)
    # Spark's SecurityManager encodes what it reads from a file, and takes what is in a variable as it is.
    encoded = base64.b64encode(secret.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(subject.job, name, names.labels(subject.job.name)),
        "type": "Opaque",
        "stringData": {names.NETWORK_KEY: secret, names.NETWORK_EXECUTOR_KEY: encoded},
    }


def service(subject: Subject, *, epoch: int, revision: str) -> Manifest:
    """Return the headless Service with which executors and people reach the driver of an epoch.

    Executors connect before the driver is ready, so addresses are published at once; the epoch in the selector excludes
    the driver of a lost node.
    """
    job = subject.job
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, names.service(job.name), names.service_labels(job.name, revision=revision)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                names.LABEL_JOB: job.name,
                names.LABEL_ROLE: names.ROLE_DRIVER,
                names.LABEL_EPOCH: str(epoch),
            },
            "ports": [
                {"name": name, "port": port, "targetPort": name}
                for name, port in (
                    (names.API_PORT_NAME, names.API_PORT),
                    (names.METRICS_PORT_NAME, names.METRICS_PORT),
                )
            ],
        },
    }


def controller_revision(subject: Subject, *, revision: str) -> Manifest:
    """Return the object that stores the spec of a revision; its content never changes."""
    job = subject.job
    labels = {**names.labels(job.name), names.LABEL_REVISION: revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(job, names.controller_revision(job.name, revision), labels),
        "revision": job.generation,
        "data": {"spec": subject.spec.model_dump(mode="json", by_alias=True, exclude_none=True)},
    }


def access(subject: Subject) -> tuple[Manifest, ...]:
    """Return the service account of a driver that starts executors, its roles and their bindings.

    Volume claims have a role of their own, which stays when the spec no longer needs it: in an upgrade, the driver of
    the spec before still uses it.
    """
    job = subject.job
    name = names.service_account(job.name)
    account: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(job, name, names.labels(job.name)),
    }
    rights = _rights(job, name, ["pods", "configmaps", "services"])
    if not executor.makes_claims(subject.spec):
        return account, *rights
    return account, *rights, *_rights(job, names.claims_role(job.name), ["persistentvolumeclaims"])


def _rights(job: Job, name: str, resources: list[JsonValue]) -> tuple[Manifest, Manifest]:
    """Return a role over kinds of objects, and its binding to the service account of the job's driver."""
    labels = names.labels(job.name)
    role: Manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(job, name, labels),
        "rules": [
            {
                "apiGroups": [""],
                "resources": resources,
                "verbs": ["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
            }
        ],
    }
    account: JsonValue = {"kind": "ServiceAccount", "name": names.service_account(job.name), "namespace": job.namespace}
    binding: Manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(job, name, labels),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [account],
    }
    return role, binding
