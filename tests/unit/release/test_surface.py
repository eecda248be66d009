"""A name, a signature or a metric that a release promised cannot go, or change its meaning, unnoticed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from release import stub, surface

STUB = """
from typing import Literal

class ss:
    LIMIT: int = 4
    class Base: ...
    class Rows(Base):
        size: int | None
        def __init__(self, name: str, *, mode: Literal['a', 'b'] = 'a') -> None: ...
        def read(self, count: int, reverse: bool = False) -> str | None: ...
        def close(self) -> None: ...
        @deprecated('Use read.')
        def take(self) -> str: ...
    class Function:
        @abstractmethod
        def process(self, rows: list[int]) -> int: ...
        def open(self) -> None: ...
    class Mode:
        ONE = 'one'
    def write(df: DataFrame, *, uid: str) -> Rows: ...
"""
METRICS = """
driver counter statefulspark_rows job_name query
driver gauge statefulspark_up job_name
"""

CALLS = {"http.txt": "", "commands.txt": ""}
"""No call is promised: `test_calls` compares them."""

BREAKS: dict[str, tuple[str, str, str]] = {
    "a function less": ("def write(", "def written(", "ss.write: public object was removed."),
    "a method less": ("def close(", "def closed(", "ss.Rows.close: public object was removed."),
    "a base less": ("class Rows(Base)", "class Rows", "ss.Rows: base class was removed."),
    "a member of an enum less": ("ONE = ", "TWO = ", "ss.Mode.ONE: public object was removed."),
    "another value": ("'one'", "'1'", "ss.Mode.ONE: its value was 'one', and is '1'."),
    "another constant": ("= 4", "= 5", "ss.LIMIT: its value was 4, and is 5."),
    "a method that is an attribute": (
        "def close(self) -> None: ...",
        "close: bool",
        "ss.Rows.close: public object points to a different kind of object.",
    ),
    "a parameter less": (", reverse: bool = False", "", "ss.Rows.read(reverse): parameter was removed."),
    "a parameter that is required": ("= False", "", "ss.Rows.read(reverse): parameter is now required."),
    "a required parameter more": ("*, uid: str", "*, uid: str, to: str", "ss.write(to): parameter was added as required."),
    "another default": ("= False", "= True", "ss.Rows.read(reverse): parameter default was changed."),
    "another order": (
        "count: int, reverse: bool = False",
        "reverse: bool = False, count: int = 1",
        "ss.Rows.read(count): positional parameter was moved.",
    ),
    "only by keyword": ("self, count", "self, *, count", "ss.Rows.read(count): parameter kind was changed."),
    "a narrower parameter": ("count: int", "count: bool", "ss.Rows.read(count): its type was int, and is bool."),
    "a word less": (
        "Literal['a', 'b']",
        "Literal['a']",
        "ss.Rows.__init__(mode): its type was Literal['a', 'b'], and is Literal['a'].",
    ),
    "a wider result": ("-> int", "-> int | None", "ss.Function.process: it returned int, and returns int | None."),
    "a wider attribute": ("size: int", "size: str | int", "ss.Rows.size: its type was int | None, and is str | int | None."),
    "a method that subclasses have to define": (
        "def open(",
        "@abstractmethod\n        def open(",
        "ss.Function.open: a subclass has to define it.",
    ),
    "one more of them": (
        "def open(",
        "@abstractmethod\n        def reset(self) -> None: ...\n        def open(",
        "ss.Function.reset: a subclass has to define it.",
    ),
    "a metric less": (
        "driver gauge statefulspark_up job_name",
        "",
        "the metric statefulspark_up of the driver is gone.",
    ),
    "another type of a metric": (
        "driver gauge statefulspark_up",
        "driver counter statefulspark_up",
        "the metric statefulspark_up of the driver was a gauge with job_name, and is a counter with job_name.",
    ),
    "a label more": (
        "up job_name",
        "up job_name sink",
        "the metric statefulspark_up of the driver was a gauge with job_name, and is a gauge with job_name, sink.",
    ),
    "a label less": (
        "job_name query",
        "job_name",
        "the metric statefulspark_rows of the driver was a counter with job_name, query, and is a counter with job_name.",
    ),
}  # fmt: skip

ADDITIONS = {
    "nothing": ("", ""),
    "a class": ("    class Mode:", "    class More: ...\n    class Mode:"),
    "a method": ("def close(", "def reset(self) -> None: ...\n        def close("),
    "a member of an enum": ("ONE = 'one'", "ONE = 'one'\n        TWO = 'two'"),
    "a parameter with a default": ("reverse: bool = False", "reverse: bool = False, limit: int = 4"),
    "a keyword with a default": ("*, uid: str", "*, uid: str, name: str = ''"),
    "a wider parameter": ("count: int", "count: int | str"),
    "a parameter that takes anything": ("count: int", "count: object"),
    "a word": ("Literal['a', 'b']", "Literal['a', 'b', 'c']"),
    "a narrower result": ("-> str | None", "-> str"),
    "a required parameter that is optional now": ("uid: str)", "uid: str = '')"),
    "a deprecation": ("def close(", "@deprecated('Use with.')\n        def close("),
    "a metric": ("driver gauge statefulspark_up", "driver gauge statefulspark_down job_name\ndriver gauge statefulspark_up"),
}  # fmt: skip


def a_release(folder: Path, version: str) -> Path:
    (folder / version).mkdir()
    (folder / version / "python.pyi").write_text(STUB)
    (folder / version / "metrics.txt").write_text(METRICS)
    (folder / version / "http.txt").write_text("")
    (folder / version / "commands.txt").write_text("")
    return folder


def a_tree(old: str, new: str) -> dict[str, str]:
    """The surface of the release with one change."""
    assert old in STUB or old in METRICS, old
    return {"python.pyi": STUB.replace(old, new, 1), "metrics.txt": METRICS.replace(old, new, 1), **CALLS}


@pytest.mark.parametrize(("old", "new", "sentence"), [pytest.param(*each, id=name) for name, each in BREAKS.items()])
def test_a_break_is_named_with_the_release_that_it_breaks(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    found = tuple(surface.breaks("0.1.3", a_tree(old, new), a_release(tmp_path, "0.1.0")))

    assert f"0.1.0: {sentence}" in found


@pytest.mark.parametrize(("old", "new"), [pytest.param(*each, id=name) for name, each in ADDITIONS.items()])
def test_an_addition_is_none(tmp_path: Path, old: str, new: str) -> None:
    assert tuple(surface.breaks("0.1.3", a_tree(old, new), a_release(tmp_path, "0.1.0"))) == ()


def test_a_version_that_announces_breaks_may_change_but_removes_only_what_was_deprecated(tmp_path: Path) -> None:
    released = a_release(tmp_path, "0.1.0")
    tree = a_tree("= False", "= True")
    tree["python.pyi"] = tree["python.pyi"].replace("def take(", "def taken(").replace("def close(", "def closed(")

    found = tuple(surface.breaks("0.2.0", tree, released))

    assert found == ("0.1.0: ss.Rows.close is gone, and was not deprecated.",)


def test_from_version_1_on_only_the_first_number_announces_breaks(tmp_path: Path) -> None:
    released = a_release(tmp_path, "1.4.2")

    assert tuple(surface.breaks("1.5.0", a_tree("= False", "= True"), released)) != ()
    assert tuple(surface.breaks("2.0.0", a_tree("= False", "= True"), released)) == ()


def test_a_break_of_a_call_is_named_with_the_release_that_it_breaks(tmp_path: Path) -> None:
    released = a_release(tmp_path, "0.1.0")
    (released / "0.1.0" / "http.txt").write_text("request GET /v1/status: call, optional\n")
    (released / "0.1.0" / "commands.txt").write_text("command statefulspark run: command, optional\n")

    found = tuple(surface.breaks("0.1.3", a_tree("", ""), released))

    assert found == ("0.1.0: request GET /v1/status is gone.", "0.1.0: command statefulspark run is gone.")
    assert tuple(surface.breaks("0.2.0", a_tree("", ""), released)) == ()


def test_this_tree_can_be_released_and_breaks_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(surface.RELEASED, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(surface, "RELEASED", tmp_path)
    monkeypatch.setattr("sys.argv", ["surface", "--write"])
    assert surface.main() == 0
    version = next(path.name for path in tmp_path.iterdir() if path.is_dir())

    broken = tuple(surface.breaks(f"{version}.post1", surface.files(), tmp_path))

    assert broken == ()
    assert {path.name for path in (tmp_path / version).iterdir()} == {
        "python.pyi",
        "metrics.txt",
        "http.txt",
        "commands.txt",
        "statefulsparkjobs.yaml",
        "sparksavepoints.yaml",
    }
    assert "statefulspark_up job_name job_namespace" in (tmp_path / version / "metrics.txt").read_text()


def test_the_stub_has_every_public_name_and_its_own_members() -> None:
    text = stub.text()

    for line in (
        "class Job:",
        "def query(self, *, uid: str) -> Callable[[QueryFunction], QueryFunction]: ...",
        "class KafkaSink",
        "class InvalidArgumentError(SpecRejectedError, StatefulSparkError, ValueError, Exception):",
        "ON_READ_AND_WRITE = 'OnReadAndWrite'",
    ):
        assert line in text, line
    assert "0x" not in text


def test_only_what_users_construct_has_a_constructor_in_the_stub() -> None:
    classes = dict(_classes_of(stub.text()))

    for name in ("Job", "Ttl", "FilesSink", "KafkaRecord", "KeyedHarness", "Secret"):
        assert "def __init__(" in classes[name], name
    for name in ("Output", "QueryContext", "Timers", "ValueState", "MetricCounter", "KeyedContext"):
        assert "def __init__(" not in classes[name], name


def _classes_of(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split("\n    class ")[1:]:
        yield re.split(r"[(:]", part, maxsplit=1)[0], part
