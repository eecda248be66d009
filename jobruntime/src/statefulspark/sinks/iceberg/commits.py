"""One commit to an Iceberg table: whether it has happened is read from the table, not from the catalog's answer.

A commit that was carried out may be answered with a conflict or a failure: whatever is between client and catalog (a
gateway, a mesh, the client of a cloud) may lose the answer and send the request again, which then meets its own result.
pyiceberg takes `CommitFailedException` and `ValidationException` for proof that nothing was committed, and deletes the
manifests of the snapshot, which may be the table's current one by then. So it is never told of them, and no file of a
commit is deleted here: what a commit leaves that did not happen is an orphan, for Iceberg's orphan file removal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyiceberg.exceptions as iceberg_errors
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.update import AddSnapshotUpdate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate


_turns: dict[str, threading.Lock] = {}


class ConflictError(Exception):
    """Another writer has committed meanwhile, and this commit did not happen."""


def turn(target: str) -> threading.Lock:
    """Return the lock of a table, to be held from its reading to the commit.

    Only one of several commits to one version of a table succeeds. The sinks of a job commit at the same time, and those
    with one table would refuse each other again and again.

    Args:
        target: Where the table is.
    """
    return _turns.setdefault(target, threading.Lock())


def append(
    table: Table,
    files: Iterable[DataFile],
    summary: Mapping[str, str],
    properties_with: Callable[[Snapshot], Mapping[str, str]],
) -> None:
    """Add a snapshot to the table and set properties of the table, both or neither; one attempt.

    Args:
        table: The table as it was read; the commit succeeds only on this version of it. The object is of no use afterwards.
        files: The data files of the snapshot.
        summary: Properties of the snapshot.
        properties_with: Returns the properties of the table with this snapshot.

    Raises:
        ConflictError: The table is at another version, and does not have the snapshot.
        Exception: What the catalog raised, if the table does not have the snapshot; or what it raised when it was asked.
            The commit may have happened.
    """
    table.catalog = _LooksAgain(table.catalog)
    transaction = table.transaction()
    with transaction.update_snapshot(snapshot_properties=dict(summary)).fast_append() as append:
        for file in files:
            append.append_data_file(file)
    snapshot = transaction.table_metadata.snapshot_by_id(append.snapshot_id)
    assert snapshot is not None  # noqa: S101 - it was added above
    transaction.set_properties(dict(properties_with(snapshot)))
    transaction.commit_transaction()


class _LooksAgain(NoopCatalog):
    """A catalog that only commits, and looks for the snapshot in the table before it passes a failure on."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog.name)
        self._catalog = catalog

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, as `Catalog.commit_table` does."""
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except Exception as error:
            # Each catalog's client has errors of its own, and none of them tells.
            stored = self._catalog.load_table(table.name())
            added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
            if all(stored.snapshot_by_id(snapshot) for snapshot in added):
                return CommitTableResponse(metadata=stored.metadata, metadata_location=stored.metadata_location)
            if isinstance(error, iceberg_errors.CommitFailedException | iceberg_errors.ValidationException):
                raise ConflictError(str(error)) from error
            raise
