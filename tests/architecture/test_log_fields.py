"""The fields of a log record: one that Python's own record has raises a KeyError where it is logged."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESERVED = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime"}


def reserved_fields(source: str) -> list[str]:
    extras = (
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "extra" and isinstance(node.value, ast.Dict)
    )
    names = (key.value for extra in extras for key in extra.keys if isinstance(key, ast.Constant))
    return [str(name) for name in names if name in RESERVED]


def test_no_field_of_a_log_record_is_one_of_pythons_own() -> None:
    files = [path for part in ("jobruntime", "operator") for path in (ROOT / part).rglob("*.py")]

    assert len(files) > 400
    assert {str(path): names for path in files if (names := reserved_fields(path.read_text()))} == {}


def test_a_reserved_field_is_found() -> None:
    assert reserved_fields('log.warning("x", extra={"name": 1, "job": 2})') == ["name"]
