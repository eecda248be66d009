"""Sinks in front of their real systems, one `World` each, for the contract that all of them keep.

A world knows how to make its sink (in this process and, from `recipe`, in another one), what a reader that sees committed
data only finds, and where in the sink's code a kill is worth a test.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import processes
import psycopg
import pyarrow as pa
import pyarrow.parquet as parquet
import sinkcontexts
from pyiceberg.catalog import load_catalog
from sinkcontexts import a_sink_context
from statefulspark import storage
from statefulspark.sinks import base, files, iceberg, kafka, postgres, standing
from statefulspark.sinks.files import commits as files_commits
from statefulspark.sinks.files import orphans as files_orphans
from statefulspark.sinks.kafka import records as kafka_rows
from statefulspark.sinks.kafka import sink as kafka_sink
from statefulspark.storage import StorageOptions

if TYPE_CHECKING:
    import pytest
    from kafkabroker import Broker
    from postgresserver import Postgres
    from s3server import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
_PROCESS = Path(__file__).with_name("sinkprocess.py")

Recipe = Mapping[str, object]


@dataclass(frozen=True)
class World:
    """One kind of sink and its system.

    Attributes:
        recipe: What `build` makes the sink from; JSON.
        context: Of batch 0, generation 1, epoch 1.
        read: Returns the ids that are visible.
        forget: Throws the marker away.
        left: Returns the names of what lies in the system and is not committed. Staged rows lie in the state.
        backup: Takes a backup of the system of a sink, and returns what puts it back; for Kafka its marker's offset alone.
    """

    recipe: Recipe
    context: base.SinkContext
    read: Callable[[], list[int]]
    forget: Callable[[], None]
    left: Callable[[], tuple[str, ...]]
    backup: Callable[[base.SinkContext], Callable[[], None]]

    @property
    def sink(self) -> base.TwoPhaseSink:
        """The sink, as a job would make it."""
        return build(self.recipe)

    def at(self, batch_id: int, *, generation: int = 1, epoch: int = 1) -> base.SinkContext:
        """Return the context of a batch that this epoch has written and commits."""
        context = replace(self.context, batch_id=batch_id, generation=generation, epoch=epoch)
        return sinkcontexts.by_epoch(context, epoch)

    def prepared(self, context: base.SinkContext, ids: Sequence[int]) -> bytes:
        """Write rows in two parts and return the prepared transaction."""
        half = len(ids) // 2
        parts = [self.sink.write_part(iter(_batches(some)), context) for some in (ids[:half], ids[half:])]
        transaction = self.sink.prepare(tuple(part for part in parts if part is not None), context)
        assert transaction is not None
        return transaction


class SinkProcess:
    """Another process that opens the sink and commits; see `sinkprocess.py`."""

    def __init__(self, drivers: Drivers, order: Mapping[str, object]) -> None:
        self._drivers = drivers
        self._channel = socket.socket(socket.AF_UNIX)
        self._channel.settimeout(60)
        self._channel.connect(str(drivers.address))
        self._words = self._channel.makefile("r")
        self._tell(json.dumps(order))

    def until(self, word: str) -> None:
        """Wait until the process says a word."""
        said = self._words.readline().strip()
        assert said == word, said

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Wait until the process has stopped itself, as a step says; after the block it goes on."""
        pid = int(self._words.readline())
        try:
            self._drivers.wait_until(lambda: _is_stopped(pid), "the driver has stopped itself", 30)
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def go_on(self) -> str:
        """Let a waiting process go on to its end and return what it said last."""
        self._tell("")
        return self.last_word()

    def last_word(self) -> str:
        """Wait for its end and return what it said last; nothing if it was killed."""
        said = self._words.read().strip()
        self._channel.close()
        return said

    def _tell(self, line: str) -> None:
        self._channel.sendall(f"{line}\n".encode())


