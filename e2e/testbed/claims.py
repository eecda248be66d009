"""What every scenario claims: one sentence that helps, no restart loop, nothing lost. They fail with what they saw."""

from __future__ import annotations

from testbed import totals, waiting
from testbed.job import Job, Seen

CALM_S = 15.0
"""Long enough for a loop without backoff to start a handful of drivers."""


def says(seen: Seen, *names: str) -> None:
    """Check that the message is one line for a person and names all of this; `pytest -rP` shows it."""
    print(f"{seen.reason}: {seen.message}")
    assert "\n" not in seen.message, seen.message
    assert "Traceback" not in seen.message, seen.message
    assert seen.message.endswith("."), seen.message
    assert len(seen.message) < 700, seen.message
    for name in names:
        assert name in seen.message, f"{name!r} is not in: {seen.message}"


def stays_calm(job: Job, *, epochs_max: int, seconds: float = CALM_S) -> None:
    """Check that no more epochs than this have been started, and that nothing on storage changes any more."""
    before = job.files()
    epochs = waiting.while_(lambda: job.see().epoch, seconds=seconds)
    assert max(epochs) <= epochs_max, f"Epochs {epochs}; at most {epochs_max} were expected."
    assert job.files() == before


def keeps(job: Job, before: dict[str, str]) -> None:
    """Check that every object of the state that was there before is still there, unchanged."""
    now = job.files()
    gone = sorted(key for key in before if key not in now)
    changed = sorted(key for key, etag in before.items() if key in now and now[key] != etag)
    assert (gone, changed) == ([], [])


def is_exact(job: Job) -> None:
    """Check everything that was ever committed against the truth."""
    assert totals.committed(job.output) >= 0, "Nothing was committed."
    differences = totals.differences(job.output)
    assert not differences, "\n".join(differences)
