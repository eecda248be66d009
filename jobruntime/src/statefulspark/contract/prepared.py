"""Records of a query's sink or sink function: what a batch prepared or left unchanged, and which batches have a record."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from statefulspark.contract import formats, layout
from statefulspark.contract.base import SealedDocument, UtcDatetime, WireModel


class PreparedRecord(SealedDocument):
    """`prepared/<uid>/<batch>-<epoch>.json` below a query's root, written before the batch is committed.

    It names its job and sink, because it is copied into savepoints, and from there into other generations and jobs.
    """

    FORMAT: ClassVar = formats.PREPARED
    format_version: int = formats.PREPARED.writes

    job: str
    """`namespace/name` of the job whose batch it is."""
    query_uid: str
    uid: str
    """Uid of the sink."""
    sink: str
    """The sink's class, for example `KafkaSink`; only this class can read the transaction."""
    generation: int = Field(ge=1)
    """Generation in which the batch ran; with `batch_id` it tells a sink what it has committed."""
    batch_id: int = Field(ge=0)
    epoch: int = Field(ge=1)
    """Epoch of the driver that prepared it."""
    prepared_at: UtcDatetime
    lineage: str
    """Identity of the root in which the batch ran."""
    transaction: str | None = None
    """The sink's own description of the transaction, JSON; absent if the batch had nothing to commit."""

    @property
    def staged(self) -> tuple[str, ...]:
        """Keys of the files with the batch's staged rows, below the query's root: the transaction names them."""
        return layout.staged_files_in(self.transaction or "")


class OpenedSink(WireModel):
    """A two-phase sink of a query, and where a driver has opened it."""

    uid: str
    kind: str
    """The sink's class, for example `KafkaSink`."""
    target: str | None = None
    """What it writes to, without credentials; absent for a sink that does not tell."""


class OutputRecord(SealedDocument):
    """`output/<query uid>/<batch>-<epoch>.json` below a query's root, written before a driver starts the query.

    From this batch on each batch has a record of each of these sinks, or of the function, so a missing record is lost.
    """

    FORMAT: ClassVar = formats.OUTPUT
    format_version: int = formats.OUTPUT.writes

    sinks: tuple[OpenedSink, ...] = ()
    """The query's two-phase sinks; none if its batches have no such records."""
    function: str | None = None
    """Uid of the query's sink function with operator state; absent if it has none."""
    batch_id: int = Field(ge=0)
    epoch: int = Field(ge=1)


class UnchangedRecord(SealedDocument):
    """`unchanged/<uid>/<batch>-<epoch>.json` below a query's root: a batch that did not change a function's state.

    It is written in place of the state, so that a missing record is known to be lost.
    """

    FORMAT: ClassVar = formats.UNCHANGED
    format_version: int = formats.UNCHANGED.writes

    record: str
    """Key of the valid state, below the query's root: `operator-state/<uid>/<batch>-<epoch>.json`."""
