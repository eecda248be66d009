"""Writes the golden file of each chunk whose content `tests/support` has: `python make.py`.

A file that is there is never written again: it stands for chunks that were written by that release.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "support"))


def main() -> None:
    """Write what is not there yet."""
    import columnchunk
    from statefulspark.state.stored import chunks

    contents = {
        "chunk-v5-columns.bin": columnchunk.as_columns,
        "chunk-v6-timers.bin": columnchunk.timers_as_columns,
    }
    for name, make in contents.items():
        if not (HERE / name).exists():
            (HERE / name).write_bytes(chunks.encode(make()))


if __name__ == "__main__":
    main()
