"""Results in every form, and progress."""

from __future__ import annotations

import io
import json

import pytest
import yaml
from fakecontrol import a_status
from hypothesis import given
from hypothesis import strategies as st
from statefulspark.cli import progress
from statefulspark.commandline import output, yaml_text
from statefulspark.commandline.output import OutputFormat
from statefulspark.contract import api

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_yaml_reads_back_as_what_was_written(value: object) -> None:
    assert yaml.safe_load(yaml_text.dump(value)) == value


@pytest.mark.parametrize(
    "text",
    ["yes", "No", "null", "~", "", " a", "a ", "1", "1e3", "0x1f", "2026-11-21", "12:30", "a: b", "a #b", "- a", "-", "?",
     "*a", "&a", "!a", "%a", "@a", "{", "[", "'a", '"', "a\\b", "tab\t", "line\nend", "\u2028", "\x85", "é", "=", "<<"],
)  # fmt: skip
def test_a_text_stays_a_text(text: str) -> None:
    assert yaml.safe_load(yaml_text.dump({text: [text, {text: text}]})) == {text: [text, {text: text}]}


def test_yaml_looks_as_kubectl_writes_it() -> None:
    value = {
        "kind": "checkpoint",
        "sizeBytes": 3,
        "batches": {"counts": 12},
        "none": [],
        "queries": [{"uid": "a", "x": [1]}],
    }

    assert yaml_text.dump(value) == (
        "kind: checkpoint\nsizeBytes: 3\nbatches:\n  counts: 12\nnone: []\nqueries:\n  - uid: a\n    x:\n      - 1\n"
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (OutputFormat.TEXT, "few columns\n"),
        (OutputFormat.WIDE, "many columns\n"),
        (OutputFormat.NAME, "job/default/words\n"),
    ],
)
def test_a_result_takes_the_form_that_is_asked_for(form: OutputFormat, text: str) -> None:
    result = output.Result(
        a_status(), ["job/default/words"], lambda wide: "many columns\n" if wide else "few columns\n"
    )

    assert output.render(result, form) == text
    assert yaml.safe_load(output.render(result, OutputFormat.YAML)) == json.loads(a_status().to_json())


class _Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bar_tells_rate_and_remaining_time() -> None:
    text = progress.bar_text("copying", 3 * 1024**3, 12 * 1024**3, 3 * 1024**3 / 30, "3 of 12 files")

    assert text == "copying [######..................]  25%  3.00 GiB of 12.0 GiB, 3 of 12 files  102 MiB/s  1m30s left"


@pytest.mark.parametrize(("done", "total"), [(0, 0), (0, 10), (10, 10)])
def test_a_bar_has_no_rate_before_there_is_one_and_ends_at_the_whole(done: int, total: int) -> None:
    text = progress.bar_text("copying", done, total, 0)

    assert ("100%" in text) is (done == total)
    assert "left" not in text


@pytest.mark.parametrize(
    ("terminal", "quiet", "lines"),
    [
        pytest.param(True, False, 1, id="at a terminal one line is rewritten"),
        pytest.param(False, False, 3, id="elsewhere a line comes now and then"),
        pytest.param(True, True, 0, id="quiet is quiet"),
    ],
)
def test_progress_suits_where_it_goes(terminal: bool, quiet: bool, lines: int) -> None:
    screen, clock = _Screen(terminal=terminal), _Clock()
    with progress.Bar("copying", quiet=quiet, stream=screen, clock=clock) as bar:
        for done in range(0, 101, 5):
            bar.show(done, 100)
            clock.now_s += 0.75

    assert screen.getvalue().count("\n") == lines
    assert ("\r" in screen.getvalue()) is (terminal and not quiet)
    assert ("100%" in screen.getvalue()) is not quiet


def _lines(*shown: api.Progress, every_s: float = 20.0) -> list[str]:
    screen, clock = _Screen(terminal=False), _Clock()
    with progress.Bar("savepoint a", stream=screen, clock=clock) as bar:
        for one in shown:
            bar.report(one)
            clock.now_s += every_s
    return screen.getvalue().splitlines()


def a_copy(done: int, total: int) -> api.Progress:
    return api.Progress(unit="files", done=done, total=total, done_bytes=done * 1024, total_bytes=total * 1024)


def test_what_is_shown_already_is_not_written_again() -> None:
    lines = _lines(a_copy(0, 4), a_copy(2, 4), a_copy(2, 4), a_copy(4, 4), a_copy(4, 4))

    assert [line.split("] ")[1] for line in lines] == [
        "  0%  0 B of 4.00 KiB, 0 of 4 files",
        " 50%  2.00 KiB of 4.00 KiB, 2 of 4 files  102 B/s  20s left",
        "100%  4.00 KiB of 4.00 KiB, 4 of 4 files  68 B/s  0s left",
    ]


def test_a_rate_counts_from_what_was_there_before_and_anew_for_the_difference_of_a_stop() -> None:
    lines = _lines(a_copy(100, 200), a_copy(120, 200), a_copy(0, 8), a_copy(4, 8))

    assert [line.split(" files")[1].split() for line in lines] == [
        [],
        ["1.00", "KiB/s", "1m20s", "left"],
        [],
        ["204", "B/s", "20s", "left"],
    ]


def test_operators_have_a_bar_without_bytes() -> None:
    lines = _lines(*(api.Progress(unit="operators", done=done, total=2) for done in range(3)))

    assert lines == [
        "savepoint a [........................]   0%  0 of 2 operators",
        "savepoint a [############............]  50%  1 of 2 operators",
        "savepoint a [########################] 100%  2 of 2 operators",
    ]
