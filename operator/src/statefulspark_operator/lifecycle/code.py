"""Which code a spec stands for: a ConfigMap's by its content, an object's by its checksum. Pure.

A spec whose code is known is *pinned*: the checksum of the ConfigMap's content is in it, and so in its revision. Everything
after that treats another content like any other change of the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statefulspark_operator.api import code
from statefulspark_operator.api.code import ConfigMapCode
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.api.status import UpgradeStatus
from statefulspark_operator.lifecycle.situation import Rejection, Situation

MISSING = "CodeMissing"
MISMATCH = "CodeChecksumMismatch"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The code that is to run.

    Attributes:
        files: Its files by name.
        checksum: Its checksum.
    """

    files: Mapping[str, bytes]
    checksum: str


def config_map_of(spec: StatefulSparkJobSpec) -> ConfigMapCode | None:
    """Return the ConfigMap that has the job's code; None if it is elsewhere."""
    return spec.job.source.config_map if spec.job.source is not None else None


def choose(spec: StatefulSparkJobSpec, source: ConfigMapCode, files: Mapping[str, bytes] | None) -> Chosen | Rejection:
    """Choose the code among a ConfigMap's files.

    Args:
        spec: The spec.
        source: The ConfigMap that it names.
        files: The files of the ConfigMap; None if it does not exist.
    """
    name, entry = source.name, spec.job.entry
    if files is None:
        return Rejection(MISSING, f"The ConfigMap {name} that spec.job.source names does not exist; create it.")
    if entry not in files:
        there = ", ".join(sorted(files)) or "none"
        return Rejection(
            MISSING,
            f"The ConfigMap {name} has no key {entry!r}, which is the job's file; it has: {there}. Add it, or correct "
            "spec.job.",
        )
    chosen = {entry: files[entry]} if source.key is not None else files
    checksum = code.checksum_of(chosen, source.key)
    if source.sha256 not in (None, checksum):
        return Rejection(
            MISMATCH,
            f"The ConfigMap {name} has code with the checksum {checksum}, and spec.job.source.configMap.sha256 is "
            f"{source.sha256}; correct one of them, or leave sha256 out to run what the ConfigMap has.",
        )
    return Chosen(chosen, checksum)


def pin(spec: StatefulSparkJobSpec, checksum: str) -> StatefulSparkJobSpec:
    """Return a spec with the checksum of its ConfigMap's content, unless it says which content it wants.

    Args:
        spec: The spec; one whose code is elsewhere stays as it is.
        checksum: The checksum.
    """
    source = spec.job.source
    if source is None or source.config_map is None or source.config_map.sha256 is not None:
        return spec
    config_map = source.config_map.model_copy(update={"sha256": checksum})
    job = spec.job.model_copy(update={"source": source.model_copy(update={"config_map": config_map})})
    return spec.model_copy(update={"job": job})


def is_of_other_code(situation: Situation, upgrade: UpgradeStatus) -> bool:
    """Tell whether an upgrade was to other code than the job's ConfigMap has now; the spec may be the same."""
    requested = situation.withheld or situation.desired_revision
    return situation.code is not None and upgrade.to_revision != requested
