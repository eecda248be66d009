"""Metrics in Prometheus's text format: parsed line by line, as a scraper does."""

from __future__ import annotations

import re

from fakecontrol import a_status, a_summary
from statefulspark.contract import api
from statefulspark.server import metrics

_SAMPLE = re.compile(r'(?P<name>[a-z_]+)\{(?P<labels>[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*)\} (?P<value>-?[0-9.e+-]+)')


def _samples(text: str) -> dict[tuple[str, str], float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    matches = [_SAMPLE.fullmatch(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if match is None]
    return {(match["name"], match["labels"]): float(match["value"]) for match in matches if match is not None}


def test_every_sample_has_a_help_and_a_type_before_it() -> None:
    text = metrics.render(a_status(last_checkpoint=a_summary()))

    declared: dict[str, set[str]] = {}
    for line in text.splitlines():
        word, kind, name = (*line.split(" ", 3)[:3],) if line.startswith("# ") else ("", "", line.split("{")[0])
        if word:
            declared.setdefault(name, set()).add(kind)
        else:
            assert declared[name.removesuffix("_sum").removesuffix("_count")] == {"HELP", "TYPE"}
    assert text.endswith("\n")


def test_values_are_those_of_the_status() -> None:
    samples = _samples(metrics.render(a_status(last_checkpoint=a_summary())))

    job = 'namespace="default",job="words"'
    expected = {
        "epoch": 7,
        "up": 1,
        "checkpoints_triggered_total": 5,
        "checkpoints_completed_total": 3,
        "checkpoints_failed_total": 2,
        "checkpoints_in_progress": 0,
        "last_checkpoint_id": 41,
        "last_checkpoint_size_bytes": 3_000_000,
        "last_checkpoint_duration_seconds": 2,
    }
    assert {name: samples[f"statefulspark_{name}", job] for name in expected} == expected
    assert samples["statefulspark_query_batch", f'{job},query="counts"'] == 12
    assert samples["statefulspark_query_rows_per_second", f'{job},query="counts"'] == 250.5


def test_a_job_without_a_checkpoint_has_no_series_about_the_last_one() -> None:
    assert "last_checkpoint" not in metrics.render(a_status())


def test_a_job_that_does_not_run_is_not_up() -> None:
    samples = _samples(metrics.render(a_status(state=api.JobState.STOPPING)))

    assert samples["statefulspark_up", 'namespace="default",job="words"'] == 0
