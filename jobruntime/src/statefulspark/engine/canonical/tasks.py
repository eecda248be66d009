"""Tasks that run on workers: they write state to Parquet parts, and build key groups from Parquet parts, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
from pyspark import TaskContext

from statefulspark import storage
from statefulspark.canonical import documents, groups, key_columns, parts, rows
from statefulspark.engine.canonical import state_tables
from statefulspark.evolution import keyed_states
from statefulspark.packs import reading
from statefulspark.state import chunks, keygroups, kinds, timers
from statefulspark.state.types import codec
from statefulspark.storage import StorageOptions

RESULT = "result string"
_ENTRY = (
    ("state", pa.int32()),
    ("key", pa.binary()),
    ("sub", pa.binary()),
    ("value", pa.binary()),
    ("renewed", pa.int64()),
)
ENTRIES = "state int, key binary, sub binary, value binary, renewed bigint"
GROUPS = "key_group int, version bigint, id string, base bigint, layout binary, blob binary, has_timers boolean"
_GROUPS_ARROW = pa.schema(
    [
        ("key_group", pa.int32()),
        ("version", pa.int64()),
        ("id", pa.string()),
        ("base", pa.int64()),
        ("layout", pa.binary()),
        ("blob", pa.binary()),
        ("has_timers", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class QueryFolder:
    """A query's folder on storage, which a worker opens.

    Attributes:
        uri: Root of the store.
        path: Path of the folder below it.
        options: Options that the store is opened with.
    """

    uri: str
    path: str
    options: StorageOptions

    def store(self) -> storage.ObjectStore:
        """Open the store."""
        return storage.open_store(self.uri, self.options)


@dataclass(frozen=True, slots=True)
class KeyedExport:
    """Writes the keyed state of one operator.

    Attributes:
        folder: Folder that the query's files are written to.
        operator: Uid of the operator.
        key_types: Spark's types of the key's columns as recorded; None if they are not known.
        max_parallelism: Number of key groups.
        packs: Folder of the query that is read, whose packs heads may name; None where there are none.
        lifetimes_ms: Time to live by state, for states whose expired entries are left out.
        now_ms: Processing time.
        flush_bytes: Size of the state that is collected before it is written.
    """

    folder: QueryFolder
    operator: str
    key_types: tuple[str, ...] | None
    max_parallelism: int
    packs: QueryFolder | None = None
    lifetimes_ms: tuple[tuple[str, int], ...] = ()
    now_ms: int = 0
    flush_bytes: int = parts.FLUSH_BYTES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write parts of rows `(key_group, version, layout | blob)`; yield a JSON text per part."""
        work = _KeyedWork(self)
        packs = None
        if self.packs is not None:
            packs = reading.PackReader(self.packs.store().child(self.packs.path), self.operator)
        reader = groups.GroupReader(self.operator, packs)
        for batch in batches:
            for group, version, layout, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                is_head = layout is not None
                finished = reader.head(group, version, layout) if is_head else reader.chunk(group, version, blob)
                yield from work.add(finished, reader)
        yield from work.add(reader.finish(), reader)
        reader.require_complete()
        yield from work.flush()


