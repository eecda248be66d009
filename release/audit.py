"""Ask a vulnerability database about every part that a release contains, by its bills of materials.

osv-scanner compares versions as each ecosystem does; the database is the one at osv.dev, or a copy of it in a folder. That
nothing is known of a part is said only if somebody was asked about it: a database that cannot be reached, a copy without
an ecosystem, and a scan that is not about all parts are failures of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from release import artifacts

_EXAMPLES = """examples:
  What is in dist/, asked at osv.dev:
    make audit

  The same without a network, with a copy of the database:
    curl --create-dirs -o osv/osv-scanner/PyPI/all.zip https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip
    make audit DATABASE=osv            (the same for Maven, Debian, and whatever it names as missing)
"""
_SCANNER = artifacts.ROOT / "build" / "bin" / "osv-scanner"
_JUDGED = Path(__file__).with_name("osv-scanner.toml")
_ECOSYSTEMS = {"pypi": "PyPI", "maven": "Maven", "deb": "Debian", "golang": "Go", "npm": "npm", "cargo": "crates.io"}
_ASKABLE = frozenset(_ECOSYSTEMS.values())
_ANSWERS = (0, 1)
"""Exit codes of osv-scanner after a scan: nothing known, something known. All others are failures."""


class Outcome(IntEnum):
    """How an audit ended, as the exit code."""

    NOTHING_KNOWN = 0
    KNOWN = 1
    NOT_ASKED = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of an audit.

    Attributes:
        outcome: The exit code.
        lines: What to tell.
    """

    outcome: Outcome
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """How a run of osv-scanner ended.

    Attributes:
        code: Its exit code.
        report: What it wrote to its output: JSON, or nothing.
        said: What else it said.
    """

    code: int
    report: str
    said: str


def main() -> int:
    """Audit a folder and tell.

    Returns:
        The outcome.
    """
    parser = argparse.ArgumentParser(
        "release.audit", description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=artifacts.ROOT / "dist", help="default: dist")
    parser.add_argument("--database", type=Path, help="copy of the database; without one, osv.dev is asked")
    options = parser.parse_args()
    bills = sorted(options.folder.glob("*.cdx.json"))
    parts = listed(json.loads(bill.read_text()) for bill in bills)
    verdict = unanswerable(parts, options.database)
    if verdict is None:
        verdict = judged(parts, _scanned(bills, options.database))
    print("\n".join(verdict.lines), file=sys.stderr if verdict.outcome is Outcome.NOT_ASKED else sys.stdout)
    return verdict.outcome


def listed(bills: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Count the parts in bills of materials (CycloneDX) by ecosystem; of one that nobody keeps account of, by its own name.

    A part without a version counts as one of the ecosystem "parts without a version".
    """
    purls = {part["purl"] for bill in bills for part in bill.get("components", ()) if part.get("purl")}
    return Counter(_ecosystem(purl) for purl in purls)


def unanswerable(parts: Counter[str], database: Path | None) -> Verdict | None:
    """Tell why nobody can be asked; None if somebody can.

    Args:
        parts: Number by ecosystem.
        database: Copy of the database, if one is used.
    """
    askable = sorted(parts.keys() & _ASKABLE)
    if not askable:
        return _not_asked("there is no bill of materials with parts; run `make release` first.")
    if database is None:
        return None
    absent = [name for name in askable if not (database / "osv-scanner" / name / "all.zip").is_file()]
    if absent:
        where = f"{database}/osv-scanner/<name>/all.zip"
        return _not_asked(f"the copy of the database has nothing about {', '.join(absent)} ({where}).")
    return None


def judged(parts: Counter[str], scan: Scan) -> Verdict:
    """Return the verdict on all parts.

    Args:
        parts: Number by ecosystem.
        scan: Of all bills that list them.
    """
    if scan.code not in _ANSWERS:
        return _not_asked(f"osv-scanner ended with {scan.code}: {scan.said.strip() or 'it said nothing'}")
    packages = [package for result in json.loads(scan.report)["results"] for package in result["packages"]]
    scanned = {package["package"]["ecosystem"].partition(":")[0] for package in packages}
    passed_over = sorted(parts.keys() & _ASKABLE - scanned)
    if passed_over:
        return _not_asked(f"osv-scanner passed over all parts of {', '.join(passed_over)}.")
    known = sorted({line for package in packages for line in _known(package)})
    counted = ", ".join(f"{parts[name]} of {name}" for name in sorted(parts.keys() & _ASKABLE))
    others = [f"Nobody was asked about {parts[name]} of {name}." for name in sorted(parts.keys() - _ASKABLE)]
    if known or scan.code:
        return Verdict(
            Outcome.KNOWN, (*known, *others, f"{len(known)} known vulnerabilities in these parts: {counted}.")
        )
    return Verdict(Outcome.NOTHING_KNOWN, (*others, f"No known vulnerability in these parts: {counted}."))


def _not_asked(why: str) -> Verdict:
    return Verdict(Outcome.NOT_ASKED, (f"Nobody was asked about vulnerabilities: {why}",))


def _ecosystem(purl: str) -> str:
    kind = purl.removeprefix("pkg:").partition("/")[0]
    if not re.search(r"@[^?#]", purl):
        return "parts without a version"
    return _ECOSYSTEMS.get(kind, kind)


def _known(package: Mapping[str, Any]) -> Iterable[str]:
    part = package["package"]
    for group in package.get("groups") or ():
        severity = group.get("max_severity") or "not rated"
        name = f"{part['ecosystem']} {part['name']} {part['version']}"
        yield f"{name}: {', '.join(group['ids'])} (severity {severity})"


def _scanned(bills: Sequence[Path], database: Path | None) -> Scan:
    if not _SCANNER.is_file():
        return Scan(-1, "", f"{_SCANNER} is not there; run `make audit`, which builds it.")
    command = [str(_SCANNER), "scan", "source", "--format", "json", "--all-packages", "--config", str(_JUDGED)]
    environment = dict(os.environ)
    if database is not None:
        command.append("--offline")
        environment["OSV_SCANNER_LOCAL_DB_CACHE_DIRECTORY"] = str(database.resolve())
    command += [part for bill in bills for part in ("-L", str(bill))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Scan(done.returncode, done.stdout, done.stderr)


if __name__ == "__main__":
    sys.exit(main())
