"""The labels and annotations that pod templates give to pods, also to pods that run.

A pod has a record of what its job's templates gave it, in an annotation. A change is the difference between that record and
what the templates give now. Everything else stays: keys of the operator and of Spark, keys that a person or another
controller has written, and values of the templates that somebody has replaced. Server-side apply cannot remove a key that a
pod was created with, because the creator owns it, too. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pydantic import Field, JsonValue, ValidationError

from statefulspark_operator.api import names
from statefulspark_operator.api.base import GROUP, ApiModel
from statefulspark_operator.api.spec import PodTemplate, StatefulSparkJobSpec

Changes = dict[str, str | None]
"""New values by key; None removes the key."""
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})?[A-Za-z0-9]")
_PREFIX = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
MOST_BYTES = 100 * 1024
"""Kubernetes takes 256 KiB of annotations, and the record has them once more."""
_MOST_OF_A_POD = 220 * 1024
"""For both templates of a pod and their record; the rest is left to the installation and to other controllers."""


class PodMetadata(ApiModel):
    """What templates give to a pod."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Values by key, without keys that the operator or Spark set."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """The same."""

    @property
    def record(self) -> str:
        """The annotation that says it; empty if there is nothing to say."""
        is_empty = not self.labels and not self.annotations
        return "" if is_empty else self.model_dump_json(by_alias=True, exclude_defaults=True)


_NOTHING = PodMetadata()


def given(templates: Iterable[PodTemplate | None]) -> PodMetadata:
    """Return what templates give to a pod, the later ones over the earlier ones."""
    parts = [template.metadata or {} for template in templates if template is not None]
    return PodMetadata(
        labels={key: value for key, value in _merged(parts, "labels").items() if not _is_label_of_others(key)},
        annotations={
            key: value for key, value in _merged(parts, "annotations").items() if not key.startswith(f"{GROUP}/")
        },
    )


def of_drivers(spec: StatefulSparkJobSpec) -> PodMetadata:
    """Return what the templates of a job give to its driver and its standby."""
    return given((spec.pod_template, spec.driver.pod_template))


def of_executors(spec: StatefulSparkJobSpec) -> PodMetadata:
    """Return what the templates of a job give to its executors."""
    return given((spec.pod_template, spec.executor.pod_template if spec.executor is not None else None))


def changes(
    pod: Mapping[str, JsonValue], given_now: PodMetadata, beneath: PodMetadata = _NOTHING
) -> tuple[Changes, Changes]:
    """Return what has to change in the labels and annotations of a pod.

    Args:
        pod: Its metadata, as the API server has it.
        given_now: What the job's templates give to it.
        beneath: What it has where they give nothing: the installation's defaults.
    """
    labels, annotations = _texts(pod.get("labels")), _texts(pod.get("annotations"))
    try:
        before = PodMetadata.model_validate_json(annotations.get(names.ANNOTATION_TEMPLATE) or "{}")
    except ValidationError:
        before = PodMetadata()  # Somebody has written over it. What it named before stays.
    described = _differences(before.annotations, given_now.annotations, annotations, beneath.annotations)
    return (
        _differences(before.labels, given_now.labels, labels, beneath.labels),
        {**described, names.ANNOTATION_TEMPLATE: given_now.record or None},
    )


def problem(spec: StatefulSparkJobSpec) -> str | None:
    """Return what Kubernetes refuses in the templates' metadata, as a part of a sentence; None if there is nothing."""
    templates = {"podTemplate": spec.pod_template, "driver.podTemplate": spec.driver.pod_template}
    if spec.executor is not None:
        templates["executor.podTemplate"] = spec.executor.pod_template
    problems = (
        f"{field}.metadata.{refused}"
        for field, template in templates.items()
        if template is not None
        for refused in _problems(template.metadata or {})
    )
    return next(problems, None) or _size_problem(spec)


def _size_problem(spec: StatefulSparkJobSpec) -> str | None:
    for kind, described in (("driver", of_drivers(spec)), ("executor", of_executors(spec))):
        if _size_bytes(described.annotations) + len(described.record.encode()) > _MOST_OF_A_POD:
            return (
                f"podTemplate and spec.{kind}.podTemplate have too many annotations for a pod, which also has a record of "
                "them, with each quote as two characters; shorten them"
            )
    return None


def _size_bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(f"{key}{value}".encode()) for key, value in annotations.items())


def _problems(metadata: Mapping[str, JsonValue]) -> Iterator[str]:
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield f"{field} has to be an object with a text for each key"
            return
        for key, value in values.items():
            prefix, separator, name = key.rpartition("/")
            if _NAME.fullmatch(name) is None or (separator and _PREFIX.fullmatch(prefix.lower()) is None):
                yield f"{field}: {key!r:.100} is no key: use letters, digits, '-', '_' and '.', at most 63 of them"
            if not isinstance(value, str | None):
                yield f"{field}: the value of {key} has to be a text; put it in quotes"
            elif field == "labels" and value and _NAME.fullmatch(value) is None:
                yield f"labels: {value!r:.100} is no value of a label: use letters, digits, '-', '_' and '.', at most 63"
    if _size_bytes(_texts(metadata.get("annotations"))) > MOST_BYTES:
        yield f"annotations: at most {MOST_BYTES // 1024} KiB"


def _merged(parts: Iterable[Mapping[str, JsonValue]], field: str) -> dict[str, str]:
    merged: dict[str, JsonValue] = {}
    for part in parts:
        values = part.get(field)
        merged |= values if isinstance(values, dict) else {}
    return dict(sorted(_texts(merged).items()))


def _texts(values: JsonValue) -> dict[str, str]:
    return {key: value for key, value in values.items() if isinstance(value, str)} if isinstance(values, dict) else {}


def _is_label_of_others(key: str) -> bool:
    return key in names.OPERATOR_LABELS or key.startswith((f"{GROUP}/", names.SPARK_PREFIX))


def _differences(
    before: Mapping[str, str], now: Mapping[str, str], present: Mapping[str, str], beneath: Mapping[str, str]
) -> Changes:
    """Return what to set and to remove. A value that somebody else has replaced stays."""
    added: Changes = {key: value for key, value in now.items() if before.get(key) != value}
    removed = {key: beneath.get(key) for key, value in before.items() if key not in now and present.get(key) == value}
    return {**added, **removed}
