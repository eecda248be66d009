"""Reads how much memory a driver's processes have: its Python, its JVM, and the Python workers below them.

A container is killed for all of them together, so a person has to see which part grows. Linux tells it in `/proc`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

_STAT = re.compile(r"\d+ \((?P<name>.*)\) \S (?P<parent>\d+) ", re.DOTALL)
"""A process names itself, and may have parentheses and spaces in its name (proc_pid_stat(5))."""
_PROPORTIONAL = re.compile(r"^Pss:\s+(?P<kib>\d+) kB$", re.MULTILINE)


class MemoryPart(StrEnum):
    """A part of a driver."""

    DRIVER = "Driver"
    """The driver's Python."""
    JVM = "Jvm"
    """Spark, with its heap and what it has beside it."""
    WORKERS = "Workers"
    """The Python workers in the driver's container: all of the job's if it has no executors."""


Memory = Mapping[MemoryPart, int]
"""Bytes of each part."""


def by_part(proc: Path = Path("/proc"), *, driver: int | None = None) -> Memory:
    """Return the memory of each part in bytes. A page that processes share is divided among them.

    Args:
        proc: Where the system shows its processes.
        driver: The driver's process; None for this one.

    Returns:
        Nothing where the system does not tell, and no part that has no process.
    """
    own = os.getpid() if driver is None else driver
    kept: dict[MemoryPart, int] = {}
    for process, name in _family(proc, own):
        size = _PROPORTIONAL.search(_text(proc / str(process) / "smaps_rollup"))
        if size is not None:
            part = MemoryPart.DRIVER if process == own else MemoryPart.JVM if name == "java" else MemoryPart.WORKERS
            kept[part] = kept.get(part, 0) + int(size["kib"]) * 1024
    return kept


def _family(proc: Path, own: int) -> Iterator[tuple[int, str]]:
    """Yield a process and all below it, each with its name."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for folder in proc.glob("[0-9]*"):
        stat = _STAT.match(_text(folder / "stat"))
        if stat is not None:
            names[int(folder.name)] = stat["name"]
            children.setdefault(int(stat["parent"]), []).append(int(folder.name))
    due = [own] if own in names else []
    while due:
        process = due.pop()
        yield process, names[process]
        due += children.get(process, ())


def _text(path: Path) -> str:
    """Return the content of a file; nothing if its process has ended, or is another user's."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
