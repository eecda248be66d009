"""Where the demo ran: processors, memory, system and versions, for the report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("statefulspark", "statefulspark-operator", "pyspark")


def describe() -> dict[str, str]:
    """Return facts about this machine and the versions in use."""
    facts = {
        "cpus": str(os.cpu_count() or "?"),
        "memory": memory(Path("/proc/meminfo")),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    return {**facts, **{name: _version(name) for name in PACKAGES}}


def memory(meminfo: Path) -> str:
    """Return the memory of the machine, for example `24 GiB`, or `?` where it cannot be read."""
    try:
        lines = meminfo.read_text("utf-8").splitlines()
    except OSError:
        return "?"
    total = next((line for line in lines if line.startswith("MemTotal:")), "")
    words = total.split()
    return f"{round(int(words[1]) / 2**20)} GiB" if len(words) > 1 else "?"


def available_gib(meminfo: Path) -> float | None:
    """Return the memory that can be had without swapping; None where it cannot be read."""
    try:
        lines = meminfo.read_text("utf-8").splitlines()
    except OSError:
        return None
    words = next((line.split() for line in lines if line.startswith("MemAvailable:")), [])
    return int(words[1]) / 2**20 if len(words) > 1 else None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"
