"""Look for input that crashes a reader, and for requests that the driver answers otherwise than it says; see `make fuzz`.

Atheris tries readers, guided by the code that an input reaches. Schemathesis tries the driver's API. Spark's readers of
state read changed files in a JVM.

Each has its time and its own process. What was found useful stays in build/fuzz, and the next run begins with it.
A crash is a file there: add its bytes to tests/unit/test_hostile_bytes.py, and mend the reader. A wrong answer is printed
with its request: add it to tests/unit/server.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fuzzing import driverapi, sparkstate, targets

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
    chosen = [name for name in _CHECKS if not options.names or any(part in name for part in options.names)]
    if not chosen:
        parser.error(f"no reader has a name like {' or '.join(options.names)}; there are: {_names()}")
    crashed = [name for name in chosen if not _survives(name, options.seconds)]
    print(f"{len(chosen) - len(crashed)} of {len(chosen)} readers refuse what they cannot read" + _list(crashed))
    return 1 if crashed else 0


def _names() -> str:
    return ", ".join(map(repr, _CHECKS))


def _list(crashed: list[str]) -> str:
    return f"; these crash: {', '.join(crashed)}" if crashed else ""


def _survives(name: str, seconds: int) -> bool:
    print(f"{name}: {seconds} s", flush=True)
    return _CHECKS[name](_CORPUS / re.sub(r"\W+", "-", name), seconds)


def _is_never_crashed(target: targets.Target, corpus: Path, seconds: int) -> bool:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    command = [
        *(sys.executable, "-m", "fuzzing.guided", target.name),
        *(f"-max_total_time={seconds}", f"-max_len={_LONGEST_INPUT}", "-rss_limit_mb=2048"),
        *(f"-artifact_prefix={corpus}.crash-", str(corpus)),
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        print(outcome.stdout[-3000:], outcome.stderr[-3000:], sep="\n", flush=True)
    return outcome.returncode == 0


_CHECKS: Mapping[str, Callable[[Path, int], bool]] = {
    **{target.name: functools.partial(_is_never_crashed, target) for target in targets.TARGETS},
    driverapi.NAME: driverapi.survives,
    sparkstate.NAME: sparkstate.survives,
}
"""What can be tried, by name: each takes its folder and its time, and tells whether it survived."""


if __name__ == "__main__":
    sys.exit(main())
