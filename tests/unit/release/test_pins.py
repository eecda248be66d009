"""What is built is built from what this repository names: by digest, or by hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILES = ("jobruntime/Dockerfile", "operator/Dockerfile")
_BASE = re.compile(r"^ARG BASE=(debian:bookworm-\d{8}-slim@sha256:[0-9a-f]{64})$", re.MULTILINE)


def steps(dockerfile: str) -> list[str]:
    """Return the commands of a Dockerfile, one a line."""
    return (ROOT / dockerfile).read_text().replace("\\\n", " ").replace("&&", "\n").splitlines()


def test_both_images_begin_at_one_digest() -> None:
    bases = [_BASE.findall((ROOT / dockerfile).read_text()) for dockerfile in DOCKERFILES]

    assert [len(base) for base in bases] == [1, 1]
    assert bases[0] == bases[1]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_installs_nothing_from_an_index_without_its_hash(dockerfile: str) -> None:
    installs = [step for step in steps(dockerfile) if re.search(r"\bpip\b.*\b(install|wheel|download)\b", step)]

    assert installs
    assert [step for step in installs if "--require-hashes" not in step and "--no-index" not in step] == []


def test_the_tools_that_build_a_wheel_are_those_it_is_developed_with() -> None:
    developed = pinned("dev.txt")

    assert {name: developed.get(name) for name in pinned("build.txt")} == pinned("build.txt")
    assert "hatchling" in pinned("build.txt")


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_every_line_of_a_lock_has_a_hash_and_no_lock_has_an_index(lock: Path) -> None:
    entries = [entry for entry in re.split(r"\n(?=\S)", lock.read_text().strip()) if not entry.startswith("#")]

    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def pinned(lock: str) -> dict[str, str]:
    """Return the version by name of every distribution in a lock file."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / lock).read_text(), re.MULTILINE))
