"""The record of a prepared transaction: what a sink needs to commit a batch, or to give it up."""

from __future__ import annotations

from pydantic import Field

from statefulspark.contract.base import StoredDocument, UtcDatetime


class PreparedRecord(StoredDocument):
    """`prepared/<uid>/<batch>-<epoch>.json` below a query's root, written before the batch is committed.

    It says itself whose it is, since it travels: into savepoints, and from there into other generations and jobs.
    """

    job: str
    """`namespace/name` of the job whose batch it is."""
    query_uid: str
    uid: str
    """Of the sink."""
    sink: str
    """The sink's class, for example `KafkaSink`; nobody else can read the transaction."""
    generation: int = Field(ge=1)
    """In which the batch ran; with `batch_id` it tells a sink what it has committed."""
    batch_id: int = Field(ge=0)
    epoch: int = Field(ge=1)
    """The driver's epoch that prepared it."""
    prepared_at: UtcDatetime
    lineage: str | None = None
    """Identity of the root in which the batch ran; absent in records of releases without lineages."""
    root: str | None = None
    """URI of that root: where the batch's rows are staged."""
    transaction: str | None = None
    """The sink's own words, JSON; absent if this attempt at the batch had nothing to commit, where an earlier one may
    have had."""
