"""The driver's HTTP API against its description: Schemathesis asks a real server what `docs/openapi.json` allows, and more.

Of every answer it checks that it is described, in code, type and shape; that what the description allows is accepted and
what it forbids is refused; that no request needs less than the token; and that none is answered with 500. A driver that
works is played behind the server: its snapshots end at once, and whoever waits for news gets some.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from coordination import a_checkpoint
from fakecontrol import NOON, TOKEN, FakeControl, a_status, a_summary, served, some_batches, some_state
from statefulspark.contract import api
from watched import Watched

NAME = "driver's API"
_DESCRIPTION = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"
_LONGEST_ANSWER_S = 10


class _LivelyControl(FakeControl):
    """A job that has news whenever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        run = Watched()
        run.snapshot(a_checkpoint())
        self.stats = run.stats
        self.newest, self.sizes = some_batches(), some_state()
        self.completes_with = a_summary()
        self._news = itertools.count()

    def status(self) -> api.JobStatus:
        failure = api.JobError(
            query="counts",
            reason="QueryFailed",
            message=f"Number {next(self._news)}.",
            failed_at=NOON,
            is_repeated=True,
        )
        return a_status(last_error=failure, last_checkpoint=a_summary())


def survives(corpus: Path, seconds: int) -> bool:
    """Ask for some seconds.

    Args:
        corpus: A folder for what was found; the requests of a failure are in it.
        seconds: For how long.

    Returns:
        Whether every answer was as described. What was not is printed with the `curl` that shows it again.
    """
    corpus.mkdir(parents=True, exist_ok=True)
    with served(_LivelyControl()) as url:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(_DESCRIPTION), "--url", url),
            *("--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--max-time", str(seconds)),
            *("--request-timeout", str(_LONGEST_ANSWER_S), "--continue-on-failure", "--no-color"),
        ]
        outcome = subprocess.run(command, cwd=corpus, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        print(outcome.stdout[-6000:], outcome.stderr[-3000:], sep="\n", flush=True)
    return outcome.returncode == 0
