"""Parsers of Spark's own files in a checkpoint root: offset log, commit log, operator metadata, snapshot archives.

Written for Spark 4.1 to 4.3 with state checkpoint format 2, and version 1 of the offset log. Pure: every parser takes
bytes and returns values. Spark writes each of these files with one PUT, so an unreadable file was damaged later; it never
means "not written yet".
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from statefulspark import errors, ziplimits
from statefulspark.contract import layout

DEFAULT_STORE = "default"
"""Name of a state store whose files are directly in the partition's folder; others have a folder of their own."""

_STATE_FILE = re.compile(r"^(\d+)_([0-9a-fA-F-]{36})\.(zip|changelog)$")
_IMMUTABLE_FILE = re.compile(r"[A-Za-z0-9_-]+\.(sst|log)")
"""`000012.sst` where it is written, `000012-<unique id>.sst` on the store; `.log` for what RocksDB has not sorted yet."""
_SHOWN = 200
_LOG_FILE = re.compile(r"^(\d+)(\.compact)?$")

_LARGEST_METADATA = 256 * 1024 * 1024
"""Bytes: a million files in one snapshot have less."""
_LARGEST_DIRECTORY = 1024 * 1024
"""Bytes of the zip's table of contents: Spark puts a dozen files into it."""
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    LookupError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
"""What the standard library raises for an archive that is damaged, encrypted, or compressed in another way."""

_KAFKA_POSITIONS = TypeAdapter(dict[str, dict[int, int]])

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of the commit log.

    Attributes:
        batch_id: The committed batch; its state has version `batch_id + 1`.
        state_ids: By operator id, then partition, the unique ids of its state stores; None if the entry was written
            without state checkpoint format 2.
    """

    batch_id: int
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] | None


@dataclass(frozen=True, slots=True)
class StateFile:
    """Parsed name of a state file: `<version>_<unique id>.zip` or `.changelog`."""

    version: int
    unique_id: str
    is_snapshot: bool


@dataclass(frozen=True, slots=True)
class SstFile:
    """A file that a state snapshot needs: its name below `SSTs/` and its size."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """Parsed name of an entry in a log folder: `<number>` or `<number>.compact`."""

    number: int
    is_compact: bool


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """Spark's metadata of one stateful operator."""

    operator_id: int
    name: str
    store_names: tuple[str, ...]
    partitions: int
    schema_paths: tuple[str, ...]
    variables: tuple[str, ...]

    @property
    def uid(self) -> str:
        """The uid of a keyed operator of this runtime, from its variables' names; else `<name>-<operator id>`."""
        uids = (layout.operator_of_variable(variable) for variable in self.variables)
        return next((uid for uid in uids if uid is not None), f"{self.name}-{self.operator_id}")


