"""What a row says of a run follows from the requests that passed, and a report goes on where it ended."""

from __future__ import annotations

from pathlib import Path

from faults import row
from faults.s3proxy import Passed
from load.compare import Fault, Finding


def put(at_s: float, path: str, status: int = 200) -> Passed:
    return Passed(at_s, "PUT", f"/bucket/state/default/load/generations/{path}", status, None)


CLAIM = Passed(8, "PUT", "/bucket/state/default/load/epochs/00000002.json", 200, None)


def test_a_batch_that_was_only_held_up_by_a_fault_was_not_replayed() -> None:
    passed = [put(3, "00000001/ledger/offsets/1"), put(10, "00000001/ledger/commits/1")]

    assert row.replayed(passed, hurt_s=5) == ""


def test_a_batch_that_one_driver_planned_and_the_next_one_committed_was_replayed() -> None:
    passed = [
        put(1, "00000001/ledger/offsets/0"),
        put(2, "00000001/ledger/commits/0"),
        put(3, "00000001/ledger/offsets/1"),
        put(3, "00000001/windows/offsets/0"),
        CLAIM,
        put(9, "00000001/ledger/commits/1", status=503),
        put(10, "00000001/ledger/commits/1"),
        put(11, "00000001/ledger/offsets/2"),
        put(12, "00000001/ledger/commits/2"),
    ]

    assert row.replayed(passed, hurt_s=5) == "ledger 1"
    assert row.first_commit_s(passed, healed_s=5) == 5


def test_batches_that_are_committed_again_in_another_generation_were_replayed() -> None:
    passed = [
        put(1, "00000001/ledger/commits/7"),
        put(2, "00000001/ledger/commits/8"),
        put(8, "00000002/ledger/commits/8"),
        put(9, "00000002/ledger/commits/9"),
    ]

    assert row.replayed(passed, hurt_s=5) == "ledger 1"


def test_without_a_commit_after_the_fault_there_is_no_time() -> None:
    assert row.first_commit_s([put(1, "00000001/ledger/commits/7")], healed_s=5) is None


def test_a_report_goes_on_where_it_ended_and_its_table_has_the_newest_row_of_each_scenario(tmp_path: Path) -> None:
    failed = row.Row("s3-cut", 7, passed=False, lost=1, findings=("lost: ledger key-001 5",), exits=("1", "-9"))
    report = row.Report(tmp_path / "report.jsonl")
    report.add(failed)
    report.add(row.Row("calm", 7, passed=True))

    again = row.Report(tmp_path / "report.jsonl")
    assert again.rows() == (failed, row.Row("calm", 7, passed=True))
    assert (again.has_passed("calm"), again.has_passed("s3-cut"), again.has_passed("other")) == (True, False, False)
    assert "lost: ledger key-001 5" in again.table.read_text()

    again.add(row.Row("s3-cut", 8, passed=True))
    assert again.has_passed("s3-cut")
    assert "key-001" not in again.table.read_text()


def test_all_queries_are_back_when_the_last_of_those_that_worked_before_has_committed() -> None:
    plain = "/bucket/checkpoints/ledger/commits/{}"
    passed = [
        put(1, "00000001/windows/commits/4"),
        Passed(2, "PUT", plain.format(7), 200, None),
        put(10, "00000002/windows/commits/5"),
        Passed(12, "PUT", plain.format(8), 503, None),
        Passed(13, "PUT", plain.format(8), 200, None),
    ]

    assert row.all_commit_s(passed, hurt_s=3, healed_s=9) == 4
    assert row.all_commit_s(passed[:4], hurt_s=3, healed_s=9) is None
    assert row.first_commit_s(passed, healed_s=9) == 1


def test_differences_are_counted_for_each_output() -> None:
    findings = [Finding(fault, "ledger", "key", 1) for fault in (Fault.REPEATED, Fault.REPEATED, Fault.LOST)]

    counts = row.by_output([*findings, Finding(Fault.STALE, "state", "key", 2)])

    assert counts == (("ledger", 1, 2, 0), ("state", 0, 0, 1))


def test_a_pause_is_the_longest_time_between_two_commits_of_a_query_from_its_last_one_before_the_fault() -> None:
    passed = [
        put(1, "00000001/ledger/commits/1"),
        put(2, "00000001/windows/commits/1"),
        put(4, "00000001/ledger/commits/2"),
        put(6, "00000001/ledger/commits/3"),
        put(11, "00000002/windows/commits/2"),
        put(12, "00000002/ledger/commits/4"),
        put(30, "00000002/late/commits/0"),
    ]

    assert row.pause_s(passed, hurt_s=5) == 9
    assert row.pause_s(passed[:4], hurt_s=5) is None
    assert row.pause_s([], hurt_s=5) is None
