"""How far a copy of files is, in files and bytes, told while the object store works."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from statefulspark.contract.api import Progress

Report = Callable[[Progress], None]
"""Hears how far something is."""


def of_files(sizes_bytes: Sequence[int], report: Report) -> Callable[[int], None]:
    """Return what tells a report of files, given how many are done; the report hears at once that none is.

    Copies end in another order than they begin, a few at a time, so bytes are those of the first files: exact at both ends,
    and between them as good as a bar needs.

    Args:
        sizes_bytes: Of the files, in the order in which they are copied.
        report: Hears of every file.
    """
    until = tuple(itertools.accumulate(sizes_bytes, initial=0))

    def on_files(done: int) -> None:
        report(Progress(unit="files", done=done, total=len(sizes_bytes), done_bytes=until[done], total_bytes=until[-1]))

    on_files(0)
    return on_files
