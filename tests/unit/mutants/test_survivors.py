"""The list of survivors is exact: what is new, was killed, is gone or is not judged is told; moved lines are not."""

from __future__ import annotations

import pytest
from mutation import groups, survivors, workspace
from mutation.survivors import Fate, Mutant, Survivor

_DIFF = """\
--- src/words.py
+++ src/words.py
@@ -{line},3 +{line},3 @@
 def count(words):
-        total = total + 1
+        total = total - 1
     return total
"""
_CHANGE = "- total = total + 1\n+ total = total - 1"


def _a_mutant(change: str = _CHANGE, function: str = "count") -> Mutant:
    return Mutant("words", function, change)


def _judged(mutant: Mutant, judgement: str = "Equivalent: nobody counts.") -> Survivor:
    return Survivor(mutant, judgement)


@pytest.mark.parametrize("line", [1, 300])
def test_a_mutant_is_known_by_what_changes_and_not_by_where(line: int) -> None:
    assert survivors.change_of(_DIFF.format(line=line)) == _CHANGE


@pytest.mark.parametrize(
    ("fates", "known", "told"),
    [
        pytest.param([(_a_mutant(), Fate.KILLED)], [], [], id="a killed mutant is no matter"),
        pytest.param([(_a_mutant(), Fate.SURVIVED)], [_judged(_a_mutant())], [], id="a judged survivor is known"),
        pytest.param([(_a_mutant(), Fate.SURVIVED)], [], ["survives and is not listed"], id="a new survivor"),
        pytest.param(
            [(_a_mutant(), Fate.SURVIVED)] * 2,
            [_judged(_a_mutant())],
            ["survives and is not listed"],
            id="a second one with the same text",
        ),
        pytest.param(
            [(_a_mutant(), Fate.SURVIVED), (_a_mutant(), Fate.KILLED)],
            [_judged(_a_mutant())],
            [],
            id="of two with the same text one survives",
        ),
        pytest.param(
            [(_a_mutant(), Fate.KILLED)],
            [_judged(_a_mutant())],
            ["is listed and was killed"],
            id="a listed one that a test now notices",
        ),
        pytest.param([], [_judged(_a_mutant())], ["is listed and no longer exists"], id="a listed one that is gone"),
        pytest.param(
            [(_a_mutant(), Fate.SURVIVED)],
            [_judged(_a_mutant(), " ")],
            ["is listed without a judgement"],
            id="a listed one that nobody judged",
        ),
        pytest.param(
            [(_a_mutant(function="add"), Fate.SURVIVED)],
            [_judged(_a_mutant())],
            ["survives and is not listed", "is listed and no longer exists"],
            id="the same change in another function",
        ),
        pytest.param([(_a_mutant(), Fate.SLOW)], [_judged(_a_mutant())], [], id="a busy machine kills no survivor"),
        pytest.param([(_a_mutant(), Fate.SLOW)], [], [], id="an endless loop is noticed"),
    ],
)
def test_the_list_is_held_against_what_was_found(
    fates: list[tuple[Mutant, Fate]], known: list[Survivor], told: list[str]
) -> None:
    found = survivors.problems(fates, known)

    assert [any(words in sentence for sentence in found) for words in told] == [True] * len(told)
    assert len(found) == len(told)


def test_a_list_that_is_written_anew_keeps_its_judgements_and_leaves_the_rest_open() -> None:
    kept, gone, new = _a_mutant(), _a_mutant(function="add"), _a_mutant(function="zero")
    fates = [(new, Fate.SURVIVED), (kept, Fate.SURVIVED), (gone, Fate.KILLED)]

    assert survivors.updated(fates, [_judged(kept), _judged(gone)]) == (_judged(kept), _judged(new, ""))


def test_a_list_is_read_back_as_it_was_written() -> None:
    listed = (_judged(_a_mutant('- say("a")\n+ say(None)'), 'Message text: says "\\n".'), _judged(_a_mutant()))

    assert survivors.parse(survivors.render(listed)) == listed


def test_a_property_is_written_so_that_it_can_be_changed_and_stays_one() -> None:
    source = "class Word:\n    length = 3\n\n    @property\n    def is_long(self):\n        return self.length > 2\n"
    made: dict[str, type] = {}

    exec(workspace.with_plain_methods(source), made)  # noqa: S102  the rewritten source is the subject

    assert made["Word"]().is_long is True
    assert "@property" not in workspace.with_plain_methods(source)


def test_a_validator_is_written_so_that_it_can_be_changed_and_goes_on_to_validate() -> None:
    source = (
        "from pydantic import BaseModel, field_validator\n\n\nclass Word(BaseModel):\n    text: str\n\n"
        '    @field_validator("text")\n    @classmethod\n    def _trim(cls, text):\n        return text.strip()\n'
    )
    made: dict[str, type] = {}

    exec(workspace.with_plain_methods(source), made)  # noqa: S102  the rewritten source is the subject

    assert made["Word"](text=" a ").text == "a"
    assert "@" not in workspace.with_plain_methods(source)


@pytest.mark.parametrize("decorator", ["classmethod", "staticmethod", "other.property", "contextmanager"])
def test_a_method_with_another_decorator_is_left_as_it_is(decorator: str) -> None:
    source = f"class Word:\n    @{decorator}\n    def make(cls):\n        return cls()\n"

    assert workspace.with_plain_methods(source) == source


def test_every_group_names_modules_and_tests_that_exist() -> None:
    sources = [workspace.ROOT / folder for folder in ("jobruntime/src", "operator/src")]
    for group in groups.GROUPS:
        assert [one for one in group.modules if not any([*folder.glob(one)] for folder in sources)] == []
        assert [one for one in group.tests if not (workspace.ROOT / "tests" / one).exists()] == []


def test_every_list_belongs_to_a_group_and_judges_all_of_its_survivors() -> None:
    lists = sorted((workspace.ROOT / "tests" / "mutants").glob("*.toml"))
    known = {group.name for group in groups.GROUPS}

    assert [path.name for path in lists if path.stem not in known] == []
    assert [one for path in lists for one in survivors.parse(path.read_text()) if not one.judgement.strip()] == []


def test_an_unknown_group_is_refused_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"words: no such group; there are: fast, coordinator"):
        groups.named(("words",))
