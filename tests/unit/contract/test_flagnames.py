"""Messages in the words of the command: every flag exists, and no field of a resource is left in any message."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import statefulspark
from statefulspark.cli import main
from statefulspark.contract import flagnames, rights
from statefulspark.contract.rights import SinkRight

_SOURCES = sorted(Path(statefulspark.__file__).parent.rglob("*.py"))
_FIELD = re.compile(r"(?<![\w.@])(?:restore|storage|driver|job|checkpoint)\.(?!run\b|hook\b|query\b)[a-z]\w*[A-Za-z]\b")
_NO_MESSAGE = re.compile(r"^[\w.:-]+$")


def test_every_flag_exists(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["run", "--help"])

    printed = capsys.readouterr().out
    assert [flag for flag in flagnames.BY_FIELD.values() if f"{flag} " not in printed] == []


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("api_port", "--api-port"),
        ("checkpoint.retention.count", "--checkpoint-retention-count"),
        ("owner_id", "owner_id"),
    ],
)
def test_a_field_has_its_flag_in_either_spelling(field: str, flag: str) -> None:
    assert flagnames.flag_of(field) == flag


def _messages() -> list[str]:
    """Return every string of an error's sentence that names a field."""
    texts = []
    for file in _SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise):
                texts += [
                    part.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and _FIELD.search(part.value)
                ]
    return [text for text in texts if not _NO_MESSAGE.match(text)]


def test_no_message_is_left_with_a_field_of_the_resource() -> None:
    messages = _messages()

    assert len(messages) > 5
    assert [text for text in map(flagnames.name_flags, messages) if _FIELD.search(text)] == []


def test_a_sentence_reads_well_in_flags() -> None:
    told = "Declare it again, or add 'a', 'b' to restore.dropState to start without that state."

    assert (
        flagnames.name_flags(told)
        == "Declare it again, or add --restore-drop-state a --restore-drop-state b to start without that state."
    )


@pytest.mark.parametrize(
    "needed",
    [
        {SinkRight.REPEAT: ["orders/table", "orders/log"]},
        {SinkRight.LOSE: ["orders/log"]},
        {SinkRight.REPEAT: ["orders/table"], SinkRight.LOSE: ["orders/table", "orders/log"]},
    ],
)
def test_rights_are_named_as_options(needed: dict[SinkRight, list[str]]) -> None:
    told = (
        f"Start with {rights.described(needed)}, then change restore.nonce to give it again (on the "
        f"command line {rights.options({SinkRight.REPEAT: ['orders/table']})} --restore-again)."
    )

    assert flagnames.name_flags(told) == (
        f"Start with {rights.options(needed)}, then add --restore-repeat-output-of orders/table --restore-again."
    )
