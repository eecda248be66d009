"""What is measured in environments of its own counts the rows of our workload, and is checked as they are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bench import python_engines, workload
from bench.engines import rows

WORK = workload.Workload(rows=500, keys=300, batches=3)


@pytest.mark.parametrize("keys", [1, 7, 300, 5_000_000])
def test_rows_have_the_keys_of_our_workload(keys: int) -> None:
    work = workload.Workload(rows=500, keys=keys, batches=3)

    written_anew = rows.keys_of(np.arange(500, 1000, dtype=np.uint64), keys)

    assert written_anew.tolist() == work.keys_of(1).tolist()


def test_counts_are_checked_as_ours_are() -> None:
    counts = np.array([0, 3, 0, 5], np.int64)
    ours = workload.check_of(np.array([1, 3]), np.array([3, 5]))

    assert list(rows.check(counts).values()) == list(asdict(ours).values())


def test_one_more_batch_after_a_restart_goes_on_with_the_counts() -> None:
    before, after = python_engines.expected(WORK)

    *_, last = workload.Workload(rows=500, keys=300, batches=4).checks()
    assert (before.counted, after) == (1500, last)


def test_a_payload_leaves_room_for_the_count() -> None:
    assert rows.payload(12, compressible=True) == bytes(4)
    assert len(rows.payload(200, compressible=False)) == 192


def test_measuring_begins_when_all_processes_together_have_seen_the_warm_rows(tmp_path: Path) -> None:
    first = rows.Progress(tmp_path, 0, processes=2, warm_rows=10)
    other = rows.Progress(tmp_path, 1, processes=2, warm_rows=10)
    for process, number in ((first, 9), (other, 1), (first, 5)):
        process.add(number)
    for process in (first, other):
        process.end()
    marks = [json.loads((tmp_path / f"progress-{number}.json").read_text()) for number in (0, 1)]

    figures = rows.figures(tmp_path, asked_at_s=marks[0]["first_at_s"] - 1)

    assert figures["first_s"] == pytest.approx(1.0)
    assert marks[0]["warm_at_s"] > marks[1]["warm_at_s"]
    assert figures["durable_s"] == marks[1]["ended_at_s"] - marks[1]["warm_at_s"]


def test_what_is_persisted_is_counted_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "part").write_bytes(bytes(7))
    (tmp_path / "part").write_bytes(bytes(5))

    assert rows.persisted(tmp_path) == {"persisted_bytes": 12, "persisted_files": 2}
