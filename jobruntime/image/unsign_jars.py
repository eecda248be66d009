"""Takes the signatures out of jars: `python jobruntime/image/unsign_jars.py FOLDER`.

The JVM archives no class of a signed jar. Spark has two of them, Janino's, which compile what it generates for every query;
without the signatures a start maps their classes like all others, and checks no digests. Nothing else of the jars changes.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path

_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|RSA|DSA|EC)")


def unsign(jar: Path) -> bool:
    """Replace a jar by itself without signatures; return whether it had any."""
    with zipfile.ZipFile(jar) as signed:
        kept = [entry for entry in signed.infolist() if not _SIGNATURE.fullmatch(entry.filename)]
        if len(kept) == len(signed.infolist()):
            return False
        unsigned = jar.with_suffix(".unsigned")
        with zipfile.ZipFile(unsigned, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in kept:
                target.writestr(entry, signed.read(entry))
    # A package manager may have linked the file to its cache, so it is replaced and not written to.
    unsigned.replace(jar)
    return True


def main(arguments: list[str] | None = None) -> int:
    """Unsign every jar of a folder."""
    parser = argparse.ArgumentParser(prog="unsign_jars.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the jars are")
    for jar in sorted(parser.parse_args(arguments).folder.glob("*.jar")):
        if unsign(jar):
            print(f"{jar.name}: signatures removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
