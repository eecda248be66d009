"""Running other programs: every one with a deadline, its output in the error if it fails."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo import failure

OUTPUT_LINES_IN_ERROR = 15


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> str:
    """Run a program to its end.

    Args:
        command: Program and arguments.
        timeout_s: It is ended after this long.
        stdin: Text for its standard input.
        env: Variables beside the process's own.
        log: Append what it printed to this file.

    Returns:
        Its standard output.

    Raises:
        DemoFailedError: It is missing, took too long, or ended with another code than 0.
    """
    shown = shlex.join(command)
    try:
        done = subprocess.run(
            command,
            input=stdin,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise failure.DemoFailedError(
            f"The program {command[0]} is missing; `make demo-kubernetes` builds it."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise failure.DemoFailedError(f"`{shown}` did not end within {timeout_s:.0f} s.") from error
    if log is not None:
        _append(log, f"$ {shown}\n{done.stdout}{done.stderr}")
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-OUTPUT_LINES_IN_ERROR:])
        raise failure.DemoFailedError(f"`{shown}` failed with code {done.returncode}:\n{last}")
    return done.stdout


def _append(log: Path, text: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(text)
