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


@dataclass(frozen=True, slots=True)
class Kept:
    """Code that the spec pins, and that is kept of a revision that has run, whatever its ConfigMap has now.

    Attributes:
        checksum: Its checksum.
        ignored: Checksum of what the ConfigMap has; None if it has no such code.
    """

    checksum: str
    ignored: str | None


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


def content_of(spec: StatefulSparkJobSpec, source: ConfigMapCode, files: Mapping[str, bytes] | None) -> str | None:
    """Return the checksum of the code that a ConfigMap has; None if it has no such code."""
    if files is None or spec.job.entry not in files:
        return None
    return code.checksum_of({spec.job.entry: files[spec.job.entry]} if source.key is not None else files, source.key)


def ignored_sentence(situation: Situation) -> str:
    """Return that the ConfigMap has code that does not run, and how to run it; empty if it has none."""
    source = config_map_of(situation.spec) if situation.spec is not None else None
    if situation.ignored_code is None or source is None:
        return ""
    job, patch = situation.job, '{"spec":{"job":{"source":{"configMap":{"sha256":null}}}}}'
    command = f"kubectl -n {job.namespace} patch ssj {job.name} --type merge -p '{patch}'"
    return (
        f"ConfigMap {source.name} has other code (sha256 {situation.ignored_code[:12]}), which does not run, because "
        f"spec.job.source.configMap.sha256 pins {(source.sha256 or '')[:12]}. To run it: {command}."
    )


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
