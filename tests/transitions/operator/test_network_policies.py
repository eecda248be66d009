"""Who may reach a job's pods, where the operator limits it: before the first pod is there, and never by a foreign policy."""

from __future__ import annotations

import commandtrees
import pytest
from jobworld import KEY, JobWorld
from statefulspark_operator import cli
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources
from statefulspark_operator.render.network_policy import Peers

OPERATOR: resources.Resource = {"podSelector": {"matchLabels": {"app": "operator"}}}
SCRAPERS: resources.Resource = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
PEERS = Peers(api=(OPERATOR,), metrics=(SCRAPERS,))
POLICY = ("NetworkPolicy", KEY.namespace, "flights-pods")


def running(*, is_limited: bool) -> JobWorld:
    world = JobWorld(job_peers=PEERS if is_limited else None)
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    return world


def test_a_job_has_no_policy_unless_the_operator_is_told_to_make_one() -> None:
    world = running(is_limited=False)

    assert POLICY not in world.cluster.objects


def test_the_policy_is_there_before_the_first_pod_of_the_job() -> None:
    world = running(is_limited=True)

    writes = world.cluster.writes
    assert writes.index("apply NetworkPolicy flights-pods") < writes.index("create Pod flights-driver-1")
    own, api, metrics = resources.items(world.cluster.objects[POLICY], "spec", "ingress")
    assert "ports" not in own
    assert (api["from"], metrics["from"]) == ([OPERATOR], [SCRAPERS])


def test_a_job_that_runs_gets_it_with_its_next_driver() -> None:
    world = running(is_limited=False)
    world.job_peers = PEERS
    world.replace_operator()
    world.run(10)
    assert POLICY not in world.cluster.objects

    world.kill_driver()
    world.run_until(lambda: world.status.epoch == 2 and world.status.phase is Phase.RUNNING)

    assert POLICY in world.cluster.objects


def test_it_goes_with_its_job() -> None:
    world = running(is_limited=True)

    world.delete()
    world.run_until(lambda: not world.exists)

    assert POLICY not in world.cluster.objects


def test_a_policy_of_somebody_else_is_not_changed_and_named() -> None:
    world = JobWorld(job_peers=PEERS)
    kind, name = resources.NETWORK_POLICY, POLICY[2]
    meta: resources.Resource = {"name": name, "namespace": KEY.namespace}
    theirs: resources.Resource = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": {}}
    world.cluster.add(theirs)

    world.run(30)

    assert world.cluster.objects[POLICY]["spec"] == {}
    assert "NetworkPolicy flights-pods exists and does not belong to this job" in (world.status.message or "")


def test_the_peers_of_the_command_line_are_those_of_a_policy() -> None:
    peers = '[{"ipBlock": {"cidr": "10.0.0.0/8"}}]'
    run = commandtrees.parse(cli.program, ["run", "--job-network-policy", peers, "--job-metrics-from", peers]).params

    assert run["job_network_policy"] == run["job_metrics_from"] == ({"ipBlock": {"cidr": "10.0.0.0/8"}},)
    without = commandtrees.parse(cli.program, ["run"]).params
    assert (without["job_network_policy"], without["job_metrics_from"]) == (None, ())


@pytest.mark.parametrize("text", ["", "{}", '["everybody"]', "[1]", "null"])
def test_what_is_no_list_of_peers_is_refused_at_the_start(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", f"--job-network-policy={text}"]) == 2

    assert "is no list of peers" in capsys.readouterr().err
