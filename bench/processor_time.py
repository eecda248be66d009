"""What a driver uses of a machine, by what its processes are: the driver, its JVM, Python workers."""

from __future__ import annotations

import enum
import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOKS_EVERY_S = 0.1
_LOOKS_A_THREAD_LOOK = 5
"""Threads are many, so they are looked at less often; what one does after the last look at it does not count."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _USER_TIME, _SYSTEM_TIME = 1, 11, 12
"""Fields of /proc/PID/stat behind the command's name."""
_NUMBER = re.compile(r"(?<=..)[-#: ]*\d")
"""Where the number begins that a thread has in its name."""


class Role(enum.Enum):
    """What a process is."""

    DRIVER = "driver"
    """The process that was started."""
    JVM = "JVM"
    """What runs java, and what the driver started to start it."""
    WORKERS = "workers"
    """All below the JVM."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Processor seconds up to a moment, in seconds since 1970."""

    at_s: float
    used_s: dict[Role, float]


class Watch:
    """Looks at a process and all below it ten times a second, until it is told to end.

    Args:
        pid: The process.
        by_thread: Whether to look at the threads of JVMs, too.
    """

    def __init__(self, pid: int, *, by_thread: bool = False) -> None:
        """Begin to look."""
        self._pid, self._by_thread = pid, by_thread
        self._samples: list[Sample] = []
        self._of_threads: dict[int, float] = {}
        self._by_name: dict[str, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> tuple[Sample, ...]:
        """Look no more, and return what was seen, oldest first."""
        self._ending.set()
        self._thread.join()
        return tuple(self._samples)

    def _look(self) -> None:
        seen: dict[int, tuple[Role, float]] = {}
        while not self._ending.wait(LOOKS_EVERY_S):
            seen |= _of_family(self._pid)
            used = {role: sum(used_s for one, used_s in seen.values() if one is role) for role in Role}
            if self._by_thread and not len(self._samples) % _LOOKS_A_THREAD_LOOK:
                self._look_at_threads([pid for pid in seen if _is_java(pid)])
            self._samples.append(Sample(time.time(), used))

    def _look_at_threads(self, jvms: list[int]) -> None:
        """Add what threads have used since the last look to the names that they have now, which may change."""
        for tid, (name, used_s) in ((tid, used) for pid in jvms for tid, used in _threads(pid).items()):
            more_s = used_s - self._of_threads.get(tid, 0.0)
            self._by_name[name] = self._by_name.get(name, 0.0) + more_s
            self._of_threads[tid] = used_s

    def used_by_name(self) -> dict[str, float]:
        """Return what was used so far, by role, and inside JVMs by the names of threads, without numbers."""
        return {**self._by_name, **{role.value: used_s for role, used_s in self._samples[-1].used_s.items()}}


def used_s(samples: tuple[Sample, ...], at_s: float) -> dict[Role, float]:
    """Return what was used up to a moment; nothing before the first sample."""
    before = [sample.used_s for sample in samples if sample.at_s <= at_s]
    return before[-1] if before else dict.fromkeys(Role, 0.0)


def now_s(root: int) -> float:
    """Return the processor seconds that a process and all below it have used; what has ended does not count."""
    return sum(used for _, used in _of_family(root).values())


def memory_bytes(root: int) -> dict[Role, int]:
    """Return the memory of a process and all below it; what processes share counts in parts."""
    held = dict.fromkeys(Role, 0)
    for pid, (role, _) in _of_family(root).items():
        held[role] += _proportional_bytes(pid)
    return held


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


def _threads(pid: int) -> dict[int, tuple[str, float]]:
    """Return name and processor seconds of every thread of a process that is alive."""
    threads = {}
    with suppress(OSError):
        for folder in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                head, _, tail = (folder / "stat").read_text().rpartition(")")
                fields = tail.split()
                name = _NUMBER.split(head.partition("(")[2])[0].strip()
                threads[int(folder.name)] = name, (int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])) / _TICKS_PER_S
    return threads


def _of_family(root: int) -> dict[int, tuple[Role, float]]:
    """Return the processes from a root down, with what each has used itself."""
    stats = _stats()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, tuple[Role, float]] = {}
    waiting = [(root, Role.DRIVER)] if root in stats else []
    while waiting:
        pid, role = waiting.pop()
        found[pid] = role, stats[pid][1]
        below = _below(pid, role)
        waiting += [(child, below) for child in children.get(pid, ())]
    return found


def _below(pid: int, role: Role) -> Role:
    if role is Role.DRIVER:
        return Role.JVM
    return Role.WORKERS if role is Role.WORKERS or _is_java(pid) else Role.JVM


def _is_java(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    return False


def _stats() -> dict[int, tuple[int, float]]:
    """Return parent and processor seconds of every process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
            found[int(folder.name)] = int(fields[_PARENT]), ticks / _TICKS_PER_S
    return found
