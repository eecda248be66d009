"""What Spark has on storage, as the object store keeps it in files: state, logs of batches, and lists of output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_CHANGES = re.compile(r"^(\d+)(?:_[^.]*)?\.changelog$")


def newest_batch(checkpoint: Path) -> int:
    """Return the newest batch that a query has committed; -1 for none."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()), default=-1)


def newest_state(checkpoint: Path) -> Path:
    """Return the largest file of the changes that the newest committed batch has made to the state.

    Batch N makes version N + 1 of the state.

    Raises:
        LookupError: There is none.
    """
    version = newest_batch(checkpoint) + 1
    files = [path for path in checkpoint.glob("state/*/*/**/*.changelog") if version_of(path) == version]
    if not files:
        raise LookupError(f"{checkpoint} has no changelog of version {version}; choose a query whose state changes")
    return max(files, key=lambda path: path.stat().st_size)


def version_of(path: Path) -> int | None:
    """Return which version of the state a changelog leads to; None for other files."""
    match = _CHANGES.match(path.name)
    return int(match[1]) if match else None


def forget_batches(checkpoint: Path, first: int) -> tuple[str, ...]:
    """Delete the log entries of a batch and of those after it, as people do who are stuck, and return which they were."""
    gone = []
    for folder in ("commits", "offsets"):
        for path in sorted((checkpoint / folder).iterdir()):
            if _number(path.name) >= first:
                path.unlink()
                gone.append(f"{folder}/{path.name}")
    return tuple(gone)


def _number(name: str) -> int:
    """Return the batch of a log entry or of its checksum; -1 for other files."""
    digits = re.match(r"^\.?(\d+)(?:\.|$)", name)
    return int(digits[1]) if digits else -1


def listed(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the files that an entry of `_spark_metadata` adds."""
    for line in lines:
        if line.startswith("{"):
            entry = json.loads(line)
            if entry["action"] == "add":
                yield entry["path"]


def entries_to_read(names: Iterable[str]) -> tuple[str, ...]:
    """Return which entries of `_spark_metadata` have all files: the newest compacted one, and those after it."""
    batches = {int(name.partition(".")[0]): name for name in sorted(names) if name.partition(".")[0].isdigit()}
    compacted = [batch for batch, name in batches.items() if name.endswith(".compact")]
    first = max(compacted, default=-1)
    return tuple(name for batch, name in sorted(batches.items()) if batch >= first)
