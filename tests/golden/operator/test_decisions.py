"""Every rule's decision, compared whole with a file: what is said, recorded and done, and when it is looked at again.

A wanted change is written with `UPDATE_GOLDEN=1 pytest tests/golden/operator` and read in the diff.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import deletioncases
import executorcases
import pytest
import situationcases
import standbycases
import yaml
from statefulspark_operator.api.status import RestoreIntent
from statefulspark_operator.lifecycle import decide
from statefulspark_operator.lifecycle.decision import Decision
from statefulspark_operator.lifecycle.situation import Situation

FOLDER = Path(__file__).parent / "decisions"
CASES = situationcases.CASES | deletioncases.CASES | standbycases.CASES | executorcases.CASES


def _action(act: object) -> str:
    assert dataclasses.is_dataclass(act)
    fields = {field.name: getattr(act, field.name) for field in dataclasses.fields(act)}
    return f"{type(act).__name__}({', '.join(f'{name}={_plain(value)}' for name, value in fields.items())})"


def _plain(value: object) -> object:
    plain = json.loads(
        value.to_json() if isinstance(value, RestoreIntent) else json.dumps(value, default=dataclasses.asdict)
    )
    return json.dumps(plain) if isinstance(plain, dict | list) else plain


def _changes(before: object, after: object, path: str = "") -> Iterator[str]:
    """Yield what differs, value by value; what was not there before, or is not any more, as a whole."""
    if before == after:
        return
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield f"{path}={json.dumps(after, ensure_ascii=False)}"
        return
    for name in sorted(before | after):
        yield from _changes(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))


def _rendered(situation: Situation, decision: Decision) -> list[str]:
    """Return a decision; of its status what is recorded anew, without its conditions and what the other lines tell."""
    before, after = (json.loads(status.to_json()) for status in (situation.status, decision.status))
    shown = after["message"]
    for status in (before, after):
        for name in ("phase", "message", "conditions", "observedGeneration", "updateRevision"):
            status.pop(name, None)
        status.get("internal", {}).pop("reasonTime", None)
    wait_s = decision.requeue_after.total_seconds()
    lines = [
        f"{decision.reason.word}, {decision.phase.value}, again after {wait_s:g} s",
        decision.message,
        f"shown: {shown}" if shown != decision.message else "",
        "; ".join(_changes(before, after)),
        *(_action(act) for act in decision.actions),
    ]
    return [line for line in lines if line]


def _written(rule: str) -> dict[str, list[str]]:
    path = FOLDER / f"{rule}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        now = {name: _rendered(one, decide.decide(one)) for name, one in CASES[rule].items()}
        FOLDER.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(now, sort_keys=False, allow_unicode=True, width=1000))
    known: dict[str, list[str]] = yaml.load(
        path.read_text(), Loader=yaml.CSafeLoader
    )  # the one in Python takes half a second
    return known


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, list[str]]]:
    return {rule: _written(rule) for rule in CASES}


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule, cases in CASES.items() for name in cases])
def test_a_situation_gets_the_whole_decision(written: dict[str, dict[str, list[str]]], rule: str, name: str) -> None:
    situation = CASES[rule][name]

    decision = decide.decide(situation)

    assert _rendered(situation, decision) == written[rule][name]
    assert (decision.status.phase, decision.status.observed_generation) == (decision.phase, situation.job.generation)
    assert decision.status.update_revision == (situation.withheld or situation.desired_revision)


def test_no_decision_is_written_of_a_situation_that_is_gone(written: dict[str, dict[str, list[str]]]) -> None:
    assert {rule: [*cases] for rule, cases in written.items()} == {rule: [*cases] for rule, cases in CASES.items()}
