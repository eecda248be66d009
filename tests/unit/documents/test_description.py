"""`docs/formats.md` says of every kind of document what is in it and which versions there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from statefulspark.contract import formats
from storeddocuments import KINDS, StoredKind

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "formats.md").read_text()
CONSTANTS = {name: value for name, value in vars(formats).items() if isinstance(value, formats.DocumentFormat)}
ROWS = {
    "manifest": "MANIFEST",
    "generation record": "GENERATION",
    "reservation": "RESERVATION",
    "epoch record": "EPOCH",
    "note of a beginning": "BEGINNING",
    "owner record": "OWNER",
    "lineage record": "LINEAGE",
    "damage note": "DAMAGE",
    "marks of pruning": "PRUNE_MARKS",
    "savepoint pointer": "SAVEPOINT_POINTER",
    "writer of a savepoint": "SAVEPOINT_WRITER",
    "claim": "CLAIM",
    "canonical description": "CANONICAL_QUERY",
    "operator-state record": "OPERATOR_STATE",
    "segment": "SEGMENT",
    "prepared record": "PREPARED",
    "output record": "OUTPUT",
    "record of unchanged state": "UNCHANGED",
    "staged rows": "STAGED_ROWS",
    "prepared files": "PREPARED_FILES",
    "written files": "WRITTEN_FILES",
    "commit file": "COMMIT",
    "owner of a sink's folder": "FOLDER_OWNER",
    "marker": "MARKER",
    "chunk": "CHUNK",
    "head": "HEAD",
    "pack": "PACK",
}
_ROW = re.compile(
    r"^\| \[(?P<name>[^\]]+)\]\(#(?P<anchor>[^)]+)\) \| .* \| (?P<written>[^|]+) \| (?P<read>[^|]+) \|$", re.M
)
_HEADING = re.compile(r"^#{2,3} (.+)$", re.M)
TABLE = {row["name"]: row for row in _ROW.finditer(PAGE)}


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading as GitHub makes it."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def section_of(anchor: str) -> str:
    """Return the text below a heading of the second level."""
    headings = [found for found in _HEADING.finditer(PAGE) if found[0].startswith("## ")]
    for place, heading in enumerate(headings):
        if anchor_of(heading[1]) == anchor:
            end = headings[place + 1].start() if place + 1 < len(headings) else len(PAGE)
            return PAGE[heading.end() : end]
    raise AssertionError(f"docs/formats.md has no section #{anchor}")


def row_of(kind: StoredKind) -> re.Match[str]:
    constant = next(name for name, value in CONSTANTS.items() if value is kind.document_format)
    return next(TABLE[name] for name, belongs in ROWS.items() if belongs == constant)


def test_the_table_has_a_row_for_each_kind() -> None:
    assert (sorted(TABLE), sorted(ROWS.values())) == (sorted(ROWS), sorted(CONSTANTS))


@pytest.mark.parametrize("name", ROWS)
def test_the_table_says_which_versions_are_read(name: str) -> None:
    first, *rest = CONSTANTS[ROWS[name]].reads

    assert TABLE[name]["read"] == (f"{first} to {rest[-1]}" if rest else str(first))


@pytest.mark.parametrize("name", ROWS)
def test_each_row_leads_to_a_heading(name: str) -> None:
    assert TABLE[name]["anchor"] in {anchor_of(heading[1]) for heading in _HEADING.finditer(PAGE)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_section_of_a_document_names_each_of_its_fields(kind: StoredKind) -> None:
    text = section_of(row_of(kind)["anchor"])
    fields = {str(field.alias) for field in type(kind.document).model_fields.values()} - {"formatVersion"}

    assert sorted(field for field in fields if not re.search(rf'[`"{{]{field}[`"}}]', text)) == []
