"""Writes a golden file of each kind of document, in the version that this release writes: `python make.py`.

A file that is there is not written again: once a release has been made, it stands for the documents of that release, and a
field that is added goes into a file of its own, under another name.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "support"))


def main() -> None:
    """Write what is not there yet."""
    import storeddocuments

    for kind in storeddocuments.KINDS:
        path = HERE / f"{kind.name}-v{kind.document_format.writes}.json"
        if not path.exists():
            path.write_bytes(kind.write())


if __name__ == "__main__":
    main()
