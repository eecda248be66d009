"""Validates the resource's spec; if it is invalid, uses the last valid one and reports why the new one is rejected.

The API server already refuses most invalid specs by the CRD's rules. This module finds those that an older CRD accepted, and
those that only code can check.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pydantic import ValidationError
from statefulspark import errors
from statefulspark.contract import engine

from statefulspark_operator.api import memory, names, resource_rules, revision
from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.api.spec import NAME_MAX_LENGTH, StatefulSparkJobSpec
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.api.upgrade import STATELESS_MESSAGE, UpgradeMode
from statefulspark_operator.cluster import calendar, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import code, steps
from statefulspark_operator.lifecycle.situation import Job, Rejection
from statefulspark_operator.render import restricted
from statefulspark_operator.render.base import Subject

LONGEST_ECHO = 200
"""How much of a wrong value a message repeats."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The spec that the operator carries out.

    Attributes:
        spec: The current spec, or the last valid one; None if there is neither.
        rejection: Why the current spec is rejected; None if it is valid.
        withheld: Revision of the current spec, if it was refused, rolled back or aborted, so that the one before
            is carried out.
        code: Checksum of the code in the ConfigMap of the current spec; None if it is elsewhere.
    """

    spec: StatefulSparkJobSpec | None
    rejection: Rejection | None = None
    withheld: str | None = None
    code: str | None = None


def parse(resource: Resource) -> StatefulSparkJobSpec | Rejection:
    """Read and validate the spec of a resource."""
    try:
        spec = StatefulSparkJobSpec.model_validate(resources.section(resource, "spec"))
    except ValidationError as error:
        first_error = error.errors()[0]
        field = ".".join(("spec", *(str(part) for part in first_error["loc"])))
        return Rejection("SpecInvalid", f"{field}: {first_error['msg']} (found {_cut(first_error['input'])}).")
    name = resources.text(resource, "metadata", "name")
    if len(name) > NAME_MAX_LENGTH:
        return Rejection("NameTooLong", f"The name {name!r} has more than {NAME_MAX_LENGTH} characters.")
    if spec.upgrade.mode is UpgradeMode.STATELESS and not spec.restore.fresh_state:
        return Rejection("SpecInvalid", f"{STATELESS_MESSAGE}.")
    schedule = spec.savepoint.schedule
    if schedule is not None:
        try:
            calendar.read(schedule.cron, schedule.time_zone)
        except errors.SpecRejectedError as error:
            return Rejection(error.reason, f"spec.savepoint.schedule: {error.message}")
    refused = (*engine.find_refused(spec.spark_conf), *engine.find_plain(spec.spark_conf))
    if refused:
        return Rejection("SettingRefused", f"sparkConf: {refused[0].key} cannot be set: {refused[0].reason}.")
    shown = engine.find_secret(spec.job.parameters)
    if shown:
        return Rejection("SettingRefused", f"job.parameters: {shown[0].key} cannot be set: {shown[0].reason}.")
    problem = resource_rules.problem(spec) or memory.problem(spec.executor)
    if problem is not None:
        return Rejection("SpecInvalid", f"spec.{problem}.")
    return spec


def refused_template(ports: Ports, subject: Subject) -> Rejection | None:
    """Return why the templates of a job's pods are refused by the installation; None if they are not."""
    if ports.pod_templates is PodTemplates.ANY:
        return None
    problem = restricted.of_job(subject)
    if problem is None:
        return None
    return Rejection(
        "PodTemplateRefused",
        f"spec.{problem} is not allowed here. Leave it out, or have jobs.podTemplates set to Any in the operator's chart, "
        "with which whoever may create a job may create any pod.",
    )


def _cut(value: object) -> str:
    """Return a value for a message, which is no place for a whole spec."""
    text = repr(value)
    return text if len(text) <= LONGEST_ECHO else f"{text[:LONGEST_ECHO]}…"


def _job(resource: Resource) -> Job:
    namespace, name = (resources.text(resource, "metadata", part) for part in ("namespace", "name"))
    uid, generation = resources.text(resource, "metadata", "uid"), resources.number(resource, "metadata", "generation")
    return Job(namespace, name, uid, generation)


async def validate(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, checksum: str | Rejection | None = None
) -> Accepted:
    """Choose the spec to carry out.

    Args:
        ports: Used to read the last valid spec, which is stored in the cluster.
        resource: The resource.
        status: Its status.
        checksum: Checksum of its code, or why that cannot run; None if it is in the image.

    Returns:
        The current spec if it is valid; otherwise the last valid one and the reason. If only its code cannot run, that of
        the revision that ran last, with everything else that may change without a restart. Of a revision that was refused,
        rolled back or aborted, the spec of the one before, with everything that may change without a restart taken from the
        current.
    """
    parsed = parse(resource)
    if not isinstance(parsed, Rejection):
        parsed = refused_template(ports, Subject(_job(resource), parsed)) or parsed
    if isinstance(parsed, Rejection):
        return Accepted(await _read_revision(ports, resource, status.revision), parsed)
    if isinstance(checksum, Rejection):
        running = await _read_revision(ports, resource, status.revision)
        return Accepted(revision.running_spec(parsed, running) if running is not None else None, checksum)
    if checksum is None or code.config_map_of(parsed) is None:
        return await _without_withheld(ports, resource, status, parsed)
    accepted = await _without_withheld(ports, resource, status, code.settle(parsed, checksum))
    return dataclasses.replace(accepted, code=checksum)


async def _without_withheld(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, current: StatefulSparkJobSpec
) -> Accepted:
    requested = revision.revision_of(current)
    generation = resources.number(resource, "metadata", "generation")
    withheld = steps.withheld_by(status, requested) or steps.aborted_by(status, requested, generation=generation)
    running = await _read_revision(ports, resource, withheld.from_revision) if withheld is not None else None
    if running is None:
        return Accepted(current)
    return Accepted(revision.running_spec(current, running), withheld=requested)


async def _read_revision(ports: Ports, resource: Resource, name: str | None) -> StatefulSparkJobSpec | None:
    """Return the stored spec of a revision; None if it is not stored or cannot be read any more.

    A stored spec never changes, so the one that was read last is kept.
    """
    if name is None:
        return None
    key = JobKey(resources.text(resource, "metadata", "namespace"), resources.text(resource, "metadata", "name"))
    memory, identity = ports.memories.of(key), f"{resources.text(resource, 'metadata', 'uid')}/{name}"
    if memory.revision is None or memory.revision[0] != identity:
        stored_as = names.controller_revision(key.name, name)
        stored = await ports.gateway.get(resources.CONTROLLER_REVISION, key.namespace, stored_as)
        if stored is None:
            return None
        memory.revision = (identity, resources.section(stored, "data", "spec"))
    try:
        return StatefulSparkJobSpec.model_validate(memory.revision[1])
    except ValidationError:
        return None
