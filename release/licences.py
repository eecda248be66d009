"""Whose work is shipped, and under which licence: read from the bills of materials."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """A part of somebody else's that is shipped.

    Attributes:
        name: As its ecosystem calls it.
        version: As its ecosystem writes it.
        kind: `python`, `java`, `debian`, or what else the package URL says.
        licences: Names or SPDX expressions, sorted; empty when it states none.
    """

    name: str
    version: str
    kind: str
    licences: tuple[str, ...]


def read(path: Path) -> set[Component]:
    """Return the components in a CycloneDX document (JSON) that have a package URL; files and systems have none."""
    document = json.loads(path.read_text())
    return {_component(entry) for entry in document.get("components", []) if entry.get("purl")}


def table(components: Iterable[Component], stated: Mapping[str, str]) -> str:
    """Return all components with their licences as Markdown, sorted.

    Args:
        components: What is shipped.
        stated: Licences of those that state none themselves, by name (see `unstated`).
    """
    rows = [
        f"| {part.name} | {part.version} | {part.kind} | {', '.join(part.licences) or stated[part.name]} |"
        for part in sorted(components)
    ]
    return "\n".join(["| part | version | kind | licence |", "| --- | --- | --- | --- |", *rows]) + "\n"


def unstated(components: Iterable[Component], stated: Mapping[str, str]) -> list[str]:
    """Return the names of components whose licence nobody states, sorted; a release with one of them is refused."""
    return sorted({part.name for part in components if not part.licences and part.name not in stated})


def _component(entry: Mapping[str, Any]) -> Component:
    kind = entry["purl"].removeprefix("pkg:").split("/", 1)[0]
    names = {"pypi": "python", "maven": "java", "deb": "debian"}
    licences = sorted({_licence(choice) for choice in entry.get("licenses", [])})
    return Component(entry["name"], entry.get("version", ""), names.get(kind, kind), tuple(licences))


def _licence(choice: Mapping[str, Any]) -> str:
    if "expression" in choice:
        return str(choice["expression"])
    licence = choice["license"]
    return str(licence.get("id") or licence.get("name"))
