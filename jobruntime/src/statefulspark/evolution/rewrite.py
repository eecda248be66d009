"""Rewrites a snapshot for a job whose plan has changed: the new path of each file, and the new small files. Pure.

Spark finds state by position: operator 0, source 1. State belongs to a uid and an offset to a source's name, so if their
positions in the plan change, the snapshot is rewritten while it is copied into the new generation: folders `state/<op>` and
`sources/<n>` are renamed, operator metadata and the commit log name the new operators, and the offset log has a line per
source of the new plan. State files contain no position and are copied unchanged. The copy is another query for Spark: it has
other batches after the cut than the query that it was copied from, and sinks know a batch by the query's id and a number.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from statefulspark.checkpoint import checksums, plans, sparklog
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.packs import names as packs

NO_OFFSET: Final = "-"
"""Line of a source that has not read anything; the source starts where its options say."""

_IDENTITY = "metadata"
"""Spark's file with the id of a query."""
_METADATA_V2 = re.compile(r"^state/\d+/_metadata/v2/\d+$")
_METADATA_V1 = re.compile(r"^state/\d+/_metadata/metadata$")
_LOG_ENTRY = re.compile(r"^(commits|offsets)/\d+$")
_NUMBERED = re.compile(r"^(state|sources)/(\d+)/(.+)$")
_SPARK_FOLDERS = frozenset({"metadata", "offsets", "commits", "sources", "state"})
_DOCUMENT: Final = TypeAdapter(dict[str, JsonValue])

Document = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How the files of one query change while they are copied into a new generation.

    Attributes:
        operators: New operator id by old one; the state of other operators is dropped.
        lines: For each source of the new plan the old line from which it continues; None starts from its options.
        source_logs: New folder by old one; the logs of other sources are dropped.
    """

    operators: Mapping[int, int]
    lines: tuple[int | None, ...]
    source_logs: Mapping[int, int]
    _new_numbers: Mapping[str, Mapping[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_new_numbers", {"state": self.operators, "sources": self.source_logs})

    @classmethod
    def identity(cls, entry: QueryEntry) -> Rewrite:
        """Return the rewrite that changes only absolute paths and the query's id."""
        operators = {
            int(match[2]) for file in entry.files if (match := _NUMBERED.match(file.path)) and match[1] == "state"
        }
        logs = {
            int(match[2]) for file in entry.files if (match := _NUMBERED.match(file.path)) and match[1] == "sources"
        }
        return cls(
            {number: number for number in operators},
            tuple(range(len(entry.offsets))),
            {number: number for number in logs},
        )

    @property
    def moves_operators(self) -> bool:
        """Whether an operator gets another id."""
        return any(old != new for old, new in self.operators.items())

    def new_path(self, path: str) -> str | None:
        """Return the new path of a file, relative to the query's root; None if the file is dropped."""
        match = _NUMBERED.match(path)
        if match is None:
            return path
        new = self._new_numbers[match[1]].get(int(match[2]))
        return None if new is None else f"{match[1]}/{new}/{match[3]}"

    def is_rewritten(self, entry: QueryEntry, path: str) -> bool:
        """Tell whether a file's content changes, or may contain an absolute path."""
        if path == _IDENTITY or _METADATA_V2.match(path):
            return True
        if _METADATA_V1.match(path):
            return self.moves_operators
        match = _LOG_ENTRY.match(path)
        if match is None:
            return False
        if match[1] == "offsets":
            return self.lines != tuple(range(len(entry.offsets)))
        operator_ids = {operator.operator_id for operator in entry.operators}
        return self.moves_operators or not operator_ids <= self.operators.keys()

    def body(self, path: str, body: bytes, source: str, new_root: str, *, query_id: str) -> bytes:
        """Return the new content of a rewritten file.

        Args:
            path: The old path of the file.
            body: Its content.
            source: URI of the file, for the error.
            new_root: Hadoop URI of the new checkpoint root.
            query_id: Spark's id of the copied query.

        Raises:
            SnapshotCorruptError: `SparkLogUnreadable`.
        """
        if path == _IDENTITY:
            return json.dumps({"id": query_id}).encode()
        if path.startswith("state/"):
            return relocate_operator(body, source, self.operators, new_root)
        if path.startswith("commits/"):
            return renumber_commit(body, source, self.operators)
        return reorder_offsets(body, source, self.lines)


