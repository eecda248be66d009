"""Writes documents as a later release would that has raised the version of one kind: `python laterrelease.py FOLDER KIND…`.

KIND is the name of a constant in `contract.formats`. For each one a process of its own raises it before anything else of the
runtime is imported, and writes one document of every kind into `FOLDER/KIND/`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))


def main(folder: Path, constants: list[str]) -> None:
    """Write the documents of one release after the other; processes are forked, so that libraries are imported once."""
    _import_libraries()
    for constant in constants:
        child = os.fork()
        if child == 0:
            _write_all(folder / constant, constant)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(f"no documents of a release that has raised {constant}")


def _import_libraries() -> None:
    """Import what the runtime imports, and forget the runtime itself."""
    import storeddocuments  # noqa: F401

    for name in [name for name in sys.modules if name.partition(".")[0] in ("statefulspark", "storeddocuments")]:
        del sys.modules[name]


def _write_all(folder: Path, constant: str) -> None:
    from statefulspark.contract import formats

    present = getattr(formats, constant)
    raised = present.writes + 1
    setattr(formats, constant, replace(present, writes=raised, reads=(*present.reads, raised)))
    import storeddocuments

    folder.mkdir(parents=True)
    for kind in storeddocuments.KINDS:
        (folder / f"{kind.name}.json").write_bytes(kind.write())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
