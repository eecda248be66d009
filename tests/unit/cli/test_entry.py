"""The process of the command, before it has imported anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from statefulspark.contract.exit_codes import ExitCode

pytestmark = pytest.mark.slow

COMMAND = "import sys; from statefulspark.cli import entry; sys.exit(entry.main())"


def test_an_interrupt_during_the_imports_ends_with_a_sentence(tmp_path: Path) -> None:
    """Ctrl-C in the first third of a second printed a stack of imports."""
    (tmp_path / "pydantic.py").write_text("raise KeyboardInterrupt\n")

    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "status"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (130, "Interrupted before anything was done.\n")


@pytest.mark.parametrize("way", [("-c", COMMAND), ("-m", "statefulspark.cli.main")], ids=["script", "module"])
def test_a_command_that_has_written_all_ends_before_python_takes_itself_apart(way: tuple[str, str]) -> None:
    """Threads of Arrow have aborted a process at its end, after its last row."""
    aborts = "import atexit, os; atexit.register(os.abort)"
    (name, code) = way
    as_module = (
        f"{aborts}; import runpy, sys; sys.argv[0] = 'statefulspark'; runpy.run_module({code!r}, run_name='__main__')"
    )
    script = f"{aborts}; {code}" if name == "-c" else as_module

    ended = subprocess.run([sys.executable, "-c", script, "version"], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (ExitCode.SUCCESS, "")
    assert ended.stdout.startswith("statefulspark ")


def test_output_that_cannot_be_written_is_an_error_with_its_cause() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (ended.returncode, ended.stderr) == (
        ExitCode.FAILED,
        "error: [Errno 28] No space left on device.\n",
    )


def test_a_reader_that_has_ended_is_told_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "version"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (ExitCode.FAILED, "")
