"""What was sent and what came out, read as any consumer reads it: committed records, tables, commit files, `state read`.

Nothing of the product is imported; its command line is used as a person uses it.
"""

from __future__ import annotations

import concurrent.futures
import functools
import io
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import botocore.session
import psycopg
import pyarrow.parquet
from botocore.config import Config
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyiceberg.catalog import load_catalog

from load import events
from load.compare import Results, Row
from load.truth import Account

_ANSWERS_WITHIN_S = 30.0
_TIMERS = "_timer_state/event_user-timers"
_STATES = ("totals", "latest", "kinds", "periods", "largest", "copies", "fired", "spent", _TIMERS)
_READERS = 3


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is.

    Attributes:
        servers: Bootstrap servers.
        events: Topic of the events.
        confirmations: Folder of the confirmations.
        rows: Topic of the ledger's rows.
        dsn: Database of the windows.
        endpoint: URL of the object store.
        credentials: Access key and secret key.
        output: Bucket and prefix of the files.
        catalog: Properties of the Iceberg catalog.
        command: How `statefulspark` is called.
        environment: Variables that it needs.
    """

    servers: str
    events: str
    confirmations: Path
    rows: str
    dsn: str
    endpoint: str
    credentials: tuple[str, str] = field(repr=False)
    output: tuple[str, str]
    catalog: Mapping[str, str]
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def read_sent(places: Places) -> tuple[list[events.Event], dict[int, int]]:
    """Return the events of the topic, and the times of the confirmations by number."""
    sent = [events.Event.from_json(value) for value in read_topic(places.servers, places.events)]
    lines = [line for path in sorted(places.confirmations.glob("*.jsonl")) for line in path.read_text().splitlines()]
    documents = [json.loads(line) for line in lines]
    return sent, {document["number"]: document["confirmed_ms"] for document in documents}


def read_results(places: Places, savepoint: str | None) -> Results:
    """Return everything that is visible, and the state of a canonical savepoint."""
    return Results(
        ledger=read_ledger(places),
        windows=_read_windows(places.dsn),
        confirmed=_read_files(places, "confirmed"),
        counter=_read_iceberg(places.catalog),
        accounts=_read_accounts(places, savepoint) if savepoint else None,
        counted=_read_counted(places, savepoint) if savepoint else None,
        unreported=_plain(_read_state(places, savepoint, "accounts", "unreported")) if savepoint else None,
    )


def read_ledger(places: Places) -> list[Row]:
    """Return the rows of the ledger that a reader of committed records sees."""
    return [json.loads(value) for value in read_topic(places.servers, places.rows)]


def read_topic(servers: str, topic: str) -> Iterator[bytes]:
    """Yield the committed records of a topic, partition by partition, up to the end as it is now."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "checker",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        for number in range(len(reader.list_topics(topic, _ANSWERS_WITHIN_S).topics[topic].partitions)):
            yield from _read_partition(reader, TopicPartition(topic, number, 0))
    finally:
        reader.close()


def _read_partition(reader: Consumer, partition: TopicPartition) -> Iterator[bytes]:
    reader.assign([partition])
    while True:
        message = reader.poll(_ANSWERS_WITHIN_S)
        if message is None:
            raise TimeoutError(f"no answer from {partition} within {_ANSWERS_WITHIN_S:.0f} s")
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        if error is not None:
            raise ConnectionError(f"{partition} cannot be read: {error}")
        yield message.value() or b""


def _read_windows(dsn: str) -> list[Row]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT key, begin_ms, events, total FROM windows").fetchall()
    return [dict(zip(("key", "begin_ms", "events", "total"), row, strict=True)) for row in rows]


def _read_files(places: Places, name: str) -> list[Row]:
    """Read what the commit files of a files sink list, but for those that are withdrawn."""
    bucket, prefix = places.output
    folder = f"{prefix}/{name}"
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=places.endpoint,
        region_name="us-east-1",
        aws_access_key_id=places.credentials[0],
        aws_secret_access_key=places.credentials[1],
        config=Config(s3={"addressing_style": "path"}),
    )

    def read(key: str) -> bytes:
        body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{folder}/_commits/")
    keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
    commits = [json.loads(read(key)) for key in sorted(keys)]
    files = [file["path"] for commit in commits if not commit.get("withdrawn") for file in commit["files"]]
    return [
        row for path in files for row in pyarrow.parquet.read_table(io.BytesIO(read(f"{folder}/{path}"))).to_pylist()
    ]


def _read_iceberg(properties: Mapping[str, str]) -> list[Row]:
    table = load_catalog("default", **properties).load_table("load.numbers")
    rows: list[Row] = table.scan().to_arrow().to_pylist()
    return rows


def _read_accounts(places: Places, savepoint: str) -> dict[str, Account]:
    with concurrent.futures.ThreadPoolExecutor(_READERS) as readers:
        read = functools.partial(_read_state, places, savepoint, "accounts")
        states = dict(zip(_STATES, readers.map(read, _STATES), strict=True))
    latest, kinds, periods = (_nested(states[name]) for name in ("latest", "kinds", "periods"))
    largest, copies, fired, spent = (_plain(states[name]) for name in ("largest", "copies", "fired", "spent"))
    timers = {(row["key"], _number(row["entry"])) for row in states[_TIMERS]}
    accounts = {}
    for row in states["totals"]:
        key, totals = str(row["key"]), row["value"]
        assert isinstance(totals, dict)
        accounts[key] = Account(
            events=totals["events"],
            sequence=totals["sequence"],
            balance=totals["balance"],
            latest=tuple(value for _, value in sorted(latest[key].items())),
            kinds={str(kind): count for kind, count in kinds[key].items()},
            largest=largest[key],
            copies=copies.get(key),
            fired=fired.get(key),
            open_periods=_with_timers(key, periods[key], timers),
            spent=spent.get(key),
        )
    return accounts


def _nested(rows: Sequence[Row]) -> defaultdict[str, dict[object, int]]:
    found: defaultdict[str, dict[object, int]] = defaultdict(dict)
    for row in rows:
        place = row["index"] if "index" in row else row["entry"]
        found[str(row["key"])][place] = _number(row["value"])
    return found


def _plain(rows: Sequence[Row]) -> dict[str, int]:
    return {str(row["key"]): _number(row["value"]) for row in rows}


def _with_timers(key: str, counts: Mapping[object, int], timers: Collection[tuple[object, int]]) -> dict[int, int]:
    """Return the periods that a timer will end; one without would never end, and a timer without one has nothing to end."""
    by_end = {_number(end): count for end, count in counts.items()}
    return {end: by_end.get(end, 0) for owner, end in timers if owner == key}


def _read_counted(places: Places, savepoint: str) -> list[int]:
    rows = _read_state(places, savepoint, "numbers", "next")
    counted = {_number(row["subtask"]): _number(json.loads(str(row["element"]))) for row in rows}
    return [counted[subtask] for subtask in sorted(counted)]


def _read_state(places: Places, savepoint: str, uid: str, name: str) -> list[Row]:
    command = [*places.command, "state", "read", savepoint, "--uid", uid, "--state", name, "-o", "json"]
    command += ["--endpoint", places.endpoint]
    environment = {**os.environ, **places.environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _number(value: object) -> int:
    return int(str(value))
