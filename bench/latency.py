"""From an event to its output: how long until a reader of the target topic sees it, at several rates.

Kafka to Kafka with a count per key, state and checkpoints on a real S3 server. A reader that takes committed records only
notes when each output arrives; the event has the time at which it was sent. The contenders run one after the other: ours
with output at each checkpoint (exactly once, also where a job goes back), ours with output at each batch, and what a user
does without us: plain PySpark with a checkpoint location and Spark's Kafka sink, which may repeat records after a failure.

    PYTHONPATH=tests/support python -m bench.latency --picture latency.png
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import kafkabroker
import processes
import s3server
from confluent_kafka import Consumer, Producer, TopicPartition

from bench import latency_picture, machine

KEYS = 100
WARM_S, LEFT_S = 15.0, 10.0
"""How long each contender is warmed at the first rate, and how long late output is waited for."""
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Topics:
    """Where events go to, and where their output is.

    Attributes:
        brokers: Bootstrap servers.
        source: Topic of the events.
        target: Topic of the output.
    """

    brokers: str
    source: str
    target: str


class Reader:
    """Notes for each output when its event was sent and when it was seen.

    Attributes:
        seen: Pairs of both, in seconds since 1970.
    """

    def __init__(self, topics: Topics) -> None:
        self.seen: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": topics.brokers,
                "group.id": f"latency-{topics.target}",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topics.target, partition, 0) for partition in range(2)])
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.02):
                value = message.value()
                if message.error() is None and value is not None:
                    self.seen.append((float(value.decode().split(",")[1]), time.time()))

    def close(self) -> None:
        """Stop reading."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()


def send(topics: Topics, rate: int, seconds: float) -> tuple[float, int]:
    """Send events at a rate.

    Args:
        topics: Where to.
        rate: Events a second.
        seconds: How long.

    Returns:
        When the first was sent, in seconds since 1970, and how many were.
    """
    producer = Producer({"bootstrap.servers": topics.brokers, "linger.ms": 1})
    began, number = time.time(), 0
    while (now := time.time()) < began + seconds:
        for _ in range(1 + int((now - began) * rate) - number):
            producer.produce(topics.source, value=f"{time.time():.6f}", key=f"key-{number % KEYS}")
            number += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush()
    return began, number


def measured(job: processes.Process, topics: Topics, rates: Sequence[int], seconds: float) -> dict[int, list[float]]:
    """Return the latencies in seconds of all events of a rate, by rate; the job has had `WARM_S` of events before.

    Raises:
        SystemExit: The job has ended, or output is missing, or comes twice.
    """

    def first() -> bool | None:
        if not job.runs:
            raise SystemExit(f"{job.name} has ended:\n{job.tail}")
        return True if reader.seen else None

    reader = Reader(topics)
    try:
        send(topics, 1, 1.0)
        machine.wait_for(first, "the first output is seen", 120.0)
        send(topics, rates[0], WARM_S)
        return {rate: _at(rate, topics, reader, seconds) for rate in rates}
    finally:
        reader.close()


def _at(rate: int, topics: Topics, reader: Reader, seconds: float) -> list[float]:
    began, count = send(topics, rate, seconds)

    def latencies() -> list[float]:
        return [at - sent for sent, at in list(reader.seen) if sent >= began]

    machine.wait_for(lambda: True if len(latencies()) >= count else None, f"{count} outputs are seen", 60.0)
    time.sleep(LEFT_S)
    if len(latencies()) != count:
        raise SystemExit(f"{count} events at {rate} a second have {len(latencies())} outputs.")
    return latencies()


@contextmanager
def ours(topics: Topics, server: s3server.S3Server, folder: Path, visible: str) -> Iterator[processes.Process]:
    """Run our job, with a checkpoint every second."""
    driver = machine.Driver(
        "relaying.py",
        f"s3://{server.new_bucket()}/state",
        server,
        folder / f"{topics.target}.log",
        parameters={"brokers": topics.brokers, "from": topics.source, "to": topics.target, "visible": visible},
        flags=["--checkpoint-interval", "1s", "--conf", "spark.sql.shuffle.partitions=2"],
    )
    driver.start()
    try:
        yield driver.process
    finally:
        driver.end()


@contextmanager
def bare(topics: Topics, server: s3server.S3Server, folder: Path) -> Iterator[processes.Process]:
    """Run plain PySpark, with its checkpoint location on the same S3 server."""
    environment = {
        "AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY,
        "PYSPARK_PYTHON": sys.executable,
    }
    log = folder / f"{topics.target}.log"
    job = processes.Process("plain PySpark", log, environment=environment, leads_session=True)
    places = (topics.brokers, topics.source, topics.target, f"s3a://{server.new_bucket()}/plain", server.endpoint)
    job.launch([sys.executable, str(machine.JOBS / "bare_relaying.py"), *places])
    try:
        yield job
    finally:
        job.send_to_family(signal.SIGKILL)
        job.stop()


def main(arguments: list[str] | None = None) -> int:
    """Measure each contender at each rate, and compare."""
    parser = machine.parser("latency", __doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000, 5000], metavar="N", help="events a second")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each rate (default: %(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the percentiles there, as PNG")
    chosen = parser.parse_args(arguments)
    print(f"Machine: {machine.described()}, load {os.getloadavg()[0]:.1f}")
    figures: dict[str, dict[int, dict[int, float]]] = {}
    with machine.workplace() as (server, folder), kafkabroker.running(folder) as broker:
        contenders: dict[str, Callable[[Topics], AbstractContextManager[processes.Process]]] = {
            "output at each checkpoint, every second": lambda topics: ours(topics, server, folder, "checkpoint"),
            "output at each batch": lambda topics: ours(topics, server, folder, "batch"),
            "plain PySpark": lambda topics: bare(topics, server, folder),
        }
        for name, running in contenders.items():
            topics = Topics(broker.servers, broker.new_topic(), broker.new_topic())
            with running(topics) as job:
                found = measured(job, topics, chosen.rates, chosen.seconds)
            figures[name] = {
                rate: {percent: machine.percentile(latencies, percent) for percent in PERCENTILES}
                for rate, latencies in found.items()
            }
            _print(name, figures[name])
    if chosen.picture is not None:
        latency_picture.draw(figures, chosen.picture)
    machine.finish(chosen.json, {"latency_s": figures})
    return 0


def _print(name: str, figures: dict[int, dict[int, float]]) -> None:
    rows = [(rate, *(f"{seconds:.2f}" for seconds in found.values())) for rate, found in figures.items()]
    machine.table((name, *(f"p{percent} s" for percent in PERCENTILES)), rows)


if __name__ == "__main__":
    sys.exit(main())