class Drivers(processes.Server):
    """Starts processes by forking one that has everything imported; what they say of a crash is in its log."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "drivers"
        super().__init__("the process that forks", folder / "drivers.log")

    def command(self) -> Sequence[str]:
        """Return what to start."""
        return [sys.executable, str(_PROCESS), str(self.address)]

    def answers(self) -> bool:
        """Tell whether it takes orders."""
        return "ready" in self.output

    def fork(self, recipe: Recipe, context: base.SinkContext, steps: Sequence[Mapping[str, object]]) -> SinkProcess:
        """Start one that takes some steps."""
        plain = [_step_json(step) for step in steps]
        return SinkProcess(self, {"recipe": recipe, "context": _context_json(context), "steps": plain})

    def stop(self, number: signal.Signals | None = None, within_s: float = 15.0) -> int | None:
        """End the process; those that it started have ended, and what they said is part of the test's report."""
        code = super().stop(number, within_s)
        sys.stderr.write(self.output)
        return code


def _is_stopped(pid: int) -> bool:
    """Tell whether a process stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def build(recipe: Recipe) -> base.TwoPhaseSink:
    """Make a sink from its recipe."""
    settings = {str(key): value for key, value in recipe.items() if key != "kind"}
    makers: Mapping[str, Callable[..., base.Sink]] = {
        "kafka": lambda **given: kafka.KafkaSink(**given, serializer=kafka_rows.JsonSerializer(key="id")),
        "postgres": postgres.PostgresSink,
        "iceberg": iceberg.IcebergSink,
        "files": files.FilesSink,
    }
    return base.machine_of(makers[str(recipe["kind"])](**settings))


def of_kind(kind: str, request: pytest.FixtureRequest, s3: S3Server, folder: Path) -> World:
    """Return the world of a kind of sink, in front of a server of its own."""
    if kind == "kafka":
        broker: Broker = request.getfixturevalue("kafka")
        return kafka_world(broker, s3)
    if kind == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        return postgres_world(server.new_database(), s3)
    return iceberg_world(folder, s3) if kind == "iceberg" else files_world(s3)


def kafka_world(broker: Broker, s3: S3Server) -> World:
    """Return a sink in front of a new topic."""
    context = _context(s3)
    topic = broker.new_topic()

    def read() -> list[int]:
        return sorted(json.loads(value or b"")["id"] for _, value in broker.read(topic))

    def forget() -> None:
        broker.delete_group(f"{context.transactional_id}/marker")
        storage.open_store(context.notes_uri, context.options).delete_many([kafka_sink.NOTE])
        kafka_sink._sessions._open.clear()

    recipe = {"kind": "kafka", "topic": topic, "bootstrap_servers": broker.servers}
    return World(
        recipe,
        context,
        read,
        forget,
        lambda: (),
        lambda whose: broker.keep_offset(f"{whose.transactional_id}/marker", topic),
    )


def postgres_world(dsn: str, s3: S3Server) -> World:
    """Return a sink in front of a new table."""
    context = _context(s3)
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE words (id bigint NOT NULL, word text)")

    def read() -> list[int]:
        with psycopg.connect(dsn) as connection:
            return [row[0] for row in connection.execute("SELECT id FROM words ORDER BY id")]

    def forget() -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("DELETE FROM statefulspark_sinks")

    def backup(_: base.SinkContext) -> Callable[[], None]:
        tables = ("words", "statefulspark_sinks")
        with psycopg.connect(dsn) as connection:
            for table in tables:
                connection.execute(f"DROP TABLE IF EXISTS kept_{table}")  # type: ignore[arg-type]
                connection.execute(f"CREATE TABLE kept_{table} AS TABLE {table}")  # type: ignore[arg-type]

        def restore() -> None:
            with psycopg.connect(dsn) as connection:
                for table in tables:
                    connection.execute(f"TRUNCATE {table}")  # type: ignore[arg-type]
                    statement = f"INSERT INTO {table} TABLE kept_{table}"
                    connection.execute(statement)  # type: ignore[arg-type]

        return restore

    recipe = {"kind": "postgres", "table": "words", "dsn": dsn}
    return World(recipe, context, read, forget, lambda: (), backup)


def iceberg_world(folder: Path, s3: S3Server) -> World:
    """Return a sink in front of a new table, whose files are on S3."""
    bucket = s3.new_bucket("warehouse")
    options = s3.options()
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"s3://{bucket}/warehouse",
    }
    files = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.endpoint": str(options.endpoint),
        "s3.access-key-id": str(options.access_key),
        "s3.secret-access-key": str(options.secret_key),
        "s3.region": str(options.region),
    }
    catalog = load_catalog("default", **properties, **files)
    catalog.create_namespace("shop")
    catalog.create_table("shop.words", SCHEMA)
    context = _context(s3)

    def read() -> list[int]:
        rows = catalog.load_table("shop.words").scan().to_arrow()
        return sorted(rows.column("id").to_pylist())

    def forget() -> None:
        with catalog.load_table("shop.words").transaction() as transaction:
            transaction.remove_properties(f"statefulspark.marker.{context.transactional_id}")
            with transaction.update_snapshot().fast_append():
                pass  # Only a snapshot that is not the current one can expire.
        table = catalog.load_table("shop.words")
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()

    def left() -> tuple[str, ...]:
        table = catalog.load_table("shop.words")
        store = storage.open_store(f"s3://{bucket}", options)
        held = {task.file.file_path for task in table.scan().plan_files()}
        names = [f"s3://{bucket}/{info.key}" for info in store.list("") if info.key.endswith(".parquet")]
        return tuple(name for name in names if name not in held)

    def backup(_: base.SinkContext) -> Callable[[], None]:
        kept = catalog.load_table("shop.words").metadata_location

        def restore() -> None:
            catalog.drop_table("shop.words")
            catalog.register_table("shop.words", kept)

        return restore

    recipe = {"kind": "iceberg", "table": "shop.words", "catalog": properties}
    return World(recipe, context, read, forget, left, backup)


def files_world(s3: S3Server) -> World:
    """Return a sink in front of a new folder; its commit files are the marker, so there is none to forget."""
    context = _context(s3)
    uri = f"s3://{s3.new_bucket('files')}/out"
    store = storage.open_store(uri, context.options)

    def read() -> list[int]:
        bodies = [store.read(file.path) for commit in files_commits.read_commits(store) for file in commit.files]
        return sorted(number for body in bodies for number in parquet.read_table(io.BytesIO(body))["id"].to_pylist())

    def left() -> tuple[str, ...]:
        listed = {file.path for commit in files_commits.read_commits(store) for file in commit.files}
        return tuple(info.key for info in store.list(files_orphans.DATA) if info.key not in listed)

    def backup(_: base.SinkContext) -> Callable[[], None]:
        kept = {info.key: store.read(info.key) for info in store.list("") if not info.key.startswith("data/")}

        def restore() -> None:
            store.delete_many([info.key for info in store.list("_commits")])
            for key, body in kept.items():
                store.write(key, body)

        return restore

    return World({"kind": "files", "uri": uri}, context, read, lambda: None, left, backup)


def _context(s3: S3Server) -> base.SinkContext:
    bucket = s3.new_bucket("sinks")
    return a_sink_context(
        job=f"team/{bucket}",
        query_uid="query",
        staging_uri=f"s3://{bucket}/generations/00000001/query",
        notes_uri=f"s3://{bucket}/sinks/query/out",
        options=s3.options(),
    )


def _context_json(context: base.SinkContext) -> dict[str, object]:
    options = context.options
    assert context.descent == standing.SinkLineage(sinkcontexts.OWN), "drivers in other processes know one root only"
    left_out = ("options", "descent", "claim_of", "expected")
    plain = {name: getattr(context, name) for name in context.__dataclass_fields__ if name not in left_out}
    return plain | {"options": {name: getattr(options, name) for name in options.__dataclass_fields__}}


def _step_json(step: Mapping[str, object]) -> dict[str, object]:
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in step.items()}


def context_from(given: Mapping[str, object]) -> base.SinkContext:
    """Return the context that another process has written down."""
    options = StorageOptions(**dict(given["options"]))  # type: ignore[call-overload]
    return a_sink_context(**{**given, "options": options})


def _batches(ids: Sequence[int]) -> list[pa.RecordBatch]:
    columns = {"id": list(ids), "word": [f"word {number}" for number in ids]}
    return [pa.RecordBatch.from_pydict(columns, schema=SCHEMA)]
