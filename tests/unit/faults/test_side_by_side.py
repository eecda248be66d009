"""Our rows of the fault matrix and those of plain PySpark become one table: what is read, and what is counted."""

from __future__ import annotations

from faults import row

from bench import faults, recoveries
from bench.faults_picture import Figures

PAGE = """
| scenario | seed | lost | repeated | wrong | rows | first commit | replayed batches | exits |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| `calm` | 1 | 0 | 0 | 0 | 10,403 | 7.8 s | ledger 1, windows 1 | none |
| `checkpointed-state-missing` | 42 | 0 | 4,865 | 0 | 25,523 | 50.3 s | counter 2 | -9 |
"""
KILLED = row.Row(
    "calm",
    seed=1,
    passed=True,
    repeated=30,
    first_commit_s=20.0,
    all_commit_s=24.5,
    outputs=(("ledger", 0, 20, 0), ("windows", 0, 10, 0), ("windows, careful", 0, 1, 0)),
)


def test_our_rows_are_those_of_the_page() -> None:
    assert faults.ours(PAGE) == {
        "calm": Figures(0, 0, 0, 7.8),
        "checkpointed-state-missing": Figures(0, 4865, 0, 50.3),
    }


def test_the_careful_form_has_its_own_table_of_windows_in_place_of_the_usual_one() -> None:
    assert faults.usual(KILLED) == Figures(0, 30, 0, 20.0)
    assert faults.careful(KILLED) == Figures(0, 21, 0, 20.0)


def test_a_line_of_the_table_has_both() -> None:
    *_, line = faults.table(faults.ours(PAGE), (KILLED,))

    assert line == "| `calm` | 0 / 0 / 0 | 7.8 s | 0 / 30 / 0 | 0 / 21 / 0 | 20.0 s | 24.5 s | nothing | nothing |"


def test_a_job_that_a_person_had_to_help_has_no_time_of_its_own() -> None:
    stuck = row.Row(
        "calm", seed=1, passed=True, first_commit_s=9.0, all_commit_s=99.0, stuck="SOME_CLASS", person="wait"
    )

    *_, line = faults.table({}, (stuck,))

    assert line == "| `calm` | not run | none | 0 / 0 / 0 | 0 / 0 / 0 | none | none | `SOME_CLASS` | wait |"


def test_pauses_are_those_of_the_runs_of_a_kind_that_went_well() -> None:
    rows = [
        row.Row("killed-01", seed=1, passed=True, pause_s=4.0),
        row.Row("killed-02", seed=1, passed=True, pause_s=5.0),
        row.Row("killed-03", seed=1, passed=False, pause_s=99.0),
        row.Row("upgraded-01", seed=1, passed=True, pause_s=None),
        row.Row("worker-killed", seed=1, passed=True, pause_s=1.0),
    ]

    assert recoveries.pauses(rows) == {"killed": [4.0, 5.0], "upgraded": [], "handed-over": []}