@dataclass(slots=True)
class _KeyedWork:
    task: KeyedExport
    collected: dict[kinds.StateMeta, list[rows.Row]] = field(default_factory=dict)
    sample: list[tuple[object, int]] = field(default_factory=list)
    size_bytes: int = 0
    written: int = 0

    def add(self, finished: groups.Group | None, reader: groups.GroupReader) -> Iterator[pa.RecordBatch]:
        if finished is None:
            return
        group, chunk = finished
        self.size_bytes += reader.size_bytes(group)
        alive = chunks.without_expired(chunk, dict(self.task.lifetimes_ms), self.task.now_ms)
        for meta, row in groups.read_rows(alive):
            self.collected.setdefault(meta, []).append(row)
            if len(self.sample) < key_columns.SAMPLE:
                self.sample.append((row[0], group))
        if self.size_bytes >= self.task.flush_bytes:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Write the collected rows; the result of every part names the key types that it was checked with."""
        if not self.collected:
            return
        task = self.task
        types = key_columns.resolve_types(
            task.operator, self.sample, declared=task.key_types, max_parallelism=task.max_parallelism
        )
        store, results = task.folder.store(), []
        for meta, state_rows in self.collected.items():
            # A number of its own: a state that is not migrated in all key groups is collected once for each type.
            name = documents.part_name(_task_number(), self.written)
            self.written += 1
            path = f"{documents.states_folder(task.operator, meta.name)}/{name}"
            part = parts.write(store, task.folder.path, path, rows.make_table(meta, state_rows, len(types)))
            state = documents.KeyedState(
                name=meta.name, kind=meta.kind.value, type=meta.type_text, has_ttl=meta.has_ttl, files=(part,)
            )
            results.append(json.dumps({"state": state.to_json(), "types": types}))
        self.collected, self.size_bytes = {}, 0
        yield _results(results)


def gather_states(written: Iterable[documents.KeyedState]) -> tuple[documents.KeyedState, ...]:
    """Return the states of an operator, each with all its parts.

    A state is there once for each type: a key group is migrated when it is next used, so some may have an older type.
    """
    files: dict[kinds.StateMeta, list[documents.ParquetFile]] = {}
    for state in written:
        files.setdefault(keyed_states.meta_of(state), []).extend(state.files)
    return tuple(
        documents.KeyedState(
            name=meta.name, kind=meta.kind.value, type=meta.type_text, has_ttl=meta.has_ttl, files=tuple(files[meta])
        )
        for meta in sorted(files, key=lambda meta: (meta.name, meta.type_text, meta.has_ttl))
    )


@dataclass(frozen=True, slots=True)
class FamilyExport:
    """Writes the column families of a store of one of Spark's own operators.

    Attributes:
        folder: Folder that the query's files are written to.
        folders: Folder by family.
        flush_bytes: Size of the state that is collected before it is written.
    """

    folder: QueryFolder
    folders: tuple[tuple[str, str], ...]
    flush_bytes: int = parts.FLUSH_BYTES

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write parts of `partition_key` and a column per family, in the order of `folders`; yield a JSON text per part."""
        collected: dict[str, list[pa.Table]] = {}
        ordinal, size_bytes, written = _task_number() << 40, 0, 0
        for batch in batches:
            for position, (family, _) in enumerate(self.folders, start=1):
                table = _family_rows(batch.column(0), batch.column(position), ordinal)
                if table.num_rows:
                    collected.setdefault(family, []).append(table)
            ordinal += batch.num_rows
            size_bytes += batch.nbytes
            if size_bytes >= self.flush_bytes:
                yield self._flush(collected, written)
                collected, size_bytes, written = {}, 0, written + 1
        if collected:
            yield self._flush(collected, written)

    def _flush(self, collected: dict[str, list[pa.Table]], number: int) -> pa.RecordBatch:
        store, folders = self.folder.store(), dict(self.folders)
        results = []
        for family, tables in collected.items():
            path = f"{folders[family]}/{documents.part_name(_task_number(), number)}"
            part = parts.write(store, self.folder.path, path, pa.concat_tables(tables))
            results.append(json.dumps({"family": family, "part": part.to_json()}))
        return _results(results)


