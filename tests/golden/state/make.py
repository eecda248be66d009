"""Writes the golden files of keyed state whose content `tests/support` has: `python make.py`.

A file that is there is never written again: it stands for state that was written by that release.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "support"))


def main() -> None:
    """Write what is not there yet."""
    import goldenchunks

    for name, body in goldenchunks.FILES.items():
        if not (HERE / name).exists():
            (HERE / name).write_bytes(body)


if __name__ == "__main__":
    main()
