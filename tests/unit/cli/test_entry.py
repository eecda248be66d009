"""The process of the command, before it has imported anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_an_interrupt_during_the_imports_ends_with_a_sentence(tmp_path: Path) -> None:
    """Ctrl-C in the first third of a second printed a stack of imports."""
    (tmp_path / "pydantic.py").write_text("raise KeyboardInterrupt\n")

    ended = subprocess.run(
        [sys.executable, "-c", "import sys; from statefulspark.cli import entry; sys.exit(entry.main())"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (130, "Interrupted before anything was done.\n")
