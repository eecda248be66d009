"""What a job has on storage, as the object store keeps it in files: read, and damaged on purpose."""

from __future__ import annotations

import json
import os
from pathlib import Path

MANIFESTS = "checkpoints/*/_metadata.json"
"""Of a root's checkpoints."""
_LEDGER = "ledger"
_LEDGER_CHANGES = f"generations/*/{_LEDGER}/state/*/*/*.changelog"
_LEDGER_PACKS = f"generations/*/{_LEDGER}/packs/*/*/*.pack"


def state_of_newest_checkpoint(root: Path) -> tuple[Path, ...]:
    """Return the changes of the ledger's state that the newest checkpoint names and no older one."""
    newest, *older = sorted(root.glob(MANIFESTS), reverse=True)
    shared = {path for manifest in older for path in _ledger_changes(manifest)}
    return tuple(root / path for path in _ledger_changes(newest) if path not in shared)


def state_of_no_checkpoint(root: Path) -> tuple[Path, ...]:
    """Return the changes of the ledger's state that no checkpoint names: those of batches after the newest one."""
    named = {root / path for manifest in root.glob(MANIFESTS) for path in _ledger_changes(manifest)}
    return tuple(path for path in root.glob(_LEDGER_CHANGES) if path not in named)


def packs_of_no_checkpoint(root: Path) -> tuple[Path, ...]:
    """Return the packs of the ledger's state that no checkpoint names."""
    named = {root / path for manifest in root.glob(MANIFESTS) for path in _ledger_files(manifest)}
    return tuple(path for path in root.glob(_LEDGER_PACKS) if path not in named)


def _ledger_changes(manifest: Path) -> tuple[str, ...]:
    return tuple(path for path in _ledger_files(manifest) if path.endswith(".changelog"))


def _ledger_files(manifest: Path) -> tuple[str, ...]:
    queries = [query for query in json.loads(manifest.read_text())["queries"] if query["uid"] == _LEDGER]
    return tuple(f"{query['path']}/{file['path']}" for query in queries for file in query["files"])


def changed_at(path: Path) -> float:
    """Return when a file was changed, for an order."""
    return path.stat().st_mtime


def truncate(path: Path) -> None:
    """Cut a file in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    """Change a bit in the middle of a file, below an etag that stays."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))
