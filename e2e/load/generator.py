"""Sends events at a rate, into a Kafka topic and into files of a folder.

Events of one key go to one partition in their order, each once: the producer is idempotent. Confirmations are
gathered into a file of JSON lines that appears as a whole. What was sent is read from the topic and the folder again,
so nothing is noted here.
"""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from load import events

_FILE_EVERY_S = 1.0
_FLUSHED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where events go.

    Attributes:
        servers: Bootstrap servers.
        topic: Topic of the events.
        partitions: How many it has.
        folder: Gets the files of confirmations.
    """

    servers: str
    topic: str
    partitions: int
    folder: Path


class Generator:
    """Sends the events of a seed in a thread of its own, until it is told to stop.

    Attributes:
        sent: How many events were sent, copies not counted.
    """

    def __init__(self, target: Target, *, seed: int, keys: int, per_second: float) -> None:
        self._target, self._per_second = target, per_second
        self._steps = events.steps(seed, keys=keys)
        self._producer = Producer({"bootstrap.servers": target.servers, "enable.idempotence": True, "linger.ms": 20})
        self._lines: list[bytes] = []
        self._files = itertools.count(1)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        target.folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and return when everything that was sent has arrived."""
        self._stopping.set()
        self._thread.join()
        self._arrive()

    def close(self) -> None:
        """Send the last event, after which event time has passed all others."""
        self._send(events.closing(self.sent))
        self._arrive()

    def _run(self) -> None:
        begun_s = written_s = time.monotonic()
        while not self._stopping.wait(0.02):
            now_s = time.monotonic()
            while self.sent < (now_s - begun_s) * self._per_second:
                self._send(next(self._steps))
            if now_s - written_s > _FILE_EVERY_S:
                self._write_file()
                written_s = now_s

    def _send(self, step: events.Step) -> None:
        for event in (step.event, *step.copies):
            partition = zlib.crc32(event.key.encode()) % self._target.partitions
            self._producer.produce(self._target.topic, event.to_json(), event.key.encode(), partition=partition)
        self._producer.poll(0)
        if step.confirmation is not None:
            self._lines.append(step.confirmation.to_json())
        self.sent += 1

    def _arrive(self) -> None:
        left = self._producer.flush(_FLUSHED_WITHIN_S)
        if left:
            raise TimeoutError(f"{left} events have not reached {self._target.topic} within {_FLUSHED_WITHIN_S:.0f} s")
        self._write_file()

    def _write_file(self) -> None:
        if not self._lines:
            return
        name = f"{next(self._files):06d}.jsonl"
        half_made = self._target.folder / f".{name}"
        half_made.write_bytes(b"\n".join(self._lines) + b"\n")
        half_made.rename(self._target.folder / name)
        self._lines = []
