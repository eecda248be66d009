"""What is true of a query whose input is numbered: its state after so many records, and the rows that it has written.

Record n has the key `n % KEYS` and the value n, so the state after the first M records is known without running anything.
One more entry of the state tells where each stretch of records ran: since it travels with every snapshot, the state of a
cut says which rows, tagged with where they were written, belong to that cut.
"""

from __future__ import annotations

import io
import json
import posixpath
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import google_crc32c
from statefulspark.storage.port import ObjectStore

KEYS = 7
PARTITIONS = 2
HISTORY = "~history"

State = dict[str, list[list[object]] | list[int]]
Row = tuple[int, str]
"""A record's number, and the tag of the place where it was written."""


class StateDamagedError(Exception):
    """Spark's words for state that cannot be loaded."""


def after(offset: int) -> State:
    """Return the counts and sums by key after so many records."""
    counted: State = {}
    for key in range(min(KEYS, offset)):
        numbers = range(key, offset, KEYS)
        counted[str(key)] = [len(numbers), sum(numbers)]
    return counted


def partition_of(key: str) -> int:
    """Return the state partition of a key; the history is in the first."""
    return 0 if key == HISTORY else int(key) % PARTITIONS


def rows_of(state: State, offset: int) -> list[Row]:
    """Return every row of a cut, in order, with the tag of the place where it was written."""
    stretches: list[list[object]] = state.get(HISTORY, [])  # type: ignore[assignment]
    if not stretches:
        return []  # Nothing has run yet.
    ends = [*(int(str(start)) for _, start in stretches[1:]), offset]
    return [
        (number, str(tag))
        for (tag, start), end in zip(stretches, ends, strict=True)
        for number in range(int(str(start)), end)
    ]


@dataclass(frozen=True, slots=True)
class Cut:
    """A query at one committed batch, as storage has it."""

    batch: int
    offset: int
    state: State

    @property
    def rows(self) -> list[Row]:
        return rows_of(self.state, self.offset)

    @property
    def problem(self) -> str | None:
        """Say what is wrong with the state; None if it is true."""
        counted = {key: value for key, value in self.state.items() if key != HISTORY}
        if counted == after(self.offset):
            return None
        return f"the state after {self.offset} records is {counted} and should be {after(self.offset)}"


def read_cut(store: ObjectStore, root: str, batch: int) -> Cut:
    """Load a query's state at a committed batch, as Spark does: along the ids that the commits name.

    Raises:
        StateDamagedError: A file is missing or is not what was written.
    """
    if batch < 0:
        return Cut(-1, 0, {})
    return Cut(batch, read_offset(store, root, batch), _load(store, root, batch))


def read_offset(store: ObjectStore, root: str, batch: int) -> int:
    """Return the end of a batch that is planned."""
    return parse_offset(store.read(f"{root}/offsets/{batch}"), batch)


def parse_offset(body: bytes, batch: int) -> int:
    """Return the end of a batch by its entry in the offset log."""
    lines = body.decode().split("\n")
    try:
        return int(json.loads(lines[2])["offset"]) if batch >= 0 else 0
    except (ValueError, IndexError, KeyError) as error:
        raise StateDamagedError(f"java.lang.IllegalStateException: Incomplete log file offsets/{batch}") from error


def read_ids(store: ObjectStore, root: str, batch: int) -> list[str]:
    """Return the unique ids of the state of a committed batch by partition."""
    lines = store.read(f"{root}/commits/{batch}").decode(errors="replace").split("\n")
    try:
        return [ids[0] for ids in json.loads(lines[1])["stateUniqueIds"]["0"]]
    except (ValueError, IndexError, KeyError) as error:
        raise StateDamagedError(f"java.lang.IllegalStateException: Incomplete log file commits/{batch}") from error


def folder(partition: int) -> str:
    """Return the folder of a state partition below a query's root."""
    return f"state/0/{partition}"


def archive(ssts: list[tuple[str, int]]) -> bytes:
    """Return a state snapshot, which names its files."""
    files = [{"localFileName": f"{name[:6]}.sst", "dfsSstFileName": name, "sizeBytes": size} for name, size in ssts]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("metadata", f"v1\n{json.dumps({'sstFiles': files, 'numKeys': 1})}")
    return buffer.getvalue()


def checksum(body: bytes) -> bytes:
    """Return the file that Spark writes beside a state file."""
    return json.dumps({"algorithm": "CRC32C", "value": google_crc32c.value(body), "mainFileSize": len(body)}).encode()


def _load(store: ObjectStore, root: str, batch: int) -> State:
    state: State = {}
    for partition in range(PARTITIONS):
        state |= _load_partition(store, root, batch, partition)
    return state


def _load_partition(store: ObjectStore, root: str, batch: int, partition: int) -> State:
    changes: list[Mapping[str, list[int]]] = []
    base: State = {}
    for version in range(batch + 1, 0, -1):
        unique_id = read_ids(store, root, version - 1)[partition]
        stem = f"{root}/{folder(partition)}/{version}_{unique_id}"
        if store.info(f"{stem}.zip") is not None:
            base = _load_snapshot(store, f"{stem}.zip")
            break
        changes.append(json.loads(_guarded(store, f"{stem}.changelog")))
    for one in reversed(changes):
        base |= one
    return base


def _load_snapshot(store: ObjectStore, key: str) -> State:
    try:
        with zipfile.ZipFile(io.BytesIO(_guarded(store, key))) as opened:
            files = json.loads(opened.read("metadata").decode().split("\n")[1])["sstFiles"]
    except zipfile.BadZipFile as error:
        raise StateDamagedError("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] java.util.zip.ZipException") from error
    bodies = [_present(store, f"{posixpath.dirname(key)}/SSTs/{file['dfsSstFileName']}") for file in files]
    for body, file in zip(bodies, files, strict=True):
        if len(body) != file["sizeBytes"]:
            raise StateDamagedError("[CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE] an SST file")
    return _loads(bodies[-1])


def sst(state: State) -> bytes:
    """Return a file of a state snapshot; like RocksDB's it carries a checksum of its own."""
    body = json.dumps(state)
    return json.dumps([body, google_crc32c.value(body.encode())]).encode()


def _loads(body: bytes) -> State:
    try:
        text, expected = json.loads(body)
        if google_crc32c.value(text.encode()) == expected:
            loaded: State = json.loads(text)
            return loaded
    except (ValueError, TypeError, AttributeError):
        pass
    raise StateDamagedError("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] org.rocksdb.RocksDBException: Corruption")


def _guarded(store: ObjectStore, key: str) -> bytes:
    body = _present(store, key)
    if store.info(f"{key}.crc") is not None and store.read(f"{key}.crc") != checksum(body):
        raise StateDamagedError(f"[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] {key}")
    return body


def _present(store: ObjectStore, key: str) -> bytes:
    if store.info(key) is None:
        raise StateDamagedError(f"[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] {key}")
    return store.read(key)
