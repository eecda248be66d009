"""Whose fault a failure of a driver is: one table for the driver's own page and for what the operator does about it.

A failure that is not listed is the fault of the job's revision. Pure.
"""

from __future__ import annotations

from enum import StrEnum

from statefulspark.contract.exit_codes import ExitCode


class Fault(StrEnum):
    """Whose fault a failure is."""

    REVISION = "Revision"
    """This version of the job: its code, its image or its settings. It counts against the revision."""
    SURROUNDINGS = "Surroundings"
    """What the job needs: storage, a Secret, a quota, a node, a registry, a source or a sink. It is tried again."""
    OPERATOR = "Operator"
    """The operator or its rights. It is tried again."""


_BY_CODE: dict[int, Fault] = {
    ExitCode.FENCED: Fault.SURROUNDINGS,
    ExitCode.STORAGE_UNAVAILABLE: Fault.SURROUNDINGS,
    ExitCode.SNAPSHOT_NOT_FOUND: Fault.SURROUNDINGS,
    ExitCode.STATE_UNKNOWN: Fault.SURROUNDINGS,
    ExitCode.INPUT_LOST: Fault.SURROUNDINGS,
}
STORAGE = frozenset({"AccessDenied", "CredentialsMissing", "NoSuchBucket", "StorageFailed", "StorageUnreachable"})
"""Reasons of failures of the object store."""
_BY_REASON = {
    **dict.fromkeys(STORAGE, Fault.SURROUNDINGS),
    "BatchSkipped": Fault.SURROUNDINGS,
    "ConcurrentDriver": Fault.SURROUNDINGS,
    "FormatVersionUnknown": Fault.REVISION,  # A revision of an earlier release cannot read what a later one has written.
    "PortUnavailable": Fault.SURROUNDINGS,
    "SourceOffsetUnknown": Fault.SURROUNDINGS,
    "StateDamaged": Fault.SURROUNDINGS,
}
"""By the reason, which says more than the code."""


def of_exit(code: int | None, reason: str) -> Fault:
    """Return whose fault it is that a driver fails.

    Args:
        code: The exit code that it ends with; None if it is not known.
        reason: The reason that it gives, in PascalCase.
    """
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return _BY_CODE.get(code, Fault.REVISION) if code is not None else Fault.REVISION
