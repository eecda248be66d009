"""Metrics in Prometheus's text format: parsed line by line, as a scraper does."""

from __future__ import annotations

import re
from pathlib import Path

from everymetric import a_driver_with_metrics, scraped
from fakecontrol import a_status, a_summary
from statefulspark.contract import api
from statefulspark.coordinator import model
from statefulspark.server import metrics

_SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)\{(?P<labels>[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*)\} (?P<value>-?[0-9.e+-]+)'
)
_PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
_FLINK = (
    "totalNumberOfCheckpoints", "numberOfInProgressCheckpoints", "numberOfCompletedCheckpoints",
    "numberOfFailedCheckpoints", "lastCheckpointRestoreTimestamp", "lastCheckpointSize", "lastCheckpointFullSize",
    "lastCheckpointDuration", "lastCheckpointProcessedData", "lastCheckpointPersistedData", "lastCheckpointExternalPath",
    "lastCompletedCheckpointId", "lastCheckpointCompletedTimestamp", "checkpointAlignmentTime",
    "checkpointStartDelayNanos",
)  # fmt: skip
"""Flink 2.1's metrics of checkpoints (B.10)."""


def _exposed() -> set[str]:
    return set(re.findall(r"^# TYPE (\w+) ", metrics.render(*a_driver_with_metrics()), re.MULTILINE))


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
            assert declared[name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")] == {
                "HELP",
                "TYPE",
            }
    assert text.endswith("\n")


def test_values_are_those_of_the_status() -> None:
    samples = _samples(metrics.render(a_status(last_checkpoint=a_summary())))

    job = 'job_name="words",job_namespace="default"'
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


def test_what_functions_count_has_series_of_its_own() -> None:
    counted = (
        api.FunctionMetric(operator="totals", name="late_orders", kind="Counter", value=3),
        api.FunctionMetric(operator="totals", name="largest_order", kind="Gauge", partition=1, value=7.5),
    )
    status = a_status()
    query = status.queries[0].model_copy(update={"metrics": counted})

    text = metrics.render(status.model_copy(update={"queries": (query,)}))

    labels = 'job_name="words",job_namespace="default",operator="totals"'
    samples = _samples(text)
    assert samples["statefulspark_function_late_orders_total", f'{labels},query="counts"'] == 3
    assert samples["statefulspark_function_largest_order", f'{labels},partition="1",query="counts"'] == 7.5
    assert "# TYPE statefulspark_function_late_orders_total counter" in text
    assert "# TYPE statefulspark_function_largest_order gauge" in text


def test_a_job_without_a_checkpoint_has_no_series_about_the_last_one() -> None:
    assert "last_checkpoint" not in metrics.render(a_status())


def test_a_job_that_does_not_run_is_not_up() -> None:
    samples = _samples(metrics.render(a_status(state=api.JobState.STOPPING)))

    assert samples["statefulspark_up", 'job_name="words",job_namespace="default"'] == 0


def test_every_documented_metric_is_exposed_and_every_exposed_one_documented() -> None:
    rows = re.findall(r"^\| `(statefulspark_\w+)` \| (\w+) \|", _PAGE.read_text(), re.MULTILINE)

    assert dict(rows) == {f"{metrics.PREFIX}{family.name}": family.kind for family in metrics.FAMILIES}
    assert {name for name, _ in rows} == _exposed()


def test_every_series_has_the_labels_that_its_family_declares() -> None:
    declared = {f"{metrics.PREFIX}{family.name}": set(family.labels) for family in metrics.FAMILIES}

    for name, labels in _samples(metrics.render(*a_driver_with_metrics())):
        family = name.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket")
        own = set(re.findall(r'(\w+)="', labels)) - set(metrics.JOB_LABELS)
        assert own == (declared[family] - ({"le"} if name.endswith(("_sum", "_count")) else set())), name


def test_every_checkpoint_metric_of_flinks_has_its_counterpart_or_a_reason_why_not() -> None:
    """B.10."""
    mapped = dict(re.findall(r"^\| `([a-z]\w+)` \| (`statefulspark_\w+`|none: )", _PAGE.read_text(), re.MULTILINE))

    assert set(mapped) == set(_FLINK)
    assert {name.strip("`") for name in mapped.values()} - {"none: "} <= _exposed()


def test_the_parts_of_the_last_checkpoint_are_told() -> None:
    samples = _samples(metrics.render(*a_driver_with_metrics()))

    job = 'job_name="words",job_namespace="default"'
    told = {name: samples[f"statefulspark_last_checkpoint_{name}", job] for name in ("start_delay_seconds", "files")}
    assert told == {"start_delay_seconds": 0.5, "files": 7}
    assert samples["statefulspark_last_checkpoint_alignment_seconds", job] == 1
    assert samples["statefulspark_last_checkpoint_async_duration_seconds", job] == 3
    assert samples["statefulspark_checkpoint_failures_total", f'{job},reason="FINALIZE_CHECKPOINT_FAILURE"'] == 1
    bucket = "statefulspark_checkpoint_duration_seconds_bucket"
    assert [samples[bucket, f'{job},le="{bound}"'] for bound in ("2.5", "5.0", "+Inf")] == [0, 2, 2]
    assert samples["statefulspark_checkpoint_duration_seconds_sum", job] == 7
    assert samples["statefulspark_checkpoint_duration_seconds_count", job] == 2


def test_the_first_failure_of_a_reason_is_an_increase() -> None:
    """Prometheus takes the first value of a series for what it began with: without a zero before it, one failure is none."""
    samples = _samples(metrics.render(a_status()))

    counts = {labels: count for (name, labels), count in samples.items() if name.endswith("checkpoint_failures_total")}
    assert {labels.split('reason="')[1].rstrip('"') for labels in counts} == {
        reason.value for reason in model.AbortReason
    }
    assert set(counts.values()) == {0}


def test_a_label_with_quotes_and_line_ends_stays_one_line() -> None:
    odd = a_status().model_copy(update={"job": 'a"b\\c\nd'})

    text = metrics.render(odd)

    assert 'job_name="a\\"b\\\\c\\nd",job_namespace="default"} 1.0\n' in text
    assert {sample.labels["job_name"] for family in scraped(text) for sample in family.samples} == {odd.job}
