"""Builders of stored documents: manifests and what they hold, and records of generations.

Each names only what matters to a test: a checkpoint of the job `default/flights`, taken at new year 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel
from statefulspark.contract import layout
from statefulspark.contract.manifest import (
    FileEntry,
    GenerationRecord,
    Manifest,
    OperatorEntry,
    QueryEntry,
    SnapshotKind,
    Trigger,
)

_Document = TypeVar("_Document", bound=BaseModel)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
TRANSFORM_WITH_STATE = "transformWithStateInPandasExec"


def a_manifest(
    number: int = 1, queries: Sequence[QueryEntry] = (), *, now: datetime = NEW_YEAR, **changes: object
) -> Manifest:
    """Build a manifest, triggered and completed at one moment."""
    fields: dict[str, object] = {
        "kind": SnapshotKind.CHECKPOINT,
        "namespace": "default",
        "job": "flights",
        "trigger": Trigger.PERIODIC,
        "epoch": 1,
        "generation": 1,
        "triggered_at": now,
        "completed_at": now,
    }
    return _build(Manifest, {"id": number, "queries": tuple(queries), **fields, **changes})


def a_query(
    uid: str = "delays",
    *operators: OperatorEntry,
    batch_id: int = 3,
    files: Mapping[str, int] | Iterable[str] = (),
    **changes: object,
) -> QueryEntry:
    """Build a query in a cut, in generation 1; files have ten bytes where no sizes are given."""
    sizes = files if isinstance(files, Mapping) else dict.fromkeys(files, 10)
    entries = tuple(FileEntry(path=path, size_bytes=size) for path, size in sizes.items())
    fields = {"path": layout.query_root(1, uid), "files": entries, "operators": operators}
    return _build(QueryEntry, {"uid": uid, "batch_id": batch_id, **fields, **changes})


def an_operator(uid: str = "mean", place: int = 0, *, partitions: int = 2, **known: object) -> OperatorEntry:
    """Build an operator of a query; what is not known is left out."""
    fields = {"uid": uid, "operator_id": place, "name": TRANSFORM_WITH_STATE, "partitions": partitions}
    return _build(OperatorEntry, fields | known)


def a_generation(
    number: int = 1,
    *,
    source: str | None = None,
    parent: int | None = None,
    queries: Sequence[QueryEntry] = (),
    **changes: object,
) -> GenerationRecord:
    """Build the record of a complete generation, which may have been restored from something of its parent."""
    fields: dict[str, object] = {"generation": number, "created_at": NEW_YEAR, "epoch": 1, "queries": tuple(queries)}
    origin = {"source": source, "restored_from": source, "parent_generation": parent}
    return _build(GenerationRecord, {**fields, **origin, **changes})


def _build(document: type[_Document], fields: Mapping[str, object]) -> _Document:
    """Make a document; reading one ignores what it does not know, and a test must not."""
    unknown = fields.keys() - document.model_fields.keys()
    assert not unknown, f"{document.__name__} has no {', '.join(sorted(unknown))}"
    return document(**fields)
