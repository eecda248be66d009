"""Validates the resource's spec; if it is invalid, uses the last valid one and reports why the new one is rejected.

The API server already refuses most invalid specs by the CRD's rules. This module finds those that an older CRD accepted, and
those that only code can check.
"""

from __future__ import annotations

import dataclasses
import json

from pydantic import JsonValue, ValidationError
from statefulspark import errors
from statefulspark.contract import engine

from statefulspark_operator.api import memory, names, pod_metadata, resource_rules, revision
from statefulspark_operator.api.code import ONE_SOURCE_MESSAGE, CodeSource, ConfigMapCode, ObjectCode
from statefulspark_operator.api.job_defaults import JobDefaults
from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.api.spec import NAME_MAX_LENGTH, StatefulSparkJobSpec
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import calendar, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import access, observe
from statefulspark_operator.engine.memory import CheckedCode, TriedPods
from statefulspark_operator.engine.observe import Observation
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import code, fault, rollout, steps
from statefulspark_operator.lifecycle.situation import Accepted, Rejection
from statefulspark_operator.render import defaults, driver, executor, restricted
from statefulspark_operator.render.base import Manifest, Subject, overlay

MOST_REVISIONS = 4
"""Stored specs that are remembered of a job: of its driver, of its standby, and the two of an upgrade."""
LONGEST_ECHO = 200
"""How much of a wrong value a message repeats."""


def parse(resource: Resource) -> StatefulSparkJobSpec | Rejection:
    """Read and validate the spec of a resource."""
    try:
        spec = StatefulSparkJobSpec.model_validate(resources.section(resource, "spec"))
    except ValidationError as error:
        first_error = error.errors()[0]
        field = ".".join(("spec", *(str(part) for part in first_error["loc"])))
        echo = repr(first_error["input"])  # A message is no place for a whole spec.
        echo = echo if len(echo) <= LONGEST_ECHO else f"{echo[:LONGEST_ECHO]}…"
        return Rejection("SpecInvalid", f"{field}: {first_error['msg']} (found {echo}).")
    name = resources.text(resource, "metadata", "name")
    if len(name) > NAME_MAX_LENGTH:
        return Rejection("NameTooLong", f"The name {name!r} has more than {NAME_MAX_LENGTH} characters.")
    try:
        spec.checkpoint.config()
    except ValidationError as error:
        first_error = error.errors()[0]
        return Rejection("SpecInvalid", f"spec.checkpoint.{first_error['loc'][0]}: {first_error['msg']}.")
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
    problem = _resource_problem(spec) or pod_metadata.problem(spec)
    if problem is not None:
        return Rejection("SpecInvalid", f"spec.{problem}.")
    return spec


def _resource_problem(spec: StatefulSparkJobSpec) -> str | None:
    return resource_rules.problem(spec) or (memory.problem(spec.executor) if spec.executor is not None else None)


def refused_template(ports: Ports, subject: Subject) -> Rejection | None:
    """Return why the templates of a job's pods are refused by the installation; None if they are not."""
    if ports.pod_templates is PodTemplates.ANY:
        return None
    problem = restricted.job_problem(subject)
    if problem is None:
        return None
    return Rejection(
        "PodTemplateRefused",
        f"spec.{problem} is not allowed here. Leave it out, or have jobs.podTemplates set to Any in the operator's chart, "
        "with which whoever may create a job may create any pod.",
    )


def check_defaults(installation: JobDefaults) -> None:
    """Check that a job may have the installation's defaults.

    Raises:
        SpecRejectedError: It may not, whatever its own spec says.
    """
    least: dict[str, JsonValue] = {"image": "x", "job": {"file": "/x.py"}, "storage": {"uri": "s3://x/x"}}
    with_executors: dict[str, JsonValue] = {**least, "executor": {"instances": 1}}
    given = installation.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    parsed = parse({"metadata": {"name": "x"}, "spec": overlay(given, with_executors)})
    if isinstance(parsed, Rejection):
        raise errors.SpecRejectedError(parsed.reason, f"jobs.defaults of the chart: {parsed.message}")


