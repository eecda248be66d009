"""What is told of the steps of a start: the sentence, as a table; and when the count in it is renewed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fakecontrol import NOON
from statefulspark.contract import api
from statefulspark.driver.starting.controls import RENEWED_S, Steps, describe

GIB = 2**30


def files(done: int, total: int, done_bytes: int | None = None, total_bytes: int | None = None) -> api.Progress:
    return api.Progress(unit="files", done=done, total=total, done_bytes=done_bytes, total_bytes=total_bytes)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        pytest.param(None, "Working, since 12:00:00 UTC.", id="a step that is not counted"),
        pytest.param(files(0, 0, 0, 0), "Working, since 12:00:00 UTC.", id="a step with nothing to do"),
        pytest.param(
            files(120, 512, int(1.2 * GIB), int(4.8 * GIB)),
            "Working: 120 of 512 files (1.20 of 4.80 GiB), since 12:00:00 UTC.",
            id="files with their sizes",
        ),
        pytest.param(
            files(1, 2, 100 * 1024, 50 * 2**20),
            "Working: 1 of 2 files (0.1 of 50.0 MiB), since 12:00:00 UTC.",
            id="small files first, in the unit of the total",
        ),
        pytest.param(
            files(3, 4, 3000, 4000), "Working: 3 of 4 files (2.93 of 3.91 KiB), since 12:00:00 UTC.", id="small files"
        ),
        pytest.param(files(1, 2, 5, 10), "Working: 1 of 2 files (5 of 10 B), since 12:00:00 UTC.", id="a few bytes"),
        pytest.param(
            files(1, 2, 0, 5000 * 1024**4),
            "Working: 1 of 2 files (0 of 5000 TiB), since 12:00:00 UTC.",
            id="more than there is a unit for",
        ),
        pytest.param(files(2, 3, 0, 0), "Working: 2 of 3 files, since 12:00:00 UTC.", id="empty files"),
        pytest.param(
            api.Progress(unit="queries", done=1, total=3),
            "Working: 1 of 3 queries, since 12:00:00 UTC.",
            id="what has no size",
        ),
    ],
)
def test_a_step_is_told_as_a_sentence(told: api.Progress | None, sentence: str) -> None:
    assert describe("Working", NOON, told) == sentence


@dataclass
class Elapsed:
    """A clock that the test moves."""

    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def counted(steps: Steps) -> str:
    return steps.message.partition(", since")[0]


def test_the_count_in_the_message_is_renewed_now_and_then_and_the_other_one_always() -> None:
    elapsed = Elapsed()
    steps = Steps(NOON, elapsed_s=elapsed)
    report = steps.begin("Restoring")

    seen = [counted(steps)]
    report(files(1, 4))
    seen.append(counted(steps))
    report(files(2, 4))
    elapsed.now_s += RENEWED_S - 0.1
    seen.append(counted(steps))
    newest = steps.progress
    elapsed.now_s += 0.1
    seen.append(counted(steps))

    assert seen == ["Restoring", "Restoring: 1 of 4 files", "Restoring: 1 of 4 files", "Restoring: 2 of 4 files"]
    assert newest == files(2, 4)


def test_a_new_step_is_told_at_once_and_what_the_last_one_still_tells_is_ignored() -> None:
    steps = Steps(NOON, elapsed_s=Elapsed())
    late = steps.begin("Verifying")
    late(files(1, 2))
    before = counted(steps)

    steps.begin("Restoring")
    late(files(2, 2))

    assert before == "Verifying: 1 of 2 files"
    assert (counted(steps), steps.progress) == ("Restoring", None)
