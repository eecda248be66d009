"""Two operators on a real API server: one acts, and whatever becomes of it, the other goes on and repeats nothing."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from apiserver import ApiServer
from lossyproxy import LossyProxy
from operatorscene import Operator, Scene, as_operator, serving
from s3server import S3Server
from statefulspark_operator.cluster import resources
from statefulspark_operator.engine.leadership import LASTS_S, TRY_EVERY_S
from statefulspark_operator.handlers import LEADERSHIP_LOST

pytestmark = [pytest.mark.api, pytest.mark.s3]

LEASE = "lease/operator-statefulspark-operator"
SLACK_S = 4.0
"""What requests and a busy machine may add."""


@dataclass(slots=True)
class Pair:
    """A job that runs, the operator that looks after it, and one that stands by.

    Attributes:
        scene: The job.
        leader: The operator that leads when a test begins.
        other: The other one.
        line: What the leader reaches the API server through.
    """

    scene: Scene
    leader: Operator
    other: Operator
    line: LossyProxy

    def until_other_leads(self) -> float:
        """Wait until the other operator leads; return the time of that."""
        self.other.wait_until(lambda: '"leading"' in self.other.output, "it leads", LASTS_S + 2 * TRY_EVERY_S + SLACK_S)
        self.scene.operator = self.other
        return time.monotonic()

    def acts(self, operator: Operator) -> list[str]:
        """Return the acts that an operator has logged since its newest start, in order."""
        lines = [json.loads(line) for line in operator.output.splitlines() if '"actions"' in line]
        return [act for line in lines for act in line["actions"]]


def through(line: LossyProxy, kubeconfig: Path, folder: Path) -> Path:
    """Return a kubeconfig that reaches the API server through a proxy."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = line.endpoint.replace("http:", "https:")
    target = folder / "through-the-proxy"
    target.write_text(yaml.safe_dump(config))
    return target


@pytest.fixture
def pair(api_server: ApiServer, namespace: str, s3: S3Server, tmp_path: Path) -> Iterator[Pair]:
    kubeconfig = as_operator(api_server, (namespace,), tmp_path)
    address = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    line = LossyProxy(int(address.rpartition(":")[2]))
    ways = {"a": through(line, kubeconfig, tmp_path), "b": kubeconfig}
    lease = ("--lease", "operator-statefulspark-operator", "--lease-namespace", namespace, "--identity")
    for identity in ways:
        (tmp_path / identity).mkdir()
    leader, other = (
        Operator(ways[name], (namespace,), tmp_path / name, *lease, name, endpoints=(s3.endpoint,)) for name in ways
    )
    with serving() as port:
        scene = Scene(api_server, namespace, leader, s3, port)
        try:
            leader.start()
            scene.apply()
            scene.play_driver(1)
            scene.until_phase("Running")
            other.start()
            other.wait_until(lambda: '"/healthz"' in other.output, "it stands by", 30)
            yield Pair(scene, leader, other, line)
        finally:
            leader.kill()
            other.kill()
            line.close()


def holder(scene: Scene) -> str:
    return resources.text(scene.server.get(scene.namespace, LEASE), "spec", "holderIdentity")


def test_of_two_operators_one_acts_and_the_other_goes_on_when_it_is_killed(pair: Pair) -> None:
    scene = pair.scene
    assert '"watching"' not in pair.other.output

    pair.leader.kill()
    killed_s = time.monotonic()
    assert pair.until_other_leads() - killed_s < LASTS_S + TRY_EVERY_S + SLACK_S
    scene.port.driver = None
    scene.server.call("-n", scene.namespace, "delete", "pod", "flights-driver-1", "--grace-period=0", "--force")
    scene.play_driver(2)
    scene.until("running again", lambda: scene.status().get("epoch") == 2)

    assert holder(scene) == "b"


def test_a_leader_that_was_frozen_within_an_upgrade_is_followed_and_repeats_nothing(pair: Pair) -> None:
    scene = pair.scene
    old = scene.port.driver
    assert old is not None
    scene.apply(image="registry.example/flights:2")
    scene.until("stop requested", lambda: len(old.stop_requests) == 1)
    pair.leader.send(signal.SIGSTOP)
    frozen_s, before = time.monotonic(), pair.acts(pair.leader)

    assert pair.until_other_leads() - frozen_s < LASTS_S + TRY_EVERY_S + SLACK_S
    pair.leader.send(signal.SIGCONT)
    assert pair.leader.wait_end(SLACK_S) == LEADERSHIP_LOST
    scene.play_driver(2)
    scene.until("upgrade done", lambda: resources.text(scene.status(), "upgrade", "state") == "FirstCheckpoint")

    # It may have asked for the stop without having told yet, and then it does not tell any more but in its log.
    assert pair.acts(pair.leader) in (before, [*before, "RequestStop"])
    assert len(old.stop_requests) == 1
    assert scene.status()["epoch"] == 2
    scene.until("event of the upgrade", lambda: scene.events()["UpgradeCompleted"] >= 1)
    events = scene.events()
    assert events["UpgradeCompleted"] == 1
    # What the frozen one had recorded and not yet told is told by nobody: an event is never sent twice.
    assert events["SavepointRequested"] <= 1
    assert events["SavepointCompleted"] <= 1


def test_a_leader_that_is_cut_off_has_ended_before_another_begins(pair: Pair) -> None:
    scene = pair.scene
    old = scene.port.driver
    assert old is not None
    pair.line.silent = True
    cut_s = time.monotonic()
    scene.apply(suspend=True)

    assert pair.leader.wait_end(LASTS_S) == LEADERSHIP_LOST
    assert '"leading"' not in pair.other.output, "its time was over first"
    assert old.stop_requests == []

    assert pair.until_other_leads() - cut_s < LASTS_S + TRY_EVERY_S + SLACK_S
    scene.until_phase("Suspended")
    assert len(old.stop_requests) == 1
