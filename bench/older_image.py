"""The job's image as it was at an older commit, for what changed to be measured in one run.

It is built from a worktree of that commit, with that commit's Dockerfile and the jars of today, into the storage of `make
images`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench import machine

IMAGES = machine.ROOT / "build" / "images"
BASE = "localhost/statefulspark-base:1"
JARS = Path("jobruntime", "src", "statefulspark", "jars")


def build(commit: str) -> tuple[str, Path]:
    """Build the image, unless it was built before.

    Args:
        commit: What git knows it by.

    Returns:
        Its name, and the archive that a node loads.
    """
    short = _git("rev-parse", "--short", commit)
    name, archive = f"localhost/statefulspark:{short}", IMAGES / f"job-{short}.tar"
    if archive.exists():
        return name, archive
    sources = machine.ROOT / "build" / "downtime" / short
    _git("worktree", "add", "--force", "--detach", str(sources), short)
    try:
        shutil.copytree(machine.ROOT / JARS, sources / JARS, dirs_exist_ok=True)
        script, storage = str(machine.ROOT / "e2e" / "images" / "build.sh"), str(IMAGES / "storage")
        _run(script, storage, "build", BASE, "jobruntime/Dockerfile", ".", name, folder=sources)
        _run(script, storage, "export", name, str(archive), folder=sources)
    finally:
        _git("worktree", "remove", "--force", str(sources))
    return name, archive


def load(cluster: tuple[str, ...], archive: Path) -> None:
    """Bring the image to the nodes of a cluster of our own."""
    _run(*cluster, "images", "load", str(archive), folder=machine.ROOT)


def _git(*arguments: str) -> str:
    return _run("git", *arguments, folder=machine.ROOT)


def _run(*command: str, folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout.strip()