def files_to_copy(entry: QueryEntry, rewrite: Rewrite) -> tuple[tuple[FileEntry, str], ...]:
    """Return each file that is copied unchanged, with its new path.

    Checksum files of rewritten files are dropped: they would not match, and Spark does not need them.
    """
    rewritten = {path for path in (file.path for file in entry.files) if rewrite.is_rewritten(entry, path)}
    stale = {sidecar for path in rewritten for sidecar in checksums.sidecars(path)}
    dropped = {operator.uid for operator in entry.operators if operator.operator_id not in rewrite.operators}
    copied = []
    for file in entry.files:
        if file.path in rewritten or file.path in stale:
            continue
        # A pack belongs to an operator by uid, so its path never changes.
        pack = packs.of_key(file.path)
        new_path = rewrite.new_path(file.path) if pack is None else None if pack[0] in dropped else file.path
        if new_path is not None:
            copied.append((file, new_path))
    return tuple(copied)


def files_to_rewrite(entry: QueryEntry, rewrite: Rewrite) -> tuple[tuple[str, str], ...]:
    """Return old and new path of each file whose content changes."""
    return tuple(
        (file.path, new_path)
        for file in entry.files
        if rewrite.is_rewritten(entry, file.path) and (new_path := rewrite.new_path(file.path)) is not None
    )


def entry_after(entry: QueryEntry, rewrite: Rewrite) -> QueryEntry:
    """Return a query with operators and offsets after the rewrite; its files are unchanged."""
    moved = []
    for operator in entry.operators:
        new = rewrite.operators.get(operator.operator_id)
        if new is not None:
            uid = plans.engine_uid(operator.name, new) if plans.has_generated_uid(operator) else operator.uid
            moved.append(operator.model_copy(update={"operator_id": new, "uid": uid}))
    retained = sorted(moved, key=lambda operator: operator.operator_id)
    lines = tuple(NO_OFFSET if line is None else entry.offsets[line] for line in rewrite.lines)
    names = tuple(entry.sources[line] for line in rewrite.lines if line is not None) if entry.sources else ()
    return entry.model_copy(
        update={
            "operators": tuple(retained),
            "offsets": lines if entry.offsets else (),
            "sources": names if len(names) == len(lines) else (),
        }
    )


def path_of_empty_state(path: str, operators: Container[int], *, version: int) -> str | None:
    """Return the new path of a state file of an empty first batch, for another state version; None if it is not needed.

    Args:
        path: A file below `state/`, relative to its own root.
        operators: Ids of the needed operators.
        version: The state version in the new root.
    """
    match = _NUMBERED.match(path)
    if match is None or match[1] != "state" or int(match[2]) not in operators:
        return None
    folder, name = posixpath.split(path)
    if name.startswith("."):
        return None
    file = sparklog.parse_state_file(name.removesuffix(".crc"))
    return path if file is None else posixpath.join(folder, f"{version}{name[name.index('_') :]}")


def holds_paths(path: str) -> bool:
    """Tell whether a file contains absolute paths and must be rewritten when it is moved."""
    return _METADATA_V2.match(path) is not None


def is_first_metadata(path: str) -> bool:
    """Tell whether a file is an operator's metadata of version 1, which is written once."""
    return _METADATA_V1.match(path) is not None


def is_spark_file(path: str) -> bool:
    """Tell whether Spark reads a file of a query's root; only this runtime reads the others."""
    return posixpath.normpath(path).split("/", 1)[0] in _SPARK_FOLDERS


