"""What both images have against a file that somebody gets written into a container: it does not run as code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["jobruntime/Dockerfile", "operator/Dockerfile"])
def stage(request: pytest.FixtureRequest) -> str:
    """Return the last stage of an image, one command a line."""
    text = (ROOT / request.param).read_text().replace("\\\n", " ")
    return text[text.rindex("\nFROM ") :]


def test_python_imports_nothing_from_the_working_directory(stage: str) -> None:
    assert re.search(r"^ENV .*\bPYTHONSAFEPATH=1\b", stage, re.MULTILINE)


def test_the_working_directory_belongs_to_another_user_than_the_process(stage: str) -> None:
    assert re.findall(r"^WORKDIR (.*)$", stage, re.MULTILINE) == ["/opt/statefulspark"]
    assert re.findall(r"^USER (.*)$", stage, re.MULTILINE) == ["10001:10001"]
    # What is copied belongs to root, and no command of this stage gives it away.
    assert "--chown" not in stage
    assert not re.search(r"^RUN ", stage, re.MULTILINE)
