"""`statefulspark size` as a person and a script see it."""

from __future__ import annotations

import io
import json

import pytest
import yaml
from statefulspark.cli import main

GIVEN = ("size", "--keys", "4M", "--bytes-per-key", "110", "--rows", "20k")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_why_how_certain_and_what_is_reached_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(GIVEN) == 0

    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["FIGURE", "VALUE", "CERTAINTY", "WHY"]
    assert "First to be reached: " in out


def test_programs_get_the_figures_and_the_fields_of_the_resource(capsys: pytest.CaptureFixture[str]) -> None:
    main.main((*GIVEN, "-o", "json"))

    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"figures", "limits", "notes", "spec"}
    assert found["spec"]["sparkConf"] == {"spark.sql.shuffle.partitions": "2"}


def test_the_fields_alone_are_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    main.main((*GIVEN, "--spec"))

    assert yaml.safe_load(capsys.readouterr().out)["spec"]["driver"]["cores"] == 2


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--keys", "many"),
        ("--rows", "0"),
        ("--pod-memory", "8GB"),
        ("--operator-kind", "side"),
        ("--batch-interval", "0s"),
    ],
)
def test_a_wrong_value_is_named_with_its_flag(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main((*GIVEN, flag, value)) == 2
    assert f"Invalid value for '{flag}': '{value}' must be" in capsys.readouterr().err


def test_what_is_missing_is_named_where_nobody_can_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    assert main.main(("size", "--keys", "4M")) == 2
    assert "A size needs --bytes-per-key, --rows: give it" in capsys.readouterr().err


def test_at_a_terminal_it_asks_until_there_is_an_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal("many\n4M\n110\n20k\n" + "\n" * 7))

    assert main.main(("size", "--spec")) == 0
    shown = capsys.readouterr()
    assert "'many' must be a number" in shown.err
    assert yaml.safe_load(shown.out)["spec"]["driver"]["cores"] == 2