def relocate_operator(body: bytes, source: str, operators: Mapping[int, int], new_root: str) -> bytes:
    """Rewrite an operator's metadata: its id, and the absolute paths of its schemas.

    Args:
        body: A file `state/<op>/_metadata/v2/<batch>` or `state/<op>/_metadata/metadata`.
        source: URI of the file, for the error.
        operators: New operator id by old one.
        new_root: Hadoop URI of the new checkpoint root, for example `s3a://bucket/prefix/delays`.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    old = sparklog.parse_operator(body, source).operator_id
    new = operators.get(old, old)
    version, document = _document(body, source)
    information = document["operatorInfo"]
    stores = document["stateStoreInfo"]
    if isinstance(information, dict) and isinstance(stores, list):
        document["operatorInfo"] = {**information, "operatorId": new}
        document["stateStoreInfo"] = [_relocated(store, source, new, new_root) for store in stores]
    return _packed(version, document)


def set_partitions(body: bytes, source: str, partitions: int) -> bytes:
    """Write the number of state partitions into an operator's metadata.

    Args:
        body: A file `state/<op>/_metadata/metadata`: Spark's offline repartition does not rewrite it (4.2.0), and an
            offline reader would miss the partitions beyond the old number.
        source: URI of the file, for the error.
        partitions: The new number.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    sparklog.parse_operator(body, source)
    version, document = _document(body, source)
    stores = document["stateStoreInfo"]
    if isinstance(stores, list):
        spread: list[JsonValue] = [
            {**store, "numPartitions": partitions} if isinstance(store, dict) else store for store in stores
        ]
        document["stateStoreInfo"] = spread
    return _packed(version, document)


def renumber_commit(body: bytes, source: str, operators: Mapping[int, int]) -> bytes:
    """Rewrite a commit: the state of each operator under its new id, without dropped operators.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    ids = sparklog.parse_commit(0, body, source).state_ids
    version, document = _document(body, source)
    if ids is not None:
        retained = sorted((operators[old], partitions) for old, partitions in ids.items() if old in operators)
        document["stateUniqueIds"] = {str(new): _as_lists(partitions) for new, partitions in retained}
    return _packed(version, document)


def add_to_commit(body: bytes, source: str, added: Mapping[int, Sequence[Sequence[str]]]) -> bytes:
    """Add the state of more operators to a commit.

    Args:
        body: The commit.
        source: URI of the file, for the error.
        added: By operator id, then partition, the unique ids of its state stores.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    present = sparklog.parse_commit(0, body, source).state_ids or {}
    version, document = _document(body, source)
    merged = {**present, **added}
    document["stateUniqueIds"] = {str(number): _as_lists(merged[number]) for number in sorted(merged)}
    return _packed(version, document)


def reorder_offsets(body: bytes, source: str, lines: Sequence[int | None]) -> bytes:
    """Rewrite an entry of the offset log for the sources of another plan.

    Args:
        body: The entry.
        source: URI of the file, for the error.
        lines: See `Rewrite`.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`: it is damaged, or has too few lines.
    """
    old = sparklog.parse_offsets(body, source)
    if any(line is not None and line >= len(old) for line in lines):
        raise sparklog.unreadable(source, f"it has lines for {len(old)} sources, and more are needed")
    version, metadata, *_ = body.decode().split("\n")
    new = [NO_OFFSET if line is None else old[line] for line in lines]
    return "\n".join([version, metadata, *new]).encode()


def _relocated(store: JsonValue, source: str, operator: int, new_root: str) -> JsonValue:
    if not isinstance(store, dict) or not isinstance(paths := store.get("stateSchemaFilePaths"), list):
        return store
    inside = (sparklog.relative_state_path(str(path), source).split("/", 2)[2] for path in paths)
    moved = [f"{new_root}/{posixpath.join('state', str(operator), path)}" for path in inside]
    return {**store, "stateSchemaFilePaths": list[JsonValue](moved)}


def _document(body: bytes, source: str) -> tuple[str, Document]:
    version, _, text = body.decode().partition("\n")
    try:
        return version, _DOCUMENT.validate_json(text)
    except ValidationError as error:
        raise sparklog.unreadable(source, error.errors()[0]["msg"]) from error


def _packed(version: str, document: Document) -> bytes:
    return f"{version}\n{json.dumps(document, separators=(',', ':'))}".encode()


def _as_lists(partitions: Sequence[Sequence[str]]) -> JsonValue:
    return [list[JsonValue](stores) for stores in partitions]
