"""What the counts in Bytewax and in Pathway share: the rows, who has seen how many of them, and what that took.

The key of a row is that of `bench/workload.py`, written anew: this runs in `build/engines`, where nothing of ours is. It
needs numpy alone. Times are monotonic seconds, the same for all processes of a machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import threading
import time
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
_COUNT_BYTES = 8
_STARTED = 19
"""Field of /proc/PID/stat behind the command's name: when the process was started, in ticks since the machine was."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags of both counts."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--folder", type=Path, required=True, help="for what the engine persists")
    made.add_argument("--keys", type=int, required=True, help="number of keys the rows are drawn from")
    made.add_argument("--batch", type=int, default=200_000, help="rows of a commit, where the engine takes commits")
    made.add_argument("--first", type=int, default=0, help="number of the first row")
    made.add_argument("--warm-rows", type=int, default=0, help="rows that are not counted")
    made.add_argument("--rows", type=int, required=True, help="rows that are, after them")
    made.add_argument("--value-bytes", type=int, default=200, help="size of a key's state, 8 at least")
    made.add_argument("--compressible", action="store_true", help="what is beside the count are zeros")
    made.add_argument("--processes", type=int, default=1, help="processes that share the keys")
    made.add_argument("--threads", type=int, default=1, help="workers in each of them")
    made.add_argument("--interval-s", type=float, default=10.0, help="seconds between what is persisted")
    made.add_argument("--resume", action="store_true", help="go on with what is in the folder, from row --first on")
    return made


def keys_of(numbers: npt.NDArray[np.uint64], keys: int) -> Numbers:
    """Return the keys of rows, by their numbers."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15) * (numbers + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return cast("Numbers", ((z ^ (z >> np.uint64(31))) % np.uint64(keys)).astype(np.int64))


def payload(value_bytes: int, *, compressible: bool) -> bytes:
    """Return what a key that is new gets beside its count."""
    return (bytes if compressible else os.urandom)(value_bytes - _COUNT_BYTES)


def check(counts: Numbers) -> dict[str, int]:
    """Return the check of `bench/workload.py` over the counts of keys 0, 1, …; those that are 0 were not emitted."""
    touched = np.flatnonzero(counts)
    folded = (touched * 31 + counts[touched]) % 1_000_003
    return {"keys": len(touched), "rows": int(counts.sum()), "checksum": int((folded * folded).sum())}


def persisted(folder: Path) -> dict[str, int]:
    """Return how many bytes and files are in a folder."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return {"persisted_bytes": sum(sizes), "persisted_files": len(sizes)}


def began_s() -> float:
    """Return when this process was started."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_STARTED])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - age_s


def _used_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(by.ru_utime + by.ru_stime for by in used)


class Progress:
    """What a process has seen of the results; all processes of a count share a file with their numbers.

    Args:
        folder: For the file; it is the same for all.
        process: Number of this process.
        processes: How many there are.
        warm_rows: Rows that all together see before measuring begins.
    """

    def __init__(self, folder: Path, process: int, processes: int, warm_rows: int) -> None:
        self._file, self._process, self._warm_rows = folder / f"progress-{process}.json", process, warm_rows
        with (folder / "progress").open("ab") as shared:
            shared.truncate(processes * 8)
        self._seen: Numbers = np.memmap(folder / "progress", np.int64, "r+")
        self._lock = threading.Lock()
        self._marks: dict[str, float] = {}
        if not warm_rows:
            self._mark("warm")

    def add(self, rows: int) -> None:
        """Say that results of so many more rows are out."""
        with self._lock:
            self._seen[self._process] += rows
            now_s = time.monotonic()
            self._marks.setdefault("first_at_s", now_s)
            self._marks |= {"last_at_s": now_s, "last_used_s": _used_s()}
            if "warm_at_s" not in self._marks and self._seen.sum() >= self._warm_rows:
                self._mark("warm")

    def end(self) -> None:
        """Say that all is out and persisted, and leave the figures for `figures`."""
        self._mark("ended")
        self._file.write_text(json.dumps(self._marks))

    def _mark(self, name: str) -> None:
        self._marks[f"{name}_at_s"] = time.monotonic()
        self._marks[f"{name}_used_s"] = _used_s()


def forget(folder: Path) -> None:
    """Remove what an earlier count has left for `figures`."""
    for file in folder.glob("progress*"):
        file.unlink()
    for file in folder.glob("counts-*.npy"):
        file.unlink()


def figures(folder: Path, asked_at_s: float) -> dict[str, float]:
    """Return what the processes of a count have measured, after all have ended.

    Args:
        folder: That of their progress.
        asked_at_s: When the first process was started.

    Returns:
        Seconds from the start to the first result; from there to the last warm row, which is `warm_s`; from there to the
        last result, and until all is persisted and the engine has ended; seconds of a core in each of these two.
    """
    marks = [json.loads(file.read_text()) for file in sorted(folder.glob("progress-*.json"))]
    first_s = min(mark["first_at_s"] for mark in marks if "first_at_s" in mark)
    warm_s = min(mark["warm_at_s"] for mark in marks if "warm_at_s" in mark)
    last_s = max(mark["last_at_s"] for mark in marks if "last_at_s" in mark)
    ended_s = max(mark["ended_at_s"] for mark in marks)
    return {
        "first_s": first_s - asked_at_s,
        "warm_s": max(0.0, warm_s - first_s),
        "updates_s": last_s - warm_s,
        "durable_s": ended_s - warm_s,
        "processor_of_updates_s": sum(
            max(0.0, mark.get("last_used_s", 0.0) - mark.get("warm_used_s", mark["ended_used_s"])) for mark in marks
        ),
        "processor_s": sum(mark["ended_used_s"] - mark.get("warm_used_s", mark["ended_used_s"]) for mark in marks),
        "processor_of_all_s": sum(mark["ended_used_s"] for mark in marks),
    }
