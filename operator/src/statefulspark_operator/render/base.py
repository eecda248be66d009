"""Parts that all manifests share, and the overlay of a user's template on a rendered pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from statefulspark_operator.api import base, names
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.lifecycle.situation import Job

Manifest = dict[str, JsonValue]

_MERGED_BY_NAME = frozenset({"containers", "initContainers", "volumes", "env", "imagePullSecrets", "ports"})
_MERGED_BY_PATH = frozenset({"volumeMounts"})
_APPENDED = frozenset({"tolerations", "envFrom"})


@dataclass(frozen=True, slots=True)
class Subject:
    """The job that manifests are rendered for.

    Attributes:
        job: The resource's metadata.
        spec: The spec of the revision to run.
    """

    job: Job
    spec: StatefulSparkJobSpec


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
    kept = {**merged, **own, "labels": {**foreign, **own_labels}}
    user_annotations, own_annotations = merged.get("annotations"), own.get("annotations")
    if isinstance(user_annotations, dict):
        # By these the operator finds the driver's API, to which it sends the job's token.
        others = {key: value for key, value in user_annotations.items() if not key.startswith(f"{base.GROUP}/")}
        kept["annotations"] = {**others, **(own_annotations if isinstance(own_annotations, dict) else {})}
    return kept


def overlay(rendered: JsonValue, template: JsonValue, field: str = "") -> JsonValue:
    """Merge a user's template into a rendered object.

    Objects are merged field by field, lists of named objects by name, tolerations are appended; all other values of the
    template replace the rendered ones.

    Args:
        rendered: The value that the operator rendered.
        template: The value of the user's template.
        field: Name of the field that has these values.

    Returns:
        A new value; the arguments are not changed.
    """
    if isinstance(rendered, dict) and isinstance(template, dict):
        merged = dict(rendered)
        for name, value in template.items():
            merged[name] = overlay(rendered[name], value, name) if name in rendered else value
        return merged
    if isinstance(rendered, list) and isinstance(template, list):
        return _overlay_list(rendered, template, field)
    return template


def _overlay_list(rendered: Sequence[JsonValue], template: Sequence[JsonValue], field: str) -> list[JsonValue]:
    if field in _APPENDED:
        return [*rendered, *template]
    key = "name" if field in _MERGED_BY_NAME else "mountPath" if field in _MERGED_BY_PATH else None
    if key is None:
        return list(template)
    by_key = {item.get(key): item for item in template if isinstance(item, dict)}
    rendered_keys = {item.get(key) for item in rendered if isinstance(item, dict)}
    merged = [
        overlay(item, by_key[item.get(key)]) if isinstance(item, dict) and item.get(key) in by_key else item
        for item in rendered
    ]
    return [*merged, *(item for item in template if not isinstance(item, dict) or item.get(key) not in rendered_keys)]
