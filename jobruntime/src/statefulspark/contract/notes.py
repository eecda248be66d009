"""Small records about snapshots: who claimed one, where one is, and which one Spark could not load."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from statefulspark.contract import formats
from statefulspark.contract.base import StoredDocument, UtcDatetime

CLAIM_NAME = "_claim.json"
"""Name of the claim inside a snapshot's folder."""


WRITER_NAME = "_writer.json"
"""Name of the record inside a savepoint's folder that names its writer."""


class SavepointWriter(StoredDocument):
    """`_writer.json` in a savepoint's folder, created before its first file: the only driver that writes there."""

    FORMAT: ClassVar = formats.SAVEPOINT_WRITER
    format_version: int = formats.SAVEPOINT_WRITER.writes

    root: str
    """URI of the job's root."""
    epoch: int = Field(ge=1)
    """Epoch of the driver in that root."""


class ClaimRecord(StoredDocument):
    """`_claim.json` in a snapshot's folder: the job that started from the snapshot and owns it now."""

    FORMAT: ClassVar = formats.CLAIM
    format_version: int = formats.CLAIM.writes

    root: str
    """URI of the job's root."""
    owner_id: str
    """Uid of the Kubernetes resource, or `local` outside a cluster."""
    claimed_at: UtcDatetime


class SavepointPointer(StoredDocument):
    """`savepoints/<number>.json`: a number that belongs to a savepoint outside the job's root."""

    FORMAT: ClassVar = formats.SAVEPOINT_POINTER
    format_version: int = formats.SAVEPOINT_POINTER.writes

    location: str
    """URI of the savepoint's folder; it may have been moved or deleted since."""


class BeginningNote(StoredDocument):
    """`epochs/began.json`: a generation was made here, so a root without one has lost its state."""

    FORMAT: ClassVar = formats.BEGINNING
    format_version: int = formats.BEGINNING.writes

    generation: int = Field(ge=1)
    """The generation in use when the note was written: the first."""
    epoch: int = Field(ge=1)
    noted_at: UtcDatetime


class DamageNote(StoredDocument):
    """`damage/<generation>-<epoch>.json`: a driver's queries ended because Spark could not load their state."""

    FORMAT: ClassVar = formats.DAMAGE
    format_version: int = formats.DAMAGE.writes

    generation: int = Field(ge=1)
    epoch: int = Field(ge=1)
    query: str
    """Uid of the query."""
    batch_id: int
    """The committed batch whose state was loaded."""
    said: str
    """Spark's message, in one sentence."""
    noted_at: UtcDatetime