class _Raw(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class _RawCommit(_Raw):
    state_unique_ids: dict[int, tuple[tuple[str, ...], ...]] | None = None


class _RawOffsetMetadata(_Raw):
    conf: dict[str, str] = {}


class _RawOperatorInfo(_Raw):
    operator_id: int
    operator_name: str


class _RawStore(_Raw):
    store_name: str
    num_partitions: int
    state_schema_file_paths: tuple[str, ...] = ()


class _RawOperator(_Raw):
    operator_info: _RawOperatorInfo
    state_store_info: tuple[_RawStore, ...]
    operator_properties_json: str | None = None


class _RawVariable(_Raw):
    state_name: str


class _RawProperties(_Raw):
    state_variables: tuple[_RawVariable, ...] = ()


class _RawSst(_Raw):
    dfs_sst_file_name: str
    size_bytes: int
    local_file_name: str | None = None


class _RawStateLog(_Raw):
    dfs_log_file_name: str
    local_file_name: str | None = None


class _RawArchive(_Raw):
    sst_files: tuple[_RawSst, ...] = ()
    log_files: tuple[_RawStateLog, ...] = ()


def parse_commit(batch_id: int, body: bytes, source: str) -> Commit:
    """Parse an entry of the commit log.

    Args:
        batch_id: The batch in the file's name.
        body: Content of the file.
        source: URI of the file, for the error.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`: empty, cut short or damaged.
    """
    lines = _versioned_lines(body, source)
    return Commit(batch_id, _validated(_RawCommit, lines[0] if lines else "", source).state_unique_ids)


def parse_offsets(body: bytes, source: str) -> tuple[str, ...]:
    """Return one line per source of an offset log entry; `-` means that a source had no data yet.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    lines = _versioned_lines(body, source)
    if len(lines) < 2:
        raise unreadable(source, "it names no source")
    for line in lines:
        try:
            if line != "-":
                json.loads(line)
        except (ValueError, RecursionError) as error:
            raise unreadable(source, f"a line is not JSON ({error})") from error
    return tuple(lines[1:])


def kafka_positions(line: str) -> dict[str, dict[int, int]] | None:
    """Read one source's line of an offset log entry, as Spark's Kafka source writes it: `{"clicks":{"0":17}}`.

    Args:
        line: The line; `-` before the source had data.

    Returns:
        The next offset to read by partition, by topic; None if another source has written it.
    """
    if line.strip() in ("", "-"):
        return {}
    try:
        return _KAFKA_POSITIONS.validate_json(line)
    except ValidationError:
        return None


def pinned_partitions(body: bytes, source: str) -> int | None:
    """Return the number of state partitions that an offset log entry pins for the query; None if it pins none.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    text = pinned_settings(body, source).get("spark.sql.shuffle.partitions", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def pinned_settings(body: bytes, source: str) -> Mapping[str, str]:
    """Return the settings that an offset log entry pins for the query.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    lines = _versioned_lines(body, source)
    return _validated(_RawOffsetMetadata, lines[0] if lines else "", source).conf


def parse_operator(body: bytes, source: str) -> OperatorMetadata:
    """Parse an operator's metadata, version 1 (`_metadata/metadata`) or 2 (`_metadata/v2/<batch>`).

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    lines = _versioned_lines(body, source)
    raw = _validated(_RawOperator, lines[0] if lines else "", source)
    properties = _validated(_RawProperties, raw.operator_properties_json or "{}", source)
    return OperatorMetadata(
        operator_id=raw.operator_info.operator_id,
        name=raw.operator_info.operator_name,
        store_names=tuple(store.store_name for store in raw.state_store_info),
        partitions=max((store.num_partitions for store in raw.state_store_info), default=0),
        schema_paths=tuple(path for store in raw.state_store_info for path in store.state_schema_file_paths),
        variables=tuple(variable.state_name for variable in properties.state_variables),
    )


def relative_state_path(path: str, source: str) -> str:
    """Return the part of an absolute path from `state/<operator>/_stateSchema/` on.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`: the path is not of that form.
    """
    match = re.search(r"/(state/\d+/_stateSchema/.+)$", path)
    if not match:
        raise unreadable(source, f"the schema path {path!r} is not below state/<operator>/_stateSchema")
    return match.group(1)


def parse_snapshot_archive(body: bytes, source: str) -> tuple[SstFile, ...]:
    """Return the SST files that a state snapshot `<version>_<id>.zip` needs.

    Spark joins the names in it to folders of the machine that loads it, as they are. So a name that Spark would not write is
    refused here; `StateTables` asks again when Spark writes the file, since the object may be another one by then.

    Raises:
        SnapshotCorruptError: `SparkLogUnreadable`.
    """
    try:
        ziplimits.require_directory(body, _LARGEST_DIRECTORY)
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if archive.getinfo("metadata").file_size > _LARGEST_METADATA:
                raise unreadable(source, f"its entry 'metadata' says that it has more than {_LARGEST_METADATA} bytes")
            metadata = archive.read("metadata")
    except _NO_ARCHIVE as error:
        raise unreadable(source, f"it is not a readable zip archive with an entry 'metadata' ({error})") from error
    lines = _versioned_lines(metadata, source)
    archived = _validated(_RawArchive, lines[0] if lines else "", source)
    tables = [name for file in archived.sst_files for name in (file.local_file_name, file.dfs_sst_file_name)]
    logs = [name for file in archived.log_files for name in (file.local_file_name, file.dfs_log_file_name)]
    for name in (*tables, *logs):
        if name is not None and _IMMUTABLE_FILE.fullmatch(name) is None:
            raise unreadable(
                source,
                f"it names the file {name[:_SHOWN]!r}, and Spark's names have no folder, and end with .sst or .log",
            )
    return tuple(SstFile(file.dfs_sst_file_name, file.size_bytes) for file in archived.sst_files)


def parse_state_file(name: str) -> StateFile | None:
    """Parse the name of a state file; None if it is another file."""
    match = _STATE_FILE.match(name)
    return StateFile(int(match.group(1)), match.group(2), match.group(3) == "zip") if match else None


def parse_log_file(name: str) -> LogFile | None:
    """Parse the name of a log entry; None if it is another file."""
    match = _LOG_FILE.match(name)
    return LogFile(int(match.group(1)), match.group(2) is not None) if match else None


def file_source_position(line: str) -> int | None:
    """Return the log position in a file source's offset line `{"logOffset":7}`; None for other sources."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    position = value.get("logOffset") if isinstance(value, dict) else None
    return position if isinstance(position, int) else None


def _versioned_lines(body: bytes, source: str) -> list[str]:
    try:
        version, *lines = body.decode().split("\n")
    except UnicodeDecodeError as error:
        raise unreadable(source, "it is not UTF-8") from error
    if not re.fullmatch(r"v\d+", version.strip()):
        raise unreadable(source, f"it does not begin with a version ({len(body)} bytes)")
    return [line.strip() for line in lines if line.strip()]


def _validated(model: type[_Model], text: str, source: str) -> _Model:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise unreadable(source, error.errors()[0]["msg"]) from error


def unreadable(source: str, why: str) -> errors.SnapshotCorruptError:
    """Return the error for a damaged file of Spark."""
    return errors.SnapshotCorruptError(
        "SparkLogUnreadable",
        f"{source} cannot be read: {why}. Spark writes it in one step, so it was damaged later; start from an older "
        "snapshot.",
    )
