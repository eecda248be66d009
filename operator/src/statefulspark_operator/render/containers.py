"""Parts that the containers of drivers and executors share: security, credentials, variables. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from statefulspark_operator.api.spec import EnvVar, Resources, Storage
from statefulspark_operator.render.base import Manifest

USER_ID = 10001
NODE_LOSS_TOLERATION_S = 30
"""Time after which a pod is removed from a node that does not answer; Kubernetes' default is 300 s."""
WORK_FOLDER = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
CREDENTIAL_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SESSION_KEY = "AWS_SESSION_TOKEN"


def pod_security() -> Manifest:
    """Return the security context of a pod that the restricted Pod Security Standard accepts."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """Return the security context of a container that the restricted Pod Security Standard accepts."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def node_loss_tolerations() -> list[JsonValue]:
    """Return the tolerations that remove a pod soon from a node that does not answer."""
    return [_toleration("node.kubernetes.io/not-ready"), _toleration("node.kubernetes.io/unreachable")]


def _toleration(taint: str) -> Manifest:
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": NODE_LOSS_TOLERATION_S,
    }


def secret_key(name: str, key: str, *, is_optional: bool) -> Manifest:
    """Return the source of a variable whose value is a key of a Secret."""
    reference: Manifest = {"name": name, "key": key}
    return {"secretKeyRef": {**reference, "optional": True} if is_optional else reference}


def credentials(storage: Storage) -> list[JsonValue]:
    """Return the variables with the credentials of the object store; none if the pod's own identity is used."""
    if storage.credentials_secret is None:
        return []
    secret = storage.credentials_secret.name
    entries: list[JsonValue] = [
        {"name": key, "valueFrom": secret_key(secret, key, is_optional=False)} for key in CREDENTIAL_KEYS
    ]
    return [*entries, {"name": SESSION_KEY, "valueFrom": secret_key(secret, SESSION_KEY, is_optional=True)}]


def variables(given: Iterable[EnvVar]) -> list[JsonValue]:
    """Return the user's variables."""
    return [variable.model_dump(mode="json", by_alias=True, exclude_none=True) for variable in given]


def resources(given: Resources) -> JsonValue:
    """Return the resources of a container."""
    dumped: JsonValue = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
