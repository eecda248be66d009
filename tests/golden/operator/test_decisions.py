"""Every rule's decision, compared whole with a file: what is said, recorded and done, and when it is looked at again.

A wanted change is written with `UPDATE_GOLDEN=1 pytest tests/golden/operator` and read in the diff.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

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
CASES = situationcases.CASES | standbycases.CASES | executorcases.CASES


def _action(act: object) -> dict[str, object]:
    assert dataclasses.is_dataclass(act)
    values = {field.name: getattr(act, field.name) for field in dataclasses.fields(act)}
    return {type(act).__name__: {name: _plain(value) for name, value in values.items()}}


def _plain(value: object) -> object:
    if isinstance(value, RestoreIntent):
        return json.loads(value.to_json())
    return json.loads(json.dumps(value, default=dataclasses.asdict))


def _rendered(situation: Situation, decision: Decision) -> dict[str, object]:
    """Return a decision; of its status what is recorded anew, without its conditions and what `phase` and `said` tell."""
    before, after = (json.loads(status.to_json()) for status in (situation.status, decision.status))
    names = sorted((before | after).keys() - {"phase", "message", "conditions", "observedGeneration"})
    rendered = {
        "reason": decision.reason.word,
        "phase": decision.phase.value,
        "said": decision.message,
        "again after s": decision.requeue_after.total_seconds(),
        "recorded": {name: after.get(name) for name in names if before.get(name) != after.get(name)},
        "done": [_action(act) for act in decision.actions],
    }
    shown = {"shown": after["message"]} if after["message"] != decision.message else {}
    return rendered | shown


def _written(rule: str) -> dict[str, object]:
    path = FOLDER / f"{rule}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        now = {name: _rendered(one, decide.decide(one)) for name, one in CASES[rule].items()}
        FOLDER.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(now, sort_keys=False, allow_unicode=True, width=120))
    known: dict[str, object] = yaml.load(
        path.read_text(), Loader=yaml.CSafeLoader
    )  # the one in Python takes half a second
    return known


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, object]]:
    return {rule: _written(rule) for rule in CASES}


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule, cases in CASES.items() for name in cases])
def test_a_situation_gets_the_whole_decision(written: dict[str, dict[str, object]], rule: str, name: str) -> None:
    situation = CASES[rule][name]

    decision = decide.decide(situation)

    assert _rendered(situation, decision) == written[rule][name]
    assert (decision.status.phase, decision.status.observed_generation) == (decision.phase, situation.job.generation)


def test_no_decision_is_written_of_a_situation_that_is_gone(written: dict[str, dict[str, object]]) -> None:
    assert {rule: [*cases] for rule, cases in written.items()} == {rule: [*cases] for rule, cases in CASES.items()}
