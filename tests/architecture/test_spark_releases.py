"""Only the room for Spark's internals asks which release is installed; a new difference belongs there, with its ticket."""

from __future__ import annotations

import re
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "jobruntime"
SOURCES = RUNTIME / "src" / "statefulspark"
ROOM = SOURCES / "sparkinternals"
JAVA = RUNTIME / "jvm" / "src" / "main" / "java" / "io" / "statefulspark"
ASKS = re.compile(
    r"\breleases\.(?:installed|has|SUPPORTED|Release)\b|\bpyspark\.(?:__version__|version)\b|\bpyspark\.version import"
)
ASKS_IN_JAVA = re.compile(r"\bSPARK_VERSION\b|\.version\(\)|\bgetMethods\(\)|\bgetConstructors\(\)")
TELLS = {SOURCES / "engine" / "session.py"}
"""It writes the version into manifests, and decides nothing."""
TICKET = re.compile(r"SPARK-\d{5}")


def test_no_other_module_asks_for_the_release() -> None:
    asking = [
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        if ROOM not in file.parents and file not in TELLS and ASKS.search(file.read_text("utf-8"))
    ]
    assert asking == []


def test_no_class_outside_of_internals_looks_for_other_forms_of_a_call() -> None:
    asking = [
        file.relative_to(JAVA).as_posix()
        for file in JAVA.rglob("*.java")
        if file.parent.name != "internals" and ASKS_IN_JAVA.search(file.read_text("utf-8"))
    ]
    assert asking == []


def test_each_module_of_the_room_names_sparks_ticket() -> None:
    nameless = [
        file.name
        for file in ROOM.glob("*.py")
        if file.name != "__init__.py" and not TICKET.search(file.read_text("utf-8"))
    ]
    assert nameless == []