def _family_rows(partition_keys: pa.Array, family: pa.Array, first: int) -> pa.Table:
    """Return the rows of a family. Parquet has no struct without fields, as which Spark has the key of a single group."""
    ordinals = pa.array(range(first, first + len(family)), pa.int64())
    numbered = pa.table({state_tables.ORDINAL: ordinals, "family": family})
    if partition_keys.type.num_fields:
        numbered = numbered.add_column(0, state_tables.PARTITION_KEY, partition_keys)
    table = numbered.filter(numbered.column("family").is_valid()).combine_chunks()
    pairs = table.column("family")
    sides = pairs.combine_chunks() if isinstance(pairs, pa.ChunkedArray) else pairs
    return table.drop_columns(["family"]).append_column("key", sides.field(0)).append_column("value", sides.field(1))


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Reads parts of keyed states as entries, with the key's columns in the types that Spark hashes.

    Attributes:
        folder: Folder of the query's files.
        states: The operator's states; the entries name them by position.
        key_types: Spark's types of the key's columns.
    """

    folder: QueryFolder
    states: tuple[documents.KeyedState, ...]
    key_types: tuple[str, ...]

    @property
    def schema(self) -> str:
        """Columns of the yielded batches."""
        kinds = map(keygroups.hashed_as, self.key_types)
        hashed = (f"hash_{index} {kind}" for index, kind in enumerate(kinds))
        return ", ".join([ENTRIES, *hashed])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the parts that the rows name as `(position of the state, position of the part)`."""
        store = self.folder.store()
        for batch in batches:
            for position, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                meta, file = keyed_states.meta_of(self.states[position]), self.states[position].files[part]
                table = parts.read(store, self.folder.path, file)
                for start in range(0, table.num_rows, 50_000):
                    piece = table.slice(start, 50_000)
                    batch_rows = list(rows.from_table(meta, piece, len(self.key_types), file.path))
                    yield self._batch(position, batch_rows)

    def _batch(self, position: int, batch_rows: list[rows.Row]) -> pa.RecordBatch:
        keys, subs, values, renewed = zip(*batch_rows, strict=True)
        entries = (
            [position] * len(batch_rows), map(codec.pack, keys), map(codec.pack, subs), map(codec.pack, values), renewed,
        )  # fmt: skip
        columns = [pa.array(column, kind) for column, (_, kind) in zip(entries, _ENTRY, strict=True)]
        split = [key_columns.parts(key, len(self.key_types)) for key in keys]
        hashed = [
            pa.array([key[index] for key in split], _arrow_type(keygroups.hashed_as(kind)))
            for index, kind in enumerate(self.key_types)
        ]
        names = [*(name for name, _ in _ENTRY), *(f"hash_{index}" for index in range(len(hashed)))]
        return pa.RecordBatch.from_arrays([*columns, *hashed], names=names)


@dataclass(frozen=True, slots=True)
class ReadFamily:
    """Reads parts of a column family without a change.

    Attributes:
        folder: Folder of the query's files.
        files: The family's parts.
    """

    folder: QueryFolder
    files: tuple[documents.ParquetFile, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the parts at the positions that the rows name."""
        store = self.folder.store()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                table = parts.read(store, self.folder.path, self.files[number])
                if state_tables.PARTITION_KEY not in table.column_names:
                    single_group = pa.array([{}] * table.num_rows, pa.struct([]))
                    table = table.add_column(0, state_tables.PARTITION_KEY, single_group)
                yield from table.to_batches(max_chunksize=10_000)


@dataclass(frozen=True, slots=True)
class BuildGroups:
    """Builds key groups from entries that are sorted by key group, which is the last column.

    Attributes:
        states: As in `ReadStates`.
        key_types: As in `ReadStates`.
    """

    states: tuple[documents.KeyedState, ...]
    key_types: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per key group: head and chunk."""
        metas = [keyed_states.meta_of(state) for state in self.states]
        current: int | None = None
        group_rows: dict[kinds.StateMeta, list[rows.Row]] = {}
        for batch in batches:
            for state, key, sub, value, renewed, group in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                if group != current and group_rows:
                    yield self._row(cast("int", current), group_rows)
                    group_rows = {}
                current = group
                row = (codec.unpack(key), codec.unpack(sub), codec.unpack(value), renewed)
                group_rows.setdefault(metas[state], []).append(row)
        if current is not None and group_rows:
            yield self._row(current, group_rows)

    def _row(self, group: int, group_rows: dict[kinds.StateMeta, list[rows.Row]]) -> pa.RecordBatch:
        stored = groups.build(group_rows, ", ".join(self.key_types))
        head = stored.head
        has_timers = any(meta.kind is timers.TIMERS for meta in group_rows)
        values = (
            keygroups.mark(group), head.version, head.unique_id, head.base, head.pack_layout(), stored.blob, has_timers,
        )  # fmt: skip
        arrays = [pa.array([value], column.type) for value, column in zip(values, _GROUPS_ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_GROUPS_ARROW)


def _arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a key column; workers have no Spark session that could convert it."""
    if kind.startswith("decimal("):
        precision, scale = (int(number) for number in kind[len("decimal(") : -1].split(","))
        return pa.decimal128(precision, scale)
    return _ARROW_TYPES[kind]


_ARROW_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Types that a key may have; see `keyed.operator`."""


def _results(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["result"])


def _task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
