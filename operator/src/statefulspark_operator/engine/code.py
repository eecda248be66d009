"""Looks at code that is not in the image: whether it is there, is what its checksum says, and for a ConfigMap, what it has.

A ConfigMap is read again when its watch shows a change, and before each pass that acts; without a watch, every half minute.
The watch is of that name alone, and without its content. An object is read once for each checksum.
"""

from __future__ import annotations

import json

from statefulspark import errors

from statefulspark_operator.api import names, revision
from statefulspark_operator.api.code import ONE_SOURCE_MESSAGE, CodeSource, ConfigMapCode, ObjectCode
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.cluster import config_maps, resources
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.storage_reader import StorageTarget
from statefulspark_operator.engine import observe, validate
from statefulspark_operator.engine.memory import CheckedCode
from statefulspark_operator.engine.observe import Sight
from statefulspark_operator.engine.ports import Ports
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.situation import Rejection


async def look(ports: Ports, key: JobKey, sight: Sight) -> str | Rejection | None:
    """Return the checksum of a job's code, or why it cannot run; None if the code is in the image.

    What was found a moment ago is not looked for again.

    Args:
        ports: The ports.
        key: The job.
        sight: The job as it was looked at.

    Raises:
        TransientError: The API server does not answer.
    """
    memory, source = ports.memories.of(key), resources.section(sight.resource, "spec", "job", "from")
    changes = ports.code_watches.follow(key, resources.text(source, "configMap", "name") or None)
    if not source:
        memory.code = None
        return None
    asked = json.dumps([resources.section(sight.resource, "spec", part) for part in ("job", "storage")], sort_keys=True)
    before = memory.code
    if before is not None and before.asked == asked and before.is_current(sight.now, changes):
        return before.outcome
    spec = validate.parse(sight.resource)
    if isinstance(spec, Rejection) or spec.job.from_ is None:
        return None
    outcome = await _look(ports, key, sight, spec)
    is_final = isinstance(outcome, str) and spec.job.from_.s3 is not None
    memory.code = CheckedCode(asked, outcome, sight.now, is_final=is_final, changes=changes)
    return outcome


async def _look(ports: Ports, key: JobKey, sight: Sight, spec: StatefulSparkJobSpec) -> str | Rejection:
    match spec.job.from_:
        case CodeSource(config_map=ConfigMapCode() as config_map):
            return await _look_at_config_map(ports, key, spec, config_map)
        case CodeSource(s3=ObjectCode() as source):
            return await _look_at_object(ports, sight, spec, source)
        case _:
            return Rejection("SpecInvalid", f"{ONE_SOURCE_MESSAGE}.")


async def _look_at_config_map(
    ports: Ports, key: JobKey, spec: StatefulSparkJobSpec, source: ConfigMapCode
) -> str | Rejection:
    try:
        config_map = await ports.gateway.get(resources.CONFIG_MAP, key.namespace, source.name)
        chosen = code.choose(spec, source, config_maps.files(config_map) if config_map is not None else None)
        if isinstance(chosen, code.Chosen):
            return chosen.checksum
        if source.sha256 is not None and await _is_kept(ports, key, revision.revision_of(spec)):
            return source.sha256
    except errors.StateUnknownError as error:
        return Rejection(error.reason, error.message)
    return chosen


async def _is_kept(ports: Ports, key: JobKey, revision_name: str) -> bool:
    """Tell whether the code of a revision is kept, so that it can run again whatever its ConfigMap has now."""
    copy = await ports.gateway.get(resources.CONFIG_MAP, key.namespace, names.code(key.name, revision_name))
    return copy is not None and resources.text(copy, "metadata", "labels", names.LABEL_REVISION) == revision_name


async def _look_at_object(
    ports: Ports, sight: Sight, spec: StatefulSparkJobSpec, source: ObjectCode
) -> str | Rejection:
    if revision.revision_of(spec) == sight.status.revision:
        return source.sha256  # It was kept before it ran.
    target = await observe.connection(
        ports, JobKey(sight.job.namespace, sight.job.name), spec.storage, owner_id=sight.job.uid
    )
    if not isinstance(target, StorageTarget):
        return Rejection(target.reason, f"The code of spec.job.from cannot be read: {target.message}")
    try:
        await ports.storage.check_code(target, source, spec.job.entry)
    except errors.StatefulSparkError as error:
        return Rejection(error.reason, error.message)
    return source.sha256
