"""The image's class-data archive: it is trained with the few modules of the product that the Dockerfile copies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import training_store

pytestmark = pytest.mark.slow

IMAGE = Path(training_store.__file__).parent
ROOT = IMAGE.parents[1]
_COPY = re.compile(r"^COPY (jobruntime/src/statefulspark/\S+\.py) /own/(\S*)$", re.MULTILINE)


def test_the_training_finds_all_it_imports_in_the_image(tmp_path: Path) -> None:
    """A new import of one of these modules is otherwise noticed by whoever builds the image next."""
    for source, folder in _COPY.findall((ROOT / "jobruntime" / "Dockerfile").read_text()):
        (tmp_path / "statefulspark" / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, tmp_path / "statefulspark" / folder)
    path = [str(tmp_path), str(IMAGE), sysconfig.get_path("purelib")]
    code = f"import sys; sys.path[:0] = {path}; import train_archive; print(train_archive.gateway.__file__)"

    # Without `site`, the product is not found where it is installed for development.
    ended = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert ended.stderr == ""
    assert tmp_path in Path(ended.stdout).parents
