"""Fuzz one reader in this process: `python -m fuzzing.guided NAME FLAGS-OF-LIBFUZZER`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["statefulspark", "msgpack", "zipfile"]):
    from fuzzing import targets


def main() -> None:
    """Read what libFuzzer makes up until time is up, or until something is raised that is no refusal."""
    target = next(target for target in targets.TARGETS if target.name == sys.argv[1])

    def read(body: bytes) -> None:
        try:
            target.read(body)
        except target.refusals:
            return

    atheris.Setup(sys.argv[1:], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
