"""Look for input that crashes a reader, guided by the code that it reaches (atheris); `make fuzz` runs it.

Each reader has its time and its own process. What was found useful stays in build/fuzz, and the next run begins with it.
A crash is a file there: add its bytes to tests/unit/test_hostile_bytes.py, and mend the reader.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from fuzzing import targets

_CORPUS = Path("build", "fuzz")
_LONGEST_INPUT = 20_000


def main() -> int:
    """Fuzz all readers, or those that are named.

    Returns:
        0, or 1 when a reader crashed.
    """
    parser = argparse.ArgumentParser(
        "fuzzing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="readers, by a part of their name (default: all)")
    parser.add_argument("--seconds", type=int, default=30, help="time for each (default: %(default)s)")
    options = parser.parse_args()
    chosen = [
        target for target in targets.TARGETS if not options.names or any(name in target.name for name in options.names)
    ]
    if not chosen:
        parser.error(f"no reader has a name like {' or '.join(options.names)}; there are: {_names()}")
    crashed = [target.name for target in chosen if not _survives(target, options.seconds)]
    print(f"{len(chosen) - len(crashed)} of {len(chosen)} readers refuse what they cannot read" + _list(crashed))
    return 1 if crashed else 0


def _names() -> str:
    return ", ".join(repr(target.name) for target in targets.TARGETS)


def _list(crashed: list[str]) -> str:
    return f"; these crash: {', '.join(crashed)}" if crashed else ""


def _survives(target: targets.Target, seconds: int) -> bool:
    folder = _CORPUS / re.sub(r"\W+", "-", target.name)
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (folder / f"seed-{number}").write_bytes(seed)
    command = [
        *(sys.executable, "-m", "fuzzing.guided", target.name),
        *(f"-max_total_time={seconds}", f"-max_len={_LONGEST_INPUT}", "-rss_limit_mb=2048"),
        *(f"-artifact_prefix={folder}.crash-", str(folder)),
    ]
    print(f"{target.name}: {seconds} s", flush=True)
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        print(outcome.stdout[-3000:], outcome.stderr[-3000:], sep="\n", flush=True)
    return outcome.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
