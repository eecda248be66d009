"""Progress of long work: the step that it is in, and how many files, bytes or units of that step are done.

The work calls a function that it is given, and does not know who listens. A call is cheap enough for each file; the
listener decides how often it shows progress.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from statefulspark.contract.api import Progress

Report = Callable[[Progress], None]
"""Receives the progress of an operation; never from two threads at once."""
BeginStep = Callable[[str], Report]
"""Begins a step that is named by the beginning of a sentence, `Verifying checkpoint 41`. Returns the `Report` of that step,
which counts until another step begins."""


def ignore(_: Progress) -> None:
    """Drop progress: the `Report` of tools and tests."""


def ignore_steps(_: str) -> Report:
    """Drop a step and its progress: the `BeginStep` of tools and tests."""
    return ignore


def count_files(sizes_bytes: Sequence[int], report: Report) -> Callable[[int], None]:
    """Return a callback that takes the number of finished files and reports progress; reports zero files at once.

    Parallel copies finish in another order than they start, so the bytes are those of the first files in the list: exact
    at the start and at the end, and an estimate in between.

    Args:
        sizes_bytes: Sizes of the files, in the order in which they are copied.
        report: Called after every file.
    """
    until = tuple(itertools.accumulate(sizes_bytes, initial=0))

    def on_files(done: int) -> None:
        report(Progress(unit="files", done=done, total=len(sizes_bytes), done_bytes=until[done], total_bytes=until[-1]))

    on_files(0)
    return on_files


class FileCount:
    """Counts files that are done, in any order, and reports each time; zero files at once."""

    def __init__(self, sizes_bytes: Sequence[int], report: Report) -> None:
        """Count none yet.

        Args:
            sizes_bytes: Sizes of all files.
            report: Called for zero files now, and after every `add`.
        """
        self._total, self._total_bytes = len(sizes_bytes), sum(sizes_bytes)
        self._report = report
        self._done = self._done_bytes = 0
        self.add(())

    def add(self, sizes_bytes: Iterable[int]) -> None:
        """Count files that are done, by their sizes."""
        done = tuple(sizes_bytes)
        self._done += len(done)
        self._done_bytes += sum(done)
        self._report(
            Progress(
                unit="files",
                done=self._done,
                total=self._total,
                done_bytes=self._done_bytes,
                total_bytes=self._total_bytes,
            )
        )


def count_units(unit: str, total: int, report: Report) -> Callable[[], None]:
    """Return a callback for each unit that is done; reports zero of them at once.

    Args:
        unit: What is counted, in the plural.
        total: How many there are.
        report: Called after every unit.
    """
    numbers = itertools.count()

    def on_unit() -> None:
        report(Progress(unit=unit, done=next(numbers), total=total))

    on_unit()
    return on_unit
