"""Parts that all manifests share, and the overlay of a user's template on a rendered pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from pydantic import JsonValue

from statefulspark_operator.api import base, names
from statefulspark_operator.api.environment import EnvFromSource, EnvVar
from statefulspark_operator.api.spec import LocalDisk, PodTemplate, Resources, StatefulSparkJobSpec, Storage
from statefulspark_operator.lifecycle.situation import Job

Manifest = dict[str, JsonValue]
USER_ID = 10001
"""User and group of the images."""
MAIN = frozenset({names.DRIVER_CONTAINER, names.EXECUTOR_CONTAINER})
"""The containers that the operator renders, one in each kind of pods."""

_MERGED_BY_NAME = frozenset({"containers", "initContainers", "volumes", "env", "imagePullSecrets", "ports"})
_MERGED_BY_PATH = frozenset({"volumeMounts"})
_APPENDED = frozenset(
    {
        "tolerations",
        "envFrom",
        "preferredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingIgnoredDuringExecution",
    }
)
_HANDLERS = frozenset({"exec", "grpc", "httpGet", "tcpSocket", "sleep"})
_UNIONS = {
    "env": frozenset({"value", "valueFrom"}),
    "volumes": frozenset({"configMap", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}),
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe", "preStop", "postStart"), _HANDLERS),
}
"""Fields of which an object may have one, by the field that has the object; of volumes, those that the operator renders, and
those that give it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The job that manifests are rendered for.

    Attributes:
        job: The resource's metadata.
        spec: The spec of the revision to run.
        own: What the job itself says of it, if `spec` has the installation's defaults, too.
        cluster_id: What stands for the cluster; None if it is not known.
        user_id: User and group of the pods; None if the image or the platform says it.
        is_withheld: Whether the resource asks for another revision, so that `spec` has its restore and the rest of this one.
        goes_back: Whether the revision ran before another one, and follows that one now.
    """

    job: Job
    spec: StatefulSparkJobSpec
    cluster_id: str | None = None
    user_id: int | None = USER_ID
    own: StatefulSparkJobSpec | None = None
    is_withheld: bool = False
    goes_back: bool = False

    @property
    def own_spec(self) -> StatefulSparkJobSpec:
        """The spec without the installation's defaults."""
        return self.own or self.spec


def owner_reference(job: Job) -> Manifest:
    """Return the owner reference with which Kubernetes deletes an object together with its job."""
    return {
        "apiVersion": base.API_VERSION,
        "kind": base.KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(job: Job, name: str, labels: Mapping[str, str]) -> Manifest:
    """Return the metadata of an object that belongs to a job."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": dict(labels),
        "ownerReferences": [owner_reference(job)],
    }


def identity(merged: JsonValue, own: Manifest) -> JsonValue:
    """Return a pod's metadata with its own name, owner, labels and annotations, whatever the template says.

    Args:
        merged: The metadata with the user's template laid over it.
        own: The metadata without it.
    """
    if not isinstance(merged, dict):
        return own
    user_labels, own_labels = merged.get("labels"), own["labels"]
    if not isinstance(user_labels, dict) or not isinstance(own_labels, dict):
        return {**merged, **own}
    # A standby has no epoch, and must not get one from a template.
    foreign = {label: value for label, value in user_labels.items() if label not in names.IDENTITY_LABELS}
    fixed = {label: value for label, value in own_labels.items() if label not in names.DESCRIBING_LABELS}
    kept = {**merged, **own, "labels": {**own_labels, **foreign, **fixed}}
    user_annotations, own_annotations = merged.get("annotations"), own.get("annotations")
    if isinstance(user_annotations, dict):
        # By these the operator finds the driver's API, to which it sends the job's token.
        others = {key: value for key, value in user_annotations.items() if not key.startswith(f"{base.GROUP}/")}
        kept["annotations"] = {**others, **(own_annotations if isinstance(own_annotations, dict) else {})}
    return kept


def overlay(rendered: JsonValue, template: JsonValue, field: str = "") -> JsonValue:
    """Merge a user's template into a rendered object.

    It merges as a strategic merge patch does: objects field by field, lists of named objects by name, volume mounts by
    path. Tolerations, terms of affinity and `envFrom` are appended. A member of a union replaces the rendered one, and null
    removes a field. All other values of the template replace the rendered ones.

    Args:
        rendered: The value that the operator rendered.
        template: The value of the user's template.
        field: Name of the field that has these values.

    Returns:
        A new value; the arguments are not changed.
    """
    if isinstance(rendered, dict) and isinstance(template, dict):
        replaced = _union(field, template) - template.keys()
        merged = {name: value for name, value in rendered.items() if name not in replaced}
        for name, value in template.items():
            merged[name] = overlay(rendered[name], value, name) if name in rendered else value
        return {name: value for name, value in merged.items() if template.get(name, value) is not None}
    if isinstance(rendered, list) and isinstance(template, list):
        if field in _APPENDED:
            return [*rendered, *template]
        key = "name" if field in _MERGED_BY_NAME else "mountPath" if field in _MERGED_BY_PATH else None
        if key is None:
            return list(template)
        by_key: dict[str | None, JsonValue] = {_text(item, key): item for item in template}
        by_key.pop(None, None)
        rendered_keys = {_text(item, key) for item in rendered} - {None}
        laid_over = [
            overlay(item, by_key[own], field) if (own := _text(item, key)) in by_key else item for item in rendered
        ]
        added = [item for item in template if _text(item, key) not in rendered_keys]
        return [*laid_over, *added]
    return template


def _text(item: JsonValue, key: str) -> str | None:
    """Return a field of an object if it is a text; the API server refuses an object with another name."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None


def _union(field: str, template: Mapping[str, JsonValue]) -> Set[str]:
    """Return the fields that an object of a field must not keep beside what the template gives it."""
    union = _UNIONS.get(field, frozenset())
    is_given = template.keys() - {"name"} if field == "volumes" else union & template.keys()
    return union if is_given else frozenset()


def laid_over(rendered: Manifest, templates: Iterable[PodTemplate | None], *, record: str, container: str) -> Manifest:
    """Return a pod with the user's templates laid over it, one after the other.

    Args:
        rendered: The metadata and spec that the operator rendered.
        templates: The one of all pods, and the one of this kind of pods.
        record: What the job's own templates give to the metadata, as the pod says it; empty if nothing.
        container: The main container; the main container of another kind of pods is left out.
    """
    own: Manifest = {"annotations": {names.ANNOTATION_TEMPLATE: record}} if record else {}
    merged = overlay(rendered, {"metadata": own})
    for template in templates:
        if template is None:
            continue
        spec = template.spec or {}
        if isinstance(given := spec.get("containers"), list):
            kept = [item for item in given if _text(item, "name") not in MAIN - {container}]
            spec = {**spec, "containers": kept}
        merged = overlay(merged, {"metadata": template.metadata or {}, "spec": spec})
    manifest = merged if isinstance(merged, dict) else rendered
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": identity(manifest["metadata"], overlay(rendered["metadata"], own)),  # type: ignore[arg-type]  # an object
        "spec": manifest["spec"],
    }


