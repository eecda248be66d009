"""The versions of each stored document that this release writes and reads: one row for each kind of document.

A version is raised when an older release would misread the document: a field changes its meaning, or a required field is
left out. A new field that readers may ignore does not raise it. Each kind has its own version, so an older release that
cannot read the raised one still reads all others, and a rollback of the runtime finds its owner, its epochs and every
snapshot that it can read. `docs/formats.md` describes the content of the documents; this module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.errors import FormatVersionError


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """One kind of stored document.

    Attributes:
        name: Name of this kind of document in error messages, in the plural.
        writes: The version that this release writes.
        reads: All versions that this release reads.
        counted_as: Name of the version in error messages.
    """

    name: str
    writes: int
    reads: tuple[int, ...]
    counted_as: str = "format version"

    def require_known(self, version: int, source: str) -> None:
        """Refuse a version that this release cannot read.

        Args:
            version: The version in the document.
            source: Where the document is; named in the error.

        Raises:
            FormatVersionError: This release does not read that version.
        """
        if version not in self.reads:
            first, last = min(self.reads), max(self.reads)
            raise FormatVersionError(
                "FormatVersionUnknown",
                f"{source} has {self.counted_as} {version}; this release reads "
                f"{first if first == last else f'{first} to {last}'} for {self.name}. Use the release that wrote it, or a "
                "newer one.",
            )


MANIFEST = DocumentFormat("manifests of snapshots", writes=1, reads=(1,))
"""`_metadata.json` of a checkpoint, of a native and of a canonical savepoint."""
GENERATION = DocumentFormat("generation records", writes=1, reads=(1,))
"""`generations/<n>/generation.json`."""
RESERVATION = DocumentFormat("reservations of generations", writes=1, reads=(1,))
"""`generations/<n>/reserved.json`."""
EPOCH = DocumentFormat("epoch records", writes=1, reads=(1,))
"""`epochs/<n>.json`."""
BEGINNING = DocumentFormat("notes of a beginning", writes=1, reads=(1,))
"""`epochs/began.json`."""
OWNER = DocumentFormat("owner records", writes=1, reads=(1,))
"""`owner.json`."""
LINEAGE = DocumentFormat("lineage records", writes=1, reads=(1,))
"""`lineages/<n>.json`."""
DAMAGE = DocumentFormat("damage notes", writes=1, reads=(1,))
"""`damage/<generation>-<epoch>.json`."""
PRUNE_MARKS = DocumentFormat("marks of pruning", writes=1, reads=(1,))
"""`prune/marks.json`."""
SAVEPOINT_POINTER = DocumentFormat("savepoint pointers", writes=1, reads=(1,))
"""`savepoints/<n>.json`."""
SAVEPOINT_WRITER = DocumentFormat("records of a savepoint's writer", writes=1, reads=(1,))
"""`_writer.json` in a savepoint's folder."""
CLAIM = DocumentFormat("claims of snapshots", writes=1, reads=(1,))
"""`_claim.json` in a snapshot's folder."""
CANONICAL_QUERY = DocumentFormat("canonical descriptions of a query", writes=1, reads=(1,))
"""`canonical/query.json` of a canonical savepoint, and the Parquet files that it names."""

OPERATOR_STATE = DocumentFormat("records of operator state", writes=1, reads=(1,))
"""`operator-state/<uid>/<batch>-<epoch>.json`, and the state in a segment."""
SEGMENT = DocumentFormat("headers of segments", writes=1, reads=(1,))
"""The metadata `statefulspark.segment` of a segment of a stateful source."""
PREPARED = DocumentFormat("prepared records", writes=1, reads=(1,))
"""`prepared/<uid>/<batch>-<epoch>.json`."""
OUTPUT = DocumentFormat("output records", writes=1, reads=(1,))
"""`output/<query uid>/<batch>-<epoch>.json`."""
UNCHANGED = DocumentFormat("records of unchanged state", writes=1, reads=(1,))
"""`unchanged/<uid>/<batch>-<epoch>.json`."""

STAGED_ROWS = DocumentFormat("transactions of staged rows", writes=1, reads=(1,))
"""The transaction of a Kafka or PostgreSQL sink in a prepared record."""
PREPARED_FILES = DocumentFormat("transactions of files sinks", writes=1, reads=(1,))
"""The transaction of a files sink in a prepared record."""
WRITTEN_FILES = DocumentFormat("transactions of Iceberg sinks", writes=1, reads=(1,))
"""The transaction of an Iceberg sink in a prepared record."""
COMMIT = DocumentFormat("commit files", writes=1, reads=(1,))
"""`_commits/<batch>.json` of a files sink."""
FOLDER_OWNER = DocumentFormat("records of a files sink's owner", writes=1, reads=(1,))
"""`_sink.json` of a files sink, with the marker in it."""
MARKER = DocumentFormat("markers of sinks", writes=1, reads=(1,))
"""A sink's record in its own system."""

CHUNK = DocumentFormat("chunks of keyed state", writes=1, reads=(1,))
"""A blob of `log_U`."""
HEAD = DocumentFormat("heads of key groups", writes=1, reads=(1,), counted_as="layout version")
"""The `layout` in `head_U`."""
PACK = DocumentFormat("packs of chunks", writes=1, reads=(1,))
"""The footer of `packs/<uid>/…/….pack`."""
