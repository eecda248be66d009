"""What a person asks of a job, as a patch of its spec: what `kubectl patch` would do by hand. Pure.

A request that makes no sense in the job's state is refused before anything is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue, ValidationError
from statefulspark import errors

from statefulspark_operator.api.revision import running_spec
from statefulspark_operator.api.spark_savepoint import SparkSavepointSpec
from statefulspark_operator.api.spec import SavepointForm, StatefulSparkJobSpec
from statefulspark_operator.api.status import Phase, RevisionOutcome
from statefulspark_operator.api.upgrade import RollbackPolicy
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl.view import View
from statefulspark_operator.lifecycle import steps
from statefulspark_operator.lifecycle.decision import Reason

_RAN = (RevisionOutcome.STABLE, RevisionOutcome.RUNNING, RevisionOutcome.REPLACED)
_NO_DRIVER = (Phase.SUSPENDED, Phase.STALLED, Phase.STOPPED, Phase.DELETING)


@dataclass(frozen=True, slots=True)
class Target:
    """The revision that a rollback goes to.

    Attributes:
        revision: The revision.
        by_policy: The operator goes back by itself as soon as `spec.upgrade.rollbackPolicy` lets it, from the savepoint of
            the stop; otherwise the spec becomes that of the revision.
    """

    revision: str
    by_policy: bool = False


def savepoint(view: View, name: str | None, form: SavepointForm) -> Resource:
    """Return the object that asks for a savepoint of a job; without a driver it waits for one.

    Args:
        view: The job.
        name: Name of the object; None for one that the API server makes from that of the job.
        form: Form of the savepoint.
    """
    _require_present(view)
    named: Resource = {"name": name} if name is not None else {"generateName": f"{view.name}-"}
    asked = SparkSavepointSpec(job_name=view.name, format=form)
    return {
        "apiVersion": resources.SAVEPOINT.api_version,
        "kind": resources.SAVEPOINT.name,
        "metadata": {**named, "namespace": view.namespace},
        "spec": asked.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True),
    }


def suspend(view: View) -> Resource | None:
    """Return the patch that suspends a job; None if that is requested already."""
    _require_present(view)
    return None if view.raw_spec.get("suspend") is True else _patch(view, {"suspend": True})


def resume(view: View) -> Resource | None:
    """Return the patch that resumes a job; None if it is not suspended."""
    _require_present(view)
    return _patch(view, {"suspend": False}) if view.raw_spec.get("suspend") is True else None


def rollback_target(view: View, wanted: str | None) -> Target:
    """Choose the revision to go back to.

    Args:
        view: The job.
        wanted: A revision by name; None for the one that ran before.

    Raises:
        SpecRejectedError: `NothingToRollBack`, or `RevisionNotFound`: the history does not have it.
    """
    _require_present(view)
    upgrade, stalled = view.status.upgrade, view.status.stalled
    waits_for_rollback = stalled is not None and stalled.reason == Reason.ROLLBACK_NEEDED.word
    if waits_for_rollback and upgrade is not None and wanted in (None, upgrade.from_revision):
        return Target(upgrade.from_revision, by_policy=True)
    named = [record.revision for record in view.status.history]
    named += [upgrade.to_revision, upgrade.from_revision] if upgrade is not None else []
    named += [view.status.revision] if view.status.revision is not None else []
    revisions = tuple(dict.fromkeys(name for name in named if name))
    if wanted is not None and wanted not in revisions:
        listed = ", ".join(revisions) or "none"
        raise errors.SpecRejectedError(
            "RevisionNotFound",
            f"{view.namespace}/{view.name} has no revision {wanted!r} in its history; there are: {listed}.",
        )
    current = view.requested_revision
    target = wanted or _before(view, current)
    if target is None or target == current:
        raise errors.SpecRejectedError(
            "NothingToRollBack",
            f"The spec of {view.namespace}/{view.name} already is revision {current}, and no other revision in its history "
            "has run; nothing was changed."
            if target is None
            else f"The spec of {view.namespace}/{view.name} already is revision {target}; nothing was changed.",
        )
    return Target(target)


def _before(view: View, current: str | None) -> str | None:
    """Return the revision that ran before the spec's, or runs instead of it."""
    running, upgrade = view.status.revision, view.status.upgrade
    if running is not None and running != current:
        return running
    if upgrade is not None and upgrade.to_revision == current and upgrade.state not in steps.CARRIED_OUT:
        return upgrade.from_revision or None
    records = [record for record in view.status.history if record.outcome in _RAN]
    # What was proven to work comes first.
    records.sort(key=lambda record: record.outcome is not RevisionOutcome.STABLE)
    ran = [record.revision for record in records]
    # The history may not have the record of what ran before the latest upgrade any more.
    ran += [upgrade.from_revision] if upgrade is not None and upgrade.from_revision else []
    return next((revision for revision in ran if revision != current), None)


def rollback_by_policy(view: View) -> Resource:
    """Return the patch that lets the operator go back by itself."""
    return _patch(view, {"upgrade": {"rollbackPolicy": RollbackPolicy.AUTOMATIC.value}})


def rollback(view: View, revision: str, stored: Resource) -> Resource:
    """Return the patch that makes the spec that of a revision; what may change without a restart is kept.

    Args:
        view: The job.
        revision: The revision.
        stored: Its spec, as its ControllerRevision has it.

    Raises:
        SpecRejectedError: `RevisionUnreadable`: this release does not know all of its fields.
    """
    try:
        target = StatefulSparkJobSpec.model_validate(stored)
    except ValidationError as error:
        raise _unreadable(revision, error.errors()[0]["msg"]) from error
    if view.spec is None:
        return _patch(view, resources.merge_patch(view.raw_spec, _dumped(target)))
    changed = running_spec(view.spec, target)
    if (field := _unknown_field(stored, target.model_dump(mode="json", by_alias=True), "spec")) is not None:
        raise _unreadable(revision, f"it does not know {field}")
    return _patch(view, resources.merge_patch(_dumped(view.spec), _dumped(changed)))


def _dumped(spec: StatefulSparkJobSpec) -> Resource:
    values: Resource = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return values


def _unknown_field(stored: JsonValue, read: JsonValue, path: str) -> str | None:
    """Return the path of a field that was stored and has not been read."""
    if not isinstance(stored, dict) or not isinstance(read, dict):
        return None
    missing = [f"{path}.{name}" for name in stored if name not in read]
    deeper = (_unknown_field(value, read.get(name), f"{path}.{name}") for name, value in stored.items())
    return next((name for name in (*missing, *deeper) if name is not None), None)


def _unreadable(revision: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "RevisionUnreadable",
        f"The spec of revision {revision} cannot be restored by this release ({why}); install the release of the operator "
        "that runs. Nothing was changed.",
    )


def _require_present(view: View) -> None:
    if view.deleted_at is not None:
        raise errors.SpecRejectedError(
            "Deleting", f"{view.namespace}/{view.name} is being deleted since {view.deleted_at:%H:%M:%S} UTC."
        )


def _patch(view: View, spec: dict[str, JsonValue]) -> Resource:
    """Return a patch that is refused if somebody has changed the spec since it was read."""
    return {"metadata": {"resourceVersion": view.resource_version}, "spec": spec}
