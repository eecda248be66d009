"""What is built is built from what this repository names: by digest, by hash, or by commit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILES = ("jobruntime/Dockerfile", "operator/Dockerfile")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_actions_by_commit_and_reads_only(workflow: Path) -> None:
    document = yaml.safe_load(workflow.read_text())
    used = [step["uses"] for job in document["jobs"].values() for step in job["steps"] if "uses" in step]

    assert document["permissions"] == "read-all"
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []


def test_only_the_job_of_a_release_may_ask_for_an_identity_or_write() -> None:
    jobs = [(path.stem, job) for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]

    assert [stem for stem, job in jobs if "permissions" in job] == ["release"]


def pinned(lock: str) -> dict[str, str]:
    """Return the version by name of every distribution in a lock file."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / lock).read_text(), re.MULTILINE))
