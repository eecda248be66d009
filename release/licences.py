"""Whose work is shipped, and under which licence: read from the bills of materials."""

from __future__ import annotations

import json
import re
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
        group: Of Java's parts, whose they are, for example `org.apache.hadoop`; empty for others.
    """

    name: str
    version: str
    kind: str
    licences: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Licences of parts that state none themselves.

    Attributes:
        names: By name of the part.
        groups: By group of Java's parts; one that is longer by a dot belongs to it.
    """

    names: Mapping[str, str]
    groups: Mapping[str, str]

    def of(self, part: Component) -> str | None:
        """Return the licence of a part; None if nobody looked it up. A group is nearer than a name."""
        words = part.group.split(".")
        for length in range(len(words), 0, -1):
            if (group := ".".join(words[:length])) in self.groups:
                return self.groups[group]
        return self.names.get(part.name)


_SPARKS_HEADINGS = {
    "Apache": "Apache-2.0",
    "BSD 0-Clause": "0BSD",
    "BSD 2-Clause": "BSD-2-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "MIT License": "MIT",
    "Common Development and Distribution License (CDDL) 1.0": "CDDL-1.0",
    "Common Development and Distribution License (CDDL) 1.1": "CDDL-1.1",
    "Eclipse Distribution License (EDL) 1.0": "BSD-3-Clause",
    "Eclipse Public License (EPL) 2.0": "EPL-2.0",
    "Unicode/ICU License": "Unicode-3.0",
}
_APACHE = "This project bundles some components that are also licensed under the Apache"


def bundled_by_spark(text: str) -> dict[str, str]:
    """Return what PySpark's own LICENSE says of the jars that it bundles: licence by name of the part.

    The file has a heading for each licence, underlined, and a line `group:name` for each part, sometimes with an address.
    """
    bundled: dict[str, str] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith(_APACHE):
            heading = "Apache"
        elif line in _SPARKS_HEADINGS:
            heading = line
        elif match := re.match(r"([\w.-]+):([\w.-]+)(:jar)?(\s+http.*)?$", line):
            bundled[match[2]] = _SPARKS_HEADINGS[heading]
    return bundled


def read(path: Path) -> set[Component]:
    """Return the components in a CycloneDX document (JSON) that have a package URL; files and systems have none."""
    document = json.loads(path.read_text())
    return {_component(entry) for entry in document.get("components", []) if entry.get("purl")}


def table(components: Iterable[Component], looked_up: LookedUp) -> str:
    """Return all components with their licences as Markdown, sorted.

    Args:
        components: What is shipped.
        looked_up: Licences of those that state none themselves (see `unstated`).
    """
    rows = [
        f"| {part.name} | {part.version} | {part.kind} | {', '.join(part.licences) or looked_up.of(part)} |"
        for part in sorted(components)
    ]
    return "\n".join(["| part | version | kind | licence |", "| --- | --- | --- | --- |", *rows]) + "\n"


def unstated(components: Iterable[Component], looked_up: LookedUp) -> list[str]:
    """Return the names of components whose licence nobody states, sorted; a release with one of them is refused."""
    return sorted({part.name for part in components if not part.licences and looked_up.of(part) is None})


def _component(entry: Mapping[str, Any]) -> Component:
    kind = entry["purl"].removeprefix("pkg:").split("/", 1)[0]
    names = {"pypi": "python", "maven": "java", "deb": "debian"}
    licences = sorted({_licence(choice) for choice in entry.get("licenses", [])})
    group = entry["purl"].split("@")[0].split("/", 1)[1].rpartition("/")[0] if kind == "maven" else ""
    return Component(entry["name"], entry.get("version", ""), names.get(kind, kind), tuple(licences), group)


def _licence(choice: Mapping[str, Any]) -> str:
    if "expression" in choice:
        return str(choice["expression"])
    licence = choice["license"]
    return str(licence.get("id") or licence.get("name"))
