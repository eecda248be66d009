"""The keyed count in Pathway, its persistence switched on; run by the Python of `build/engines`. Prints one line of JSON.

Such as: python pathway_count.py --folder FOLDER --keys N --warm-rows N --rows N [--threads 2] [--resume]

What persistence keeps without a licence key (`PersistenceMode.PERSISTING`): the whole input, and no state. Each row of
it, with the engine's key, goes into a log of compressed chunks (`streams`), a chunk at each `snapshot_interval_ms`; a
source of files has a compressed copy of each file beside it (`cached-objects-storage`). A restart reads the log from the
beginning and counts every row again, so it takes a time, and the disk a room, that grow with all rows ever read, whatever
the number of keys; bytes that are not drawn from the input are others afterwards. `PersistenceMode.OPERATOR_PERSISTING`,
which keeps what changed in the operators, is refused: "FULL-PERSISTENCE require a Pathway license key". The source is
`src/persistence/input_snapshot.rs`, `src/persistence/config.rs` (`check_entitlements`) and the licensing guide of Pathway
0.32.1, and 0.33.0 does so. Measured: 1,200,000 rows are 38.0 MB with 200,000 keys and 37.8 MB with 1,000,000 (32 bytes a
row, a fifth of them the copies of files), and 200,000 rows more are 6.3 MB more.

State is a tuple of a number and bytes in a stateful reducer, which calls Python once for a key and a commit; rows come
from files that Pathway reads itself, and results go to a file. Threads are the workers. No licence key is used, nor
telemetry.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import threading
from time import sleep

import numpy as np
import pandas as pd
import pathway as pw
import rows

_IN_FLIGHT = 3
"""Batches that are on their way at once: the source looks for files now and then, and should find some."""
_FILES_PER_BATCH = 2
_LOOKS_EVERY_S = 0.01
_AUTOCOMMIT_MS = 100


class _Row(pw.Schema):
    key: int


class _Feed:
    """Gives rows to a source of files, a batch as soon as there is room, and ends the count when all their results are out.

    Args:
        chosen: The flags.
        progress: Where results are counted.
    """

    def __init__(self, chosen: argparse.Namespace, progress: rows.Progress) -> None:
        self._chosen, self._progress = chosen, progress
        self._prepared, self.folder = chosen.folder / "prepared", chosen.folder / "source"
        self._end = chosen.first + chosen.warm_rows + chosen.rows
        self._seen, self._seen_at_ms = chosen.first, 0

    def prepare(self) -> None:
        """Write the files, where the source does not see them yet."""
        for folder in (self._prepared, self.folder):
            folder.mkdir(exist_ok=True)
        for start in self._starts():
            numbers = np.arange(start, min(start + self._chosen.batch, self._end), dtype=np.uint64)
            for part, some in enumerate(np.array_split(numbers, _FILES_PER_BATCH)):
                lines = "\n".join(map(str, rows.keys_of(some, self._chosen.keys).tolist()))
                (self._prepared / f"{start:015}-{part}.csv").write_text(f"key\n{lines}\n")

    def see(self, key: object, row: dict[str, int], time: int, is_addition: bool) -> None:
        """Take the number of rows that have been counted in all."""
        if is_addition and row["seen"] > self._seen:
            self._progress.add(row["seen"] - self._seen)
            self._seen, self._seen_at_ms = row["seen"], time

    def run(self) -> None:
        """Give batch after batch, wait for the results until they are persisted, and ask this process to end."""
        for start in self._starts():
            self._wait_for(start - (_IN_FLIGHT - 1) * self._chosen.batch)
            for file in sorted(self._prepared.glob(f"{start:015}-*.csv")):
                file.rename(self.folder / file.name)
        self._wait_for(self._end)
        while _persisted_ms(self._chosen) <= self._seen_at_ms:
            sleep(_LOOKS_EVERY_S)
        self._progress.end()
        # A source of files has no end.
        os.kill(os.getpid(), signal.SIGTERM)

    def _starts(self) -> range:
        return range(self._chosen.first, self._end, self._chosen.batch)

    def _wait_for(self, count: int) -> None:
        while self._seen < count:
            sleep(_LOOKS_EVERY_S)


def _persisted_ms(chosen: argparse.Namespace) -> int:
    """Return up to which of the engine's times all workers have persisted; a worker's newest file says it."""
    times = dict.fromkeys(range(chosen.threads), 0)
    for file in (chosen.folder / "persisted").glob("*-*-*"):
        with contextlib.suppress(ValueError, OSError):  # a file that is being written
            worker = int(file.name.split("-")[1])
            times[worker] = max(times[worker], json.loads(file.read_text())["last_advanced_timestamp"]["At"])
    return min(times.values())


def _declare(chosen: argparse.Namespace, feed: _Feed) -> None:
    @pw.reducers.stateful_many
    def counted(state: tuple[int, bytes] | None, more: list[tuple[list[int], int]]) -> tuple[int, bytes]:
        added = sum(number for _, number in more)
        if state is None:
            return added, rows.payload(chosen.value_bytes, compressible=chosen.compressible)
        return state[0] + added, state[1]

    stream = pw.io.csv.read(
        feed.folder, schema=_Row, mode="streaming", autocommit_duration_ms=_AUTOCOMMIT_MS, name="rows"
    )
    states = stream.groupby(stream.key).reduce(stream.key, state=counted(stream.key))
    states = states.update_types(state=tuple[int, bytes])
    pw.io.csv.write(states.select(states.key, count=states.state[0]), chosen.folder / "out.csv")
    pw.io.subscribe(stream.reduce(seen=pw.reducers.count()), feed.see)


def _counts(chosen: argparse.Namespace) -> rows.Numbers:
    """Return the last count of each key that was written; they only grow."""
    written = pd.read_csv(chosen.folder / "out.csv")
    last = written[written["diff"] > 0].groupby("key")["count"].max()
    counts = np.zeros(chosen.keys, np.int64)
    counts[last.index] = last
    return counts


def main() -> None:
    """Count, end, and print what was measured."""
    asked_at_s = rows.began_s()
    chosen = rows.parser(__doc__).parse_args()
    os.environ["PATHWAY_THREADS"] = str(chosen.threads)
    rows.forget(chosen.folder)
    progress = rows.Progress(chosen.folder, 0, 1, chosen.warm_rows)
    feed = _Feed(chosen, progress)
    feed.prepare()
    _declare(chosen, feed)
    threading.Thread(target=feed.run, daemon=True).start()
    config = pw.persistence.Config(
        pw.persistence.Backend.filesystem(chosen.folder / "persisted"),
        snapshot_interval_ms=int(chosen.interval_s * 1000),
    )
    with contextlib.suppress(SystemExit):
        pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=config)
    measured = {**rows.figures(chosen.folder, asked_at_s), **rows.check(_counts(chosen))}
    print(json.dumps({**measured, **rows.persisted(chosen.folder / "persisted")}), flush=True)


if __name__ == "__main__":
    main()
