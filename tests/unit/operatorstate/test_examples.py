"""The examples, without Spark: what their functions do, and what they keep."""

from __future__ import annotations

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from statefulspark import job, operatorstate
from statefulspark.operatorstate import batches, record
from statefulspark.operatorstate.model import OperatorState

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "operator_state"


def of_example(file: str) -> dict[str, object]:
    return runpy.run_path(str(EXAMPLES / file))


def a_run(sink: operatorstate.DriverSink, restored: OperatorState | None = None) -> batches.SinkRun:
    return batches.SinkRun("example", sink, restored=restored, checkpoint_id=None)


def deliver(run: batches.SinkRun, batch: int, numbers: range, parallelism: int = 2) -> OperatorState:
    run.begin(batch)
    for number in numbers:
        run.invoke(number % parallelism, SimpleNamespace(number=number, n=number))
    body = run.end(operatorstate.FunctionSnapshotContext(batch, datetime.fromtimestamp(0, UTC)))
    return record.decode(body or b"", "memory")


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_declares_a_job_with_one_query(file: str) -> None:
    declared = of_example(file)["job"]

    assert isinstance(declared, job.Job)
    assert len(declared.queries) == 1


def test_the_hook_of_the_journal_tells_readers_where_it_may_repeat_itself(tmp_path: Path) -> None:
    journal = of_example("master_hook.py")["journal"]
    journal.path = tmp_path / "journal.txt"  # type: ignore[attr-defined]
    journal.path.write_text("0: [0, 1]\n")  # type: ignore[attr-defined]
    noted = journal.trigger(7, 0)  # type: ignore[attr-defined]
    journal.path.write_text("0: [0, 1]\n1: [2, 3]\n")  # type: ignore[attr-defined]

    journal.restore(7, noted)  # type: ignore[attr-defined]

    *_, last = journal.path.read_text().splitlines()  # type: ignore[attr-defined]
    assert last == "back at checkpoint 7: what follows byte 10 may come again"


def test_a45_the_buffering_sink_loses_and_repeats_nothing_when_it_is_stopped_and_rescaled(tmp_path: Path) -> None:
    function = of_example("buffering_sink.py")["BufferingSink"](str(tmp_path), 5)  # type: ignore[operator]
    held = deliver(a_run(operatorstate.DriverSink(function, parallelism=2)), 0, range(23))
    wider = a_run(operatorstate.DriverSink(function, parallelism=3), held)

    left = deliver(wider, 1, range(23, 50), 3)

    written = [number for path in tmp_path.glob("*.json") for number in json.loads(path.read_text())]
    buffered = [number for part in left.states["buffered-elements"].parts for number in part]
    assert sorted([*written, *buffered]) == list(range(50))


def test_a45_a_batch_that_runs_again_writes_the_same_files(tmp_path: Path) -> None:
    function = of_example("buffering_sink.py")["BufferingSink"](str(tmp_path), 5)  # type: ignore[operator]
    held = deliver(a_run(operatorstate.DriverSink(function, parallelism=2)), 0, range(8))
    deliver(a_run(operatorstate.DriverSink(function, parallelism=2), held), 1, range(8, 40))
    first = {path.name: path.read_text() for path in tmp_path.glob("*.json")}

    deliver(a_run(operatorstate.DriverSink(function, parallelism=2), held), 1, range(8, 40))

    assert {path.name: path.read_text() for path in tmp_path.glob("*.json")} == first


def test_a38_the_rule_filter_knows_its_rules_in_subtasks_that_are_new(tmp_path: Path) -> None:
    rules = of_example("broadcast_rules.py")["RuleFilter"](str(tmp_path))  # type: ignore[operator]
    run = a_run(operatorstate.DriverSink(rules, parallelism=2, broadcast="kind = 'rule'"))
    run.begin(0)
    run.invoke_broadcast(SimpleNamespace(n=3))
    body = run.end(operatorstate.FunctionSnapshotContext(1, datetime.fromtimestamp(0, UTC)))
    assert body is not None

    deliver(
        a_run(operatorstate.DriverSink(rules, parallelism=4, broadcast="kind = 'rule'"), record.decode(body, "memory")),
        1,
        range(9),
        4,
    )

    found = {path.name: path.read_text().split() for path in tmp_path.glob("*.txt")}
    assert found == {
        "divisible-by-3.subtask-0.txt": ["0"],
        "divisible-by-3.subtask-2.txt": ["6"],
        "divisible-by-3.subtask-3.txt": ["3"],
    }
