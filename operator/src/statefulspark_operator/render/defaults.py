"""The installation's defaults beneath the spec of a job. Pure.

A job is judged by its own spec alone: what has changed, what a revision is, and what is stored of it. The defaults come in
where its pods are rendered and its storage is opened. A change of the defaults therefore restarts no job; it takes effect at
the job's next start.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from pydantic import ValidationError
from statefulspark import errors

from statefulspark_operator.api.base import ApiModel
from statefulspark_operator.api.job_defaults import JobDefaults
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.render.base import Subject, overlay

Model = TypeVar("Model", bound=ApiModel)


def with_defaults(defaults: JobDefaults, subject: Subject) -> Subject:
    """Return a job with the defaults beneath its spec.

    Fields, variables and labels of the job come first. Tolerations and `envFrom` of the defaults are kept beside its own.

    Raises:
        SpecRejectedError: `SpecInvalid`: the spec does not go together with the defaults.
    """
    has_executors = subject.spec.executor is not None
    given = defaults if has_executors else defaults.model_copy(update={"executor": JobDefaults().executor})
    return dataclasses.replace(subject, spec=_beneath(given, subject.spec), own=subject.own_spec)


def storage(defaults: JobDefaults, own: Storage) -> Storage:
    """Return a storage with the defaults for reaching its server."""
    return _beneath(defaults.storage, own)


def _beneath(defaults: ApiModel, own: Model) -> Model:
    given = defaults.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if not given:
        return own
    merged = overlay(given, own.model_dump(mode="json", by_alias=True, exclude_none=True))
    try:
        return type(own).model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise errors.SpecRejectedError("SpecInvalid", f"{field}: {first['msg']}") from error
