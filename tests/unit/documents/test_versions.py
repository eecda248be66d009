"""Every kind of stored document has versions of its own: golden files, and documents of later releases.

Chunks, heads and packs of keyed state are no JSON; their golden files are in `tests/golden/state`, and read in
`tests/unit/state`.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import statefulspark
from statefulspark import errors
from statefulspark.contract import base, formats
from storeddocuments import KINDS, StoredKind

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "documents"
CONSTANTS = {name: value for name, value in vars(formats).items() if isinstance(value, formats.DocumentFormat)}
NAMES = {id(value): name for name, value in CONSTANTS.items()}
NOT_JSON = {"CHUNK", "HEAD", "PACK"}
"""Their golden files are in `tests/golden/state`."""
NEED_SPARK = tuple(f"statefulspark.{room}" for room in ("driver", "engine", "job", "operators", "planning", "workers"))
"""Rooms that write documents of others only, and import Spark."""
FREE_KEYS = re.compile(r"^(versions|definition|batches|unusedSince|offset|partitionKey|.*Sizes|.*Counts|.*Bounds)$")
"""Objects whose keys are names and numbers, not fields."""
Json = dict[str, object]

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def golden(kind: StoredKind) -> bytes:
    return (GOLDEN / f"{kind.name}-v{kind.document_format.writes}.json").read_bytes()


def rewritten(body: bytes, **fields: object) -> bytes:
    """Return a document with other values in some fields, whole in itself."""
    document = {**json.loads(body), **fields}
    sealed = document.pop("crc32", None)
    text = json.dumps(document, separators=(",", ":")).encode()
    return text if sealed is None else base.seal(text)


def with_unknown_fields(value: object) -> object:
    """Return a document with a field more in every object."""
    if isinstance(value, list):
        return [with_unknown_fields(element) for element in value]
    if not isinstance(value, dict):
        return value
    within = {key: held if FREE_KEYS.match(key) else with_unknown_fields(held) for key, held in value.items()}
    return {"addedLater": {"a": [1]}, **within}


def all_documents(kind: type[base.StoredDocument] = base.StoredDocument) -> Iterator[type[base.StoredDocument]]:
    for subclass in kind.__subclasses__():
        if "FORMAT" in vars(subclass):
            yield subclass
        yield from all_documents(subclass)


def test_every_kind_of_document_is_here_with_a_format_of_its_own() -> None:
    for module in pkgutil.walk_packages(statefulspark.__path__, "statefulspark."):
        if not module.name.startswith(NEED_SPARK):
            importlib.import_module(module.name)

    # A record of operator state is looked at in two ways, and is one kind; manifests are one kind with three faces.
    used = {cls.__name__.lstrip("_"): NAMES[id(cls.FORMAT)] for cls in all_documents()}
    assert sorted({*used.values()} | NOT_JSON) == sorted(CONSTANTS)
    assert set(used) - {"OperatorState"} == {type(kind.document).__name__ for kind in KINDS}
    assert len({used[name] for name in used if name != "OperatorState"}) == len(used) - 1


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_is_written_is_the_newest_that_is_read(name: str) -> None:
    versions = CONSTANTS[name]

    assert (versions.writes, *versions.reads) == (max(versions.reads), *range(1, versions.writes + 1))


@each_kind
def test_a_golden_document_is_read(kind: StoredKind) -> None:
    assert kind.read(golden(kind), "golden") == kind.document


@each_kind
def test_a_document_is_written_as_its_golden_file(kind: StoredKind) -> None:
    assert kind.write() == golden(kind)


@each_kind
def test_a_golden_document_has_every_field_of_its_kind(kind: StoredKind) -> None:
    never_set = {"MANIFEST": {"savepointName"}, "RESERVATION": {"follows", "purged"}}
    unset = never_set.get(NAMES[id(kind.document_format)], set())
    fields = {str(field.alias) for field in type(kind.document).model_fields.values()}
    faces = [golden(other) for other in KINDS if type(other.document) is type(kind.document)]

    assert fields - unset <= {name for face in faces for name in json.loads(face)}


@each_kind
def test_fields_that_a_later_release_adds_are_ignored(kind: StoredKind) -> None:
    document = cast("Json", with_unknown_fields(json.loads(golden(kind))))
    sealed = "crc32" in document
    body = json.dumps({key: value for key, value in document.items() if key != "crc32"}, separators=(",", ":")).encode()

    assert kind.read(base.seal(body) if sealed else body, "later") == kind.document


@each_kind
def test_a_later_version_is_refused_by_its_name_its_number_and_what_to_do(kind: StoredKind) -> None:
    newer = kind.document_format.writes + 1

    with pytest.raises(errors.FormatVersionError) as raised:
        kind.read(rewritten(golden(kind), formatVersion=newer), "s3://b/x")

    assert raised.value.reason == "FormatVersionUnknown"
    assert raised.value.message == (
        f"s3://b/x has format version {newer}; this release reads 1 for {kind.document_format.name}. Use the release that "
        "wrote it, or a newer one."
    )


@each_kind
def test_a_later_version_that_looks_different_is_not_taken_for_damage(kind: StoredKind) -> None:
    body = rewritten(b"{}", formatVersion=kind.document_format.writes + 1, everything={"is": "elsewhere"})

    with pytest.raises(errors.FormatVersionError):
        kind.read(body, "s3://b/x")


@each_kind
def test_a_version_below_the_first_is_refused(kind: StoredKind) -> None:
    with pytest.raises(errors.FormatVersionError, match="has format version 0"):
        kind.read(rewritten(golden(kind), formatVersion=0), "s3://b/x")


@each_kind
def test_a_release_that_writes_version_2_reads_both(kind: StoredKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader looks at its row of `contract.formats`, and nowhere else."""
    version_2 = rewritten(golden(kind), formatVersion=2)
    raised = dataclasses.replace(kind.document_format, writes=2, reads=(1, 2))
    monkeypatch.setattr(type(kind.document), "FORMAT", raised)

    assert kind.read(golden(kind), "golden") == kind.document
    assert kind.read(version_2, "later") == kind.document.model_copy(update={"format_version": 2})
