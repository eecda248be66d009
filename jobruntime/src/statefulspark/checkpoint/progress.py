"""Progress of a copy of files, in files and bytes, reported while the object store works."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from statefulspark.contract.api import Progress

Report = Callable[[Progress], None]
"""Receives the progress of an operation."""


def of_files(sizes_bytes: Sequence[int], report: Report) -> Callable[[int], None]:
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
