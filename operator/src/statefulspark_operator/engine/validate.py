"""Turns the resource's spec into a checked one, or keeps the last good one and says what is wrong with the new.

Most wrong specs never get here: the API server refuses them by the CRD's own rules. This catches what slipped through
an older CRD, and what only code can check.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError
from statefulspark.contract import engine

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import NAME_MAX_LENGTH, StatefulSparkJobSpec
from statefulspark_operator.api.status import StatefulSparkJobStatus
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.engine.world import World
from statefulspark_operator.lifecycle.situation import Rejection


@dataclass(frozen=True, slots=True)
class Accepted:
    """What will be carried out.

    Attributes:
        spec: The current spec, or the last good one; None if there is neither.
        rejection: Why it is not the current one.
    """

    spec: StatefulSparkJobSpec | None
    rejection: Rejection | None = None


def parse(resource: Resource) -> StatefulSparkJobSpec | Rejection:
    """Read and check the spec of a resource."""
    try:
        spec = StatefulSparkJobSpec.model_validate(resources.section(resource, "spec"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("spec", *(str(part) for part in first["loc"])))
        return Rejection("SpecInvalid", f"{where}: {first['msg']} (found {first['input']!r}).")
    name = resources.text(resource, "metadata", "name")
    if len(name) > NAME_MAX_LENGTH:
        return Rejection("NameTooLong", f"The name {name!r} has more than {NAME_MAX_LENGTH} characters.")
    refused = engine.find_refused(spec.spark_conf)
    if refused:
        return Rejection("SettingRefused", f"sparkConf: {refused[0].key} cannot be set: {refused[0].reason}.")
    return spec


async def validate(world: World, resource: Resource, status: StatefulSparkJobStatus) -> Accepted:
    """Choose the spec to carry out.

    Args:
        world: For the last good spec, which is kept in the cluster.
        resource: The resource.
        status: Its status.

    Returns:
        The current spec if it is good; otherwise the last good one and the reason.
    """
    parsed = parse(resource)
    if isinstance(parsed, StatefulSparkJobSpec):
        return Accepted(parsed)
    return Accepted(await _last_good(world, resource, status), parsed)


async def _last_good(world: World, resource: Resource, status: StatefulSparkJobStatus) -> StatefulSparkJobSpec | None:
    if status.revision is None:
        return None
    namespace = resources.text(resource, "metadata", "namespace")
    name = names.controller_revision(resources.text(resource, "metadata", "name"), status.revision)
    kept = await world.gateway.get(resources.CONTROLLER_REVISION, namespace, name)
    if kept is None:
        return None
    try:
        return StatefulSparkJobSpec.model_validate(resources.section(kept, "data", "spec"))
    except ValidationError:
        return None
