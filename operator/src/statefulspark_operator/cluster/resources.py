"""Kubernetes objects as JSON, and safe access to their fields. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue
from statefulspark import errors

from statefulspark_operator.api import base

Resource = dict[str, JsonValue]
_NO_NAMES = ("", ".", "..")
_SEPARATORS = frozenset("/?#%\\")


def may_be_name(name: str) -> bool:
    """Tell whether an object can have a name. In the path of a request, any other text leads to other objects.

    Kubernetes refuses most of these names for every kind (`IsValidPathSegmentName`), and the others for the kinds here.
    """
    return name not in _NO_NAMES and _SEPARATORS.isdisjoint(name)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object and its path in the API.

    Attributes:
        api_version: For example `apps/v1`.
        name: For example `Pod`.
        plural: For example `pods`.
    """

    api_version: str
    name: str
    plural: str

    @property
    def qualified(self) -> str:
        """The kind as `kubectl -o name` writes it."""
        return f"{self.name.lower()}.{self.api_version.partition('/')[0]}"

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of the collection in a namespace, None for all of them, or of one object in it.

        Raises:
            SpecRejectedError: `ObjectNameInvalid`: no object can have that name.
        """
        for given, what in ((namespace, "Namespace"), (name, self.name)):
            if given is not None and not may_be_name(given):
                raise errors.SpecRejectedError("ObjectNameInvalid", f"{given!r} cannot be the name of a {what}.")
        prefix = "/api" if "/" not in self.api_version else "/apis"
        within = ["namespaces", namespace] if namespace is not None else []
        parts = [prefix, self.api_version, *within, self.plural, name, subresource]
        return "/".join(part for part in parts if part is not None)


JOB = Kind(base.API_VERSION, base.KIND, base.PLURAL)
SAVEPOINT = Kind(base.API_VERSION, base.SAVEPOINT_KIND, base.SAVEPOINT_PLURAL)
POD = Kind("v1", "Pod", "pods")
SECRET = Kind("v1", "Secret", "secrets")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
SERVICE = Kind("v1", "Service", "services")
EVENT = Kind("v1", "Event", "events")
NAMESPACE = Kind("v1", "Namespace", "namespaces")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
ROLE = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")

KINDS: Mapping[tuple[str, str], Kind] = {
    (kind.api_version, kind.name): kind
    for kind in (
        JOB,
        SAVEPOINT,
        POD,
        SECRET,
        CONFIG_MAP,
        SERVICE,
        EVENT,
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        CONTROLLER_REVISION,
        NETWORK_POLICY,
        LEASE,
    )
}


def kind_of(resource: Resource) -> Kind:
    """Return the kind of a manifest."""
    return KINDS[(text(resource, "apiVersion"), text(resource, "kind"))]


def find(value: JsonValue, *path: str) -> JsonValue:
    """Return the value at a path; None when a part of the path is missing."""
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(value: JsonValue, *path: str) -> str:
    """Return the text at a path; empty when there is none."""
    content = find(value, *path)
    return content if isinstance(content, str) else ""


def number(value: JsonValue, *path: str) -> int:
    """Return the integer at a path; 0 when there is none."""
    content = find(value, *path)
    return content if isinstance(content, int) and not isinstance(content, bool) else 0


def section(value: JsonValue, *path: str) -> Resource:
    """Return the object at a path; empty when there is none."""
    content = find(value, *path)
    return content if isinstance(content, dict) else {}


def items(value: JsonValue, *path: str) -> tuple[Resource, ...]:
    """Return the objects in the list at a path; empty when there is none."""
    content = find(value, *path)
    return tuple(item for item in content if isinstance(item, dict)) if isinstance(content, list) else ()


def time(value: JsonValue, *path: str) -> datetime | None:
    """Return the time at a path in UTC; None when there is none."""
    timestamp = text(value, *path)
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).astimezone(UTC) if timestamp else None


def server_message(content: bytes) -> str:
    """Return what an answer of the API server says, for people."""
    try:
        return text(json.loads(content), "message") or "no message"
    except ValueError:
        return content[:200].decode(errors="replace").strip() or "no message"


def has_owner(resource: Resource, uid: str) -> bool:
    """Tell whether an object names another one as its owner."""
    return any(owner.get("uid") == uid for owner in items(resource, "metadata", "ownerReferences"))


def merge_patch(before: Resource, after: Resource) -> Resource:
    """Return the JSON merge patch (RFC 7386) that turns one object into another.

    Args:
        before: The current object.
        after: The new object; it contains no null.

    Returns:
        Only the differences; null for fields to remove.
    """
    patch: Resource = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if nested := merge_patch(old, value):
                patch[name] = nested
        elif name not in before or old != value:
            patch[name] = value
    return patch


def config_map_files(config_map: Resource) -> dict[str, bytes]:
    """Return the content of every key, as a volume of the ConfigMap would have it.

    Args:
        config_map: The object; the API server takes only base64 as `binaryData`.
    """
    text = {name: str(value).encode() for name, value in section(config_map, "data").items()}
    binary = section(config_map, "binaryData")
    return text | {name: base64.b64decode(str(value)) for name, value in binary.items()}
