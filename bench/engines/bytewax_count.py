"""The keyed count in Bytewax, its recovery switched on; run by the Python of `build/engines`. Prints one line of JSON.

Such as: python bytewax_count.py --folder FOLDER --keys N --warm-rows N --rows N [--processes 2] [--resume]

What recovery keeps: at the end of each epoch (`epoch_interval`, here `--interval-s`) a pickled snapshot of each key that
was awake in it, whole, as a row of the SQLite table `snaps`, and the positions of the sources. Keys without rows are not
written again, but when the sources end: then every key is woken for `on_eof` and written, which a count that ends as this
one pays for within its processor time. When an epoch is committed, a query over the whole table deletes older rows of a
key. No input is kept. The state that is worked on is Python objects in memory. A resume reads the newest row of every key
before it counts: a thousand keys a query, each of which groups the whole table, so it takes a time that grows with the
square of the keys. The source is `src/operators.rs` (`awoken_keys_this_epoch_buffer`), `src/recovery.rs`
(`RecoveryCommitter`, `SerializedSnapshotLoader`) and `docs/guide/concepts/recovery.md` of Bytewax 0.21.1.

Measured with 200 bytes a value and two processes: 98,129 and 196,359 keys are as many rows of `snaps` afterwards, each
with 215 bytes of pickle and 304 bytes of the disk, after 400,000 and 800,000 rows; the first update after a resume is out
after 5.0 and 14.3 s. One that had rows for 4,749 of 49,754 keys left all of them with the epoch of its end, and files of
twice the size.

A key is a string, as Bytewax wants it. `stateful_batch` calls Python once for a key and the rows that came together: its
fastest way to keep state. Workers are processes of one thread each, because threads share one interpreter's lock.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import timedelta
from itertools import repeat
from pathlib import Path

import bytewax.operators as op
import numpy as np
import rows
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

_PARTITIONS = 2
"""Of the source and of the recovery store: one for each core."""
_ROWS_AT_ONCE = 10_000


class _Rows(StatefulSourcePartition):
    """Every second row; its position is how many it has given."""

    def __init__(self, chosen: argparse.Namespace, offset: int, position: int) -> None:
        self._keys, self._offset, self._position = chosen.keys, offset, position
        self._end = (chosen.first + chosen.warm_rows + chosen.rows - offset + _PARTITIONS - 1) // _PARTITIONS

    def next_batch(self) -> Iterable[tuple[str, None]]:
        if self._position >= self._end:
            raise StopIteration
        upto = min(self._position + _ROWS_AT_ONCE, self._end)
        numbers = np.arange(self._position, upto, dtype=np.uint64) * np.uint64(_PARTITIONS) + np.uint64(self._offset)
        self._position = upto
        return list(zip(map(str, rows.keys_of(numbers, self._keys).tolist()), repeat(None)))

    def snapshot(self) -> int:
        return self._position


class _Source(FixedPartitionedSource):
    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(_PARTITIONS)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Rows:
        return _Rows(self._chosen, int(for_part), resume_state or 0)


class _Count(op.StatefulBatchLogic):
    """The state of one key."""

    __slots__ = ("count", "payload")

    def __init__(self, count: int, payload: bytes) -> None:
        self.count, self.payload = count, payload

    def on_batch(self, values: list[None]) -> tuple[Iterable[tuple[int, int]], bool]:
        more = len(values)
        self.count += more
        return ((self.count, more),), False

    def snapshot(self) -> bytes:
        return self.count.to_bytes(8, "little") + self.payload


class _Sink(DynamicSink, StatelessSinkPartition):
    """Keeps the last count of each key."""

    def __init__(self, counts: rows.Numbers, progress: rows.Progress) -> None:
        self._counts, self._progress = counts, progress

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Sink:
        return self

    def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
        keys = np.fromiter((int(key) for key, _ in items), np.int64, len(items))
        # Of a key's counts the last comes last, and numpy keeps that.
        self._counts[keys] = [count for _, (count, _) in items]
        self._progress.add(sum(more for _, (_, more) in items))


def _run(chosen: argparse.Namespace, addresses: list[str], process: int) -> None:
    """Be one process of the count."""
    progress = rows.Progress(chosen.folder, process, chosen.processes, chosen.warm_rows)
    counts = np.zeros(chosen.keys, np.int64)

    def build(kept: bytes | None) -> _Count:
        if kept is None:
            return _Count(0, rows.payload(chosen.value_bytes, compressible=chosen.compressible))
        return _Count(int.from_bytes(kept[:8], "little"), kept[8:])

    flow = Dataflow("count")
    stream = op.input("rows", flow, _Source(chosen))
    op.output("out", op.stateful_batch("count", stream, build), _Sink(counts, progress))
    cluster_main(
        flow,
        addresses,
        process,
        epoch_interval=timedelta(seconds=chosen.interval_s),
        recovery_config=RecoveryConfig(str(chosen.folder / "recovery")),
        worker_count_per_proc=chosen.threads,
    )
    progress.end()
    np.save(chosen.folder / f"counts-{process}.npy", counts)


def _addresses(processes: int) -> list[str]:
    """Return a free address for each process; a single one needs none."""
    if processes == 1:
        return []
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(processes)]
        for listening in sockets:
            listening.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{listening.getsockname()[1]}" for listening in sockets]


def main() -> int:
    """Run the processes, wait for them, and print what they measured."""
    asked_at_s = rows.began_s()
    chosen = rows.parser(__doc__).parse_args()
    recovery: Path = chosen.folder / "recovery"
    if not chosen.resume:
        recovery.mkdir(parents=True)
        init_db_dir(recovery, _PARTITIONS)
    rows.forget(chosen.folder)
    addresses = _addresses(chosen.processes)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_run, args=(chosen, addresses, number)) for number in range(chosen.processes)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        return 1
    counts = sum(np.load(file) for file in sorted(chosen.folder.glob("counts-*.npy")))
    measured = {**rows.figures(chosen.folder, asked_at_s), **rows.check(counts), **rows.persisted(recovery)}
    print(json.dumps(measured), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