def local_volume(name: str, disk: LocalDisk | None) -> JsonValue:
    """Return a volume for what goes with its pod."""
    if disk is None:
        return {"name": name, "emptyDir": {}}
    if disk.storage_class_name is None:
        return {"name": name, "emptyDir": {"sizeLimit": disk.size}}
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": disk.storage_class_name,
        "resources": {"requests": {"storage": disk.size}},
    }
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


NODE_LOSS_TOLERATION_S = 30
"""Time after which a pod is removed from a node that does not answer; Kubernetes' default is 300 s."""
WORK_FOLDER = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
CREDENTIAL_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SESSION_KEY = "AWS_SESSION_TOKEN"


def pod_security(user_id: int | None) -> Manifest:
    """Return the security context of a pod that the restricted Pod Security Standard accepts."""
    user: Manifest = {"runAsUser": user_id, "runAsGroup": user_id, "fsGroup": user_id} if user_id is not None else {}
    return {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}}


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
    if storage.s3.credentials_secret_ref is None:
        return []
    secret = storage.s3.credentials_secret_ref.name
    entries: list[JsonValue] = [
        {"name": key, "valueFrom": secret_key(secret, key, is_optional=False)} for key in CREDENTIAL_KEYS
    ]
    return [*entries, {"name": SESSION_KEY, "valueFrom": secret_key(secret, SESSION_KEY, is_optional=True)}]


_S3_CA_VOLUME = "s3-ca"
_S3_CA_FOLDER = "/etc/statefulspark-s3-ca"


def authority_file(storage: Storage) -> str | None:
    """Return the path of the authority of the object store in each pod of a job; None if the storage names none."""
    reference = storage.s3.ca_secret_ref
    return f"{_S3_CA_FOLDER}/{reference.name}/{reference.key}" if reference is not None else None


def authority_volumes(storage: Storage) -> list[JsonValue]:
    """Return the volume with that file."""
    reference = storage.s3.ca_secret_ref
    if reference is None:
        return []
    # Its path names the Secret and the key, so that an error with the path names them, too.
    items: list[JsonValue] = [{"key": reference.key, "path": f"{reference.name}/{reference.key}"}]
    return [{"name": _S3_CA_VOLUME, "secret": {"secretName": reference.name, "items": items}}]


def authority_mounts(storage: Storage) -> list[JsonValue]:
    """Return where that volume is mounted."""
    if storage.s3.ca_secret_ref is None:
        return []
    return [{"name": _S3_CA_VOLUME, "mountPath": _S3_CA_FOLDER, "readOnly": True}]


def variables(given: Iterable[EnvVar | EnvFromSource]) -> list[JsonValue]:
    """Return the user's variables, or the objects that have them."""
    return [variable.model_dump(mode="json", by_alias=True, exclude_none=True) for variable in given]


def resources(given: Resources) -> JsonValue:
    """Return the resources of a container."""
    dumped: JsonValue = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