def refused_defaults(ports: Ports, subject: Subject) -> Rejection | None:
    """Return why a spec does not go together with the installation's defaults; None if it does."""
    try:
        problem = _resource_problem(defaults.with_defaults(ports.job_defaults, subject).spec)
    except errors.SpecRejectedError as error:
        problem = error.message
    if problem is None:
        return None
    return Rejection("SpecInvalid", f"spec.{problem}, together with jobs.defaults of the operator's chart.")


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
        rolled back or aborted, or that waits for its turn, the spec of the one before, with everything that may change
        without a restart taken from the current.
    """
    parsed = parse(resource)
    if not isinstance(parsed, Rejection):
        subject = ports.subject(observe.read_metadata(resource), parsed)
        parsed = refused_template(ports, subject) or refused_defaults(ports, subject) or parsed
    if isinstance(parsed, Rejection):
        return Accepted(await _read_revision(ports, resource, status.revision), parsed, revision=status.revision)
    if isinstance(checksum, Rejection):
        running = await _read_revision(ports, resource, status.revision)
        spec = revision.running_spec(parsed, running) if running is not None else None
        return Accepted(spec, checksum, revision=status.revision)
    if checksum is None or code.config_map_of(parsed) is None:
        return await _without_withheld(ports, resource, status, parsed)
    accepted = await _without_withheld(ports, resource, status, code.pin(parsed, checksum))
    name, namespace = resources.text(resource, "metadata", "name"), resources.text(resource, "metadata", "namespace")
    checked = ports.memories.get(JobKey(namespace, name)).code
    return dataclasses.replace(accepted, code=checksum, ignored_code=checked.ignored if checked is not None else None)


async def _without_withheld(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, current: StatefulSparkJobSpec
) -> Accepted:
    requested = await name_revision(ports, resource, status, current)
    generation = resources.number(resource, "metadata", "generation")
    withheld = steps.withheld_by(status, requested) or steps.aborted_by(status, requested, generation=generation)
    running = await _read_revision(ports, resource, withheld.from_revision) if withheld is not None else None
    if withheld is None or running is None:
        refused = await _try_pods(ports, resource, status, current, requested)
        if refused is not None:
            return Accepted(await _read_revision(ports, resource, status.revision), refused, revision=status.revision)
        return await _in_turn(ports, resource, status, current, requested)
    return Accepted(revision.running_spec(current, running), revision=withheld.from_revision, withheld=requested)


async def _in_turn(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, current: StatefulSparkJobSpec, requested: str
) -> Accepted:
    """Return the current spec, or as long as its change waits for those of other jobs, that of the running revision."""
    accepted, driver = Accepted(current, revision=requested), status.driver
    if ports.rollouts.limit is None or driver is None or not rollout.must_ask(status, current, requested):
        return accepted
    running = await _read_revision(ports, resource, driver.revision)
    if running is None:
        return accepted
    for other in ports.rollouts.missing(ports.cache.jobs()) if not ports.rollouts.is_complete else ():
        shown = ports.cache.get(resources.JOB, other.namespace, other.name) or {}
        ports.rollouts.note(other, resources.text(shown, "spec", "image"), observe.read_status(shown))
    ports.rollouts.is_complete = True
    job = observe.read_metadata(resource)
    queued = ports.rollouts.ask(JobKey(job.namespace, job.name), current.image, ports.now())
    if queued is None:
        return accepted
    spec = revision.running_spec(current, running)
    return Accepted(spec, revision=driver.revision, withheld=requested, queued=queued)


async def _try_pods(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, spec: StatefulSparkJobSpec, requested: str
) -> Rejection | None:
    """Return why the API server would refuse the pods of a revision that has not run; None if it would not.

    A dry run finds it before anything is stopped: an unknown field of a pod template, a value that is none, or a policy of
    the namespace. Once for each change of the spec; what a person can mend beside the spec is looked at again.
    """
    if requested == status.revision:
        return None
    subject = defaults.with_defaults(ports.job_defaults, ports.subject(observe.read_metadata(resource), spec))
    memory = ports.memories.get(JobKey(subject.job.namespace, subject.job.name))
    change = (subject.job.uid, subject.job.generation, requested)
    if memory.tried is None or not memory.tried.is_current(change, ports.now()):
        pods = [driver.pod(subject, epoch=1, revision=requested)]
        if executor.is_encrypted(subject.spec):
            pods.append(executor.whole_pod(subject, revision=requested))
        memory.tried = TriedPods(change, await _find_refusal(ports, pods), ports.now())
    return memory.tried.refused


async def _find_refusal(ports: Ports, pods: list[Manifest]) -> Rejection | None:
    for pod in pods:
        refusal = await ports.gateway.dry_run(pod)
        if refusal is not None and fault.needs_person(refusal):
            return Rejection(refusal.reason, f"The pods of this spec would be refused: {refusal.message}")
    return None


async def name_revision(
    ports: Ports, resource: Resource, status: StatefulSparkJobStatus, spec: StatefulSparkJobSpec
) -> str:
    """Return the name of the revision of a spec.

    It is that of the revision in the status which means the same, by its stored spec, and else a hash. A stored spec is
    read only if its name is not that hash: after a change of the spec, and under an operator that judges otherwise.
    """
    hashed = revision.revision_of(spec)
    upgrade, standby = status.upgrade, status.standby
    named = [status.driver.revision if status.driver is not None else status.revision]
    named += [standby.revision] if standby is not None else []
    named += [upgrade.to_revision, upgrade.from_revision] if upgrade is not None else []
    if hashed in named:
        return hashed
    meant = revision.meaning(spec)
    for name in dict.fromkeys(named):
        stored = await _read_revision(ports, resource, name)
        if stored is not None and revision.meaning(stored) == meant:
            return name or hashed
    return hashed


async def _read_revision(ports: Ports, resource: Resource, name: str | None) -> StatefulSparkJobSpec | None:
    """Return the stored spec of a revision; None if it is not stored or cannot be read any more.

    A stored spec never changes, so the ones that were read last are kept.
    """
    if not name:
        return None
    key = JobKey(resources.text(resource, "metadata", "namespace"), resources.text(resource, "metadata", "name"))
    revisions, identity = ports.memories.get(key).revisions, f"{resources.text(resource, 'metadata', 'uid')}/{name}"
    if identity not in revisions:
        stored_as = names.controller_revision(key.name, name)
        stored = await ports.gateway.get(resources.CONTROLLER_REVISION, key.namespace, stored_as)
        if stored is None:
            return None
        while len(revisions) >= MOST_REVISIONS:
            del revisions[next(iter(revisions))]
        revisions[identity] = resources.section(stored, "data", "spec")
    try:
        return StatefulSparkJobSpec.model_validate(revisions[identity])
    except ValidationError:
        return None


async def check_code(ports: Ports, key: JobKey, observation: Observation) -> str | Rejection | None:
    """Return the checksum of a job's code, or why it cannot run; None if the code is in the image.

    What was found a moment ago is not looked for again.

    Args:
        ports: The ports.
        key: The job.
        observation: The job as it was looked at.

    Raises:
        TransientError: The API server does not answer.
    """
    memory, source = ports.memories.get(key), resources.section(observation.resource, "spec", "job", "source")
    changes = ports.follow_code(key, resources.text(source, "configMap", "name") or None)
    if not source:
        memory.code = None
        return None
    asked = json.dumps(
        [resources.section(observation.resource, "spec", part) for part in ("job", "storage")], sort_keys=True
    )
    before = memory.code
    if before is not None and before.asked == asked and before.is_current(observation.now, changes):
        return before.outcome
    spec = parse(observation.resource)
    if isinstance(spec, Rejection) or spec.job.source is None:
        return None
    ignored, outcome = None, await _find_code(ports, key, observation, spec)
    if isinstance(outcome, code.Kept):
        ignored, outcome = outcome.ignored, outcome.checksum
    is_final = isinstance(outcome, str) and spec.job.source.s3 is not None
    memory.code = CheckedCode(asked, outcome, observation.now, is_final=is_final, changes=changes, ignored=ignored)
    return outcome


async def _find_code(
    ports: Ports, key: JobKey, observation: Observation, spec: StatefulSparkJobSpec
) -> str | code.Kept | Rejection:
    match spec.job.source:
        case CodeSource(config_map=ConfigMapCode() as source):
            try:
                stored = await ports.gateway.get(resources.CONFIG_MAP, key.namespace, source.name)
                files = resources.config_map_files(stored) if stored is not None else None
                chosen = code.choose(spec, source, files)
                if isinstance(chosen, code.Chosen):
                    return chosen.checksum
                if source.sha256 is not None:  # Code that is kept can run again whatever its ConfigMap has now.
                    requested = await name_revision(ports, observation.resource, observation.status, spec)
                    kept = await ports.gateway.get(resources.CONFIG_MAP, key.namespace, names.code(key.name, requested))
                    if (
                        kept is not None
                        and resources.text(kept, "metadata", "labels", names.LABEL_REVISION) == requested
                    ):
                        return code.Kept(source.sha256, code.content_of(spec, source, files))
            except errors.StateUnknownError as error:
                return Rejection(error.reason, error.message)
            return chosen
        case CodeSource(s3=ObjectCode() as stored_code):
            named = await name_revision(ports, observation.resource, observation.status, spec)
            if named == observation.status.revision:
                return stored_code.sha256  # It was kept before it ran.
            target = await access.connection(ports, key, spec.storage, owner_id=observation.job.uid)
            if not isinstance(target, StorageTarget):
                return Rejection(target.reason, f"The code of spec.job.source cannot be read: {target.message}")
            try:
                await ports.storage.check_code(target, stored_code, spec.job.entry)
            except errors.StatefulSparkError as error:
                return Rejection(error.reason, error.message)
            return stored_code.sha256
        case _:
            return Rejection("SpecInvalid", f"{ONE_SOURCE_MESSAGE}.")
