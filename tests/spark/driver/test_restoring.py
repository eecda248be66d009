"""A start that restores a checkpoint into a new generation, on real Spark and real files, asked over HTTP how far it is.

The store copies one file after the other, and between two of them somebody asks, as a person would who waits.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
import statefulspark as ss
from fakecontrol import TOKEN
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from restores import a_restore
from statefulspark import clock
from statefulspark.contract import api, config
from statefulspark.driver.loop import JobLoop
from statefulspark.driver.starting import claim, controls, start, start_parts
from statefulspark.driver.status import Ending
from statefulspark.server.http import ApiServer
from statefulspark.server.tokens import FixedToken
from statefulspark.storage.port import ObjectStore
from statefulspark.testing import stores

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.spark

BATCHES, PARTITIONS = 3, 8


class Count(ss.KeyedProcessFunction):
    """Counts the rows of each key."""

    def open(self, ctx: ss.KeyedContext) -> None:
        self._seen = ctx.value_state("seen", int)

    def process(self, key: object, rows: Sequence[ss.InputRow], ctx: ss.KeyedContext) -> Iterable[object]:
        seen = (self._seen.get() or 0) + len(rows)
        self._seen.update(seen)
        yield key, seen


class WatchedCopies(stores.FaultyStore):
    """Copies one file after the other, and has somebody look before each."""

    def __init__(self, wrapped: ObjectStore, look: Callable[[], None]) -> None:
        super().__init__(wrapped)
        self._look = look

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        for done, pair in enumerate(pairs, start=1):
            self._look()
            super().copy_from(source, [pair])
            if on_progress:
                on_progress(done)


@dataclass
class World:
    """A job that counts, one file a batch, its storage and Spark."""

    spark: SparkSession
    folder: Path

    def job(self) -> ss.Job:
        job = ss.Job("counted")

        @job.query(uid="counts")
        def counts(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
            rows = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(self.folder / "in"))
            counted = ss.keyed_process(
                rows,
                key="key",
                function=Count(),
                uid="counted",
                schema="key string, seen bigint",
                max_parallelism=PARTITIONS,
            )
            sink = ss.sinks.FilesSink((self.folder / "out").as_uri())
            return ss.write(counted, sink=sink, uid="out", trigger="100ms")

        return job

    def feed(self) -> None:
        (self.folder / "in").mkdir()
        for number in range(BATCHES):
            (self.folder / "in" / f"{number}.json").write_text(json.dumps({"key": f"k{number % 3}"}))

    def job_config(self, restore: config.RestoreConfig | None = None) -> config.JobConfig:
        return config.JobConfig(
            name="counted",
            storage=config.StorageConfig(uri=(self.folder / "state").as_uri(), allow_local_files=True),
            checkpoint=config.CheckpointConfig(interval=timedelta(days=30)),
            restore=restore or config.RestoreConfig(),
        )

    def live(
        self,
        job_config: config.JobConfig,
        control: controls.StartControl,
        store_of: Callable[[ObjectStore], ObjectStore],
    ) -> Ending:
        """Start as a driver does, have every file read, and end with a checkpoint."""
        started_at, at = clock.utc_now(), control.steps.begin

        def root() -> start_parts.JobRoot:
            claimed = claim.claim(job_config, started_at)
            return replace(claimed, store=store_of(claimed.store))

        def serve(loop: JobLoop, _: config.JobConfig) -> Ending:
            control.hand_over(loop)
            threading.Thread(target=drained_once_read, args=(loop,), daemon=True).start()
            return loop.run()

        compared = start.up_to_comparison(
            self.job().definition, job_config, root, session_of=lambda *_: self.spark, begin_step=at
        )
        return start.start(start.prepare(job_config, compared, started_at, begin_step=at), serve, begin_step=at)


def drained_once_read(loop: JobLoop) -> None:
    while any(query.batch_id < BATCHES - 1 for query in loop.status().queries):
        time.sleep(0.05)
    loop.drain()


def asked(port: int) -> api.JobStatus:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
        return api.JobStatus.model_validate_json(connection.getresponse().read())
    finally:
        connection.close()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    usual = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    made = World(spark, tmp_path)
    made.feed()
    first = made.job_config()
    assert made.live(first, controls.StartControl(first, clock.utc_now(), epoch=1), lambda store: store).is_clean
    yield made
    spark.conf.set("spark.sql.shuffle.partitions", usual)


def test_a_restore_is_seen_to_get_further_file_by_file(world: World) -> None:
    wish = world.job_config(a_restore(snapshot="checkpoint:1", nonce="again"))
    moments = itertools.count(0, controls.RENEWED_S)
    control = controls.StartControl(wish, clock.utc_now(), epoch=2, elapsed_s=lambda: float(next(moments)))
    server = ApiServer(control, tokens=FixedToken(TOKEN), host="127.0.0.1", port=0)
    seen: list[api.JobStatus] = []
    try:
        ending = world.live(wish, control, lambda store: WatchedCopies(store, lambda: seen.append(asked(server.port))))
    finally:
        server.close()

    assert ending.is_clean
    total = len(seen)
    counts = [status.progress for status in seen if status.progress is not None]
    sizes = [count.done_bytes or 0 for count in counts]
    assert total > 2 * PARTITIONS
    assert {status.state for status in seen} == {api.JobState.STARTING}
    assert [(count.unit, count.done, count.total) for count in counts] == [("files", n, total) for n in range(total)]
    assert sizes == sorted(sizes)
    assert [(status.message or "").partition(" (")[0] for status in seen] == [
        f"Restoring checkpoint 1: {n} of {total} files" for n in range(total)
    ]
