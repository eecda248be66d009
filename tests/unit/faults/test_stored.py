"""Which files a scenario may damage, so that there is an older checkpoint to go back to."""

from __future__ import annotations

import json
from pathlib import Path

from faults import stored

STATE = "generations/00000001/ledger/state/0"


def write_manifest(root: Path, number: int, *changes: str) -> None:
    """Write a manifest that names changes of the ledger's state, and a file of another query."""
    ledger = {"uid": "ledger", "path": STATE, "files": [{"path": f"{name}.changelog"} for name in changes]}
    other = {"uid": "windows", "path": "generations/00000001/windows", "files": [{"path": f"{number}.changelog"}]}
    folder = root / "checkpoints" / f"{number:08}"
    folder.mkdir(parents=True)
    (folder / "_metadata.json").write_text(json.dumps({"queries": [ledger, other]}))


def test_only_the_newest_checkpoints_own_changes_of_the_ledger_are_damaged(tmp_path: Path) -> None:
    write_manifest(tmp_path, 8, "1", "2")
    write_manifest(tmp_path, 9, "1", "2", "3")

    assert stored.state_of_newest_checkpoint(tmp_path) == (tmp_path / STATE / "3.changelog",)


def test_nothing_is_damaged_of_a_batch_that_several_checkpoints_have(tmp_path: Path) -> None:
    write_manifest(tmp_path, 8, "1")
    write_manifest(tmp_path, 9, "1")

    assert stored.state_of_newest_checkpoint(tmp_path) == ()


def test_only_changes_that_no_checkpoint_names_are_of_later_batches(tmp_path: Path) -> None:
    write_manifest(tmp_path, 8, "0/1")
    write_manifest(tmp_path, 9, "0/1", "0/2")
    for name in ("0/1", "0/2", "0/3"):
        file = tmp_path / STATE / f"{name}.changelog"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    assert stored.state_of_no_checkpoint(tmp_path) == (tmp_path / STATE / "0/3.changelog",)
