"""A driver that ends as planned looks well to rules that watch every pod of a cluster, in Prometheus's own engine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import processes
import pytest
import yaml
from jobworld import JobWorld
from statefulspark_operator.api.status import Phase, UpgradeState
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

pytestmark = pytest.mark.slow  # it starts a program in Go

PROMTOOL = Path(__file__).resolve().parents[3] / "build" / "bin" / "promtool"
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
EVERY_S = 30
WATCHED_MINUTES, SAMPLES = 20, 180
"""How long pods are watched, and how often they are sampled: they stay as they are, for longer than any rule waits."""
RULES: dict[str, tuple[str, str]] = {
    "PodUnhealthy": ('sum by (pod) (kube_pod_status_phase{phase=~"Pending|Failed|Unknown"}) > 0', "15m"),
    "PodFailed": ('sum by (pod) (kube_pod_status_phase{phase="Failed"}) > 0', "0m"),
    "ContainerFailed": ('kube_pod_container_status_last_terminated_reason{reason!="Completed"} > 0', "0m"),
    "ContainerWaits": ("sum by (pod) (kube_pod_container_status_waiting_reason) > 0", "1h"),
    "ContainerRestarts": ("increase(kube_pod_container_status_restarts_total[10m]) > 0", "0m"),
}
"""The conditions that clusters alert on for any pod, by the series of kube-state-metrics."""


def upgrade(world: JobWorld) -> None:
    world.change({"image": "registry.example/flights:2"})
    world.run_until(lambda: world.status.upgrade is not None and world.status.upgrade.state is UpgradeState.STABLE)


def suspend(world: JobWorld) -> None:
    world.change({"suspend": True})
    world.run_until(lambda: world.status.phase is Phase.SUSPENDED)


def drain(world: JobWorld) -> None:
    epoch = world.status.epoch or 0
    world.cluster.remove(("Pod", "demo", world.driver.pod))
    world.run_until(lambda: world.status.epoch == epoch + 1 and world.status.phase is Phase.RUNNING)


def fail(world: JobWorld) -> None:
    world.fail_driver(1, "QueryFailed")
    world.run(60)


def series_of(pod: Resource) -> dict[str, int]:
    """Return the series that kube-state-metrics has for a pod."""
    name = resources.text(pod, "metadata", "name")
    phase = resources.text(pod, "status", "phase") or "Pending"
    values = {f'kube_pod_status_phase{{pod="{name}",phase="{each}"}}': int(each == phase) for each in PHASES}
    for container in resources.items(pod, "status", "containerStatuses"):
        state = resources.section(container, "state")
        labels = f'pod="{name}",container="{resources.text(container, "name")}"'
        values[f"kube_pod_container_status_restarts_total{{{labels}}}"] = resources.number(container, "restartCount")
        for kind, series in (("waiting", "waiting_reason"), ("terminated", "last_terminated_reason")):
            if reason := resources.text(state, kind, "reason"):
                values[f'kube_pod_container_status_{series}{{{labels},reason="{reason}"}}'] = 1
    return values


def watch(strategy: str, happens: Callable[[JobWorld], None]) -> list[dict[str, int]]:
    """Return the series of all pods, twice a minute, while something happens to a job and long after."""
    world, seen = JobWorld(), []
    world.change({"upgrade": {"strategy": strategy}})
    passed = world.pass_time

    def pass_and_look(seconds: int = 1) -> None:
        passed(seconds)
        if world.time.second % EVERY_S == 0:
            samples: dict[str, int] = {}
            for pod in world.cluster.pods():
                samples |= series_of(pod)
            seen.append(samples)

    world.pass_time = pass_and_look  # type: ignore[method-assign]
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    happens(world)
    world.run(WATCHED_MINUTES * 60)
    return seen + seen[-1:] * (SAMPLES - len(seen))


def question(seen: list[dict[str, int]], expected: list[str]) -> Resource:
    """Return what promtool is asked: whether these alerts fire at some time, and no other."""
    names = sorted({series for samples in seen for series in samples})
    fired: list[Resource] = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    asked: Resource = {
        "expr": 'group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[2h]))',
        "eval_time": "2h",
        "exp_samples": fired,  # type: ignore[dict-item]
    }
    return {
        "interval": f"{EVERY_S}s",
        "input_series": [
            {"series": series, "values": " ".join(str(samples.get(series, "_")) for samples in seen)}
            for series in names
        ],
        "promql_expr_test": [asked],
    }


@pytest.mark.parametrize(
    ("strategy", "happens", "expected"),
    [
        pytest.param("Warm", upgrade, [], id="a warm upgrade"),
        pytest.param("Cold", upgrade, [], id="a cold upgrade"),
        pytest.param("Cold", suspend, [], id="a suspension"),
        pytest.param("Cold", drain, [], id="a drain"),
        pytest.param(
            "Cold", fail, ["PodUnhealthy", "PodFailed", "ContainerFailed"], id="a failure, which is no such end"
        ),
    ],
)
def test_rules_for_every_pod_stay_silent_after(
    strategy: str, happens: Callable[[JobWorld], None], expected: list[str], tmp_path: Path
) -> None:
    processes.require(PROMTOOL, "build/bin/promtool")
    rules = [{"alert": name, "expr": expr, "for": delay} for name, (expr, delay) in RULES.items()]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "pods", "rules": rules}]}))
    tests = [question(watch(strategy, happens), expected)]
    cases = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{EVERY_S}s", "tests": tests}
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump(cases))

    command = [str(PROMTOOL), "test", "rules", "pods.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
