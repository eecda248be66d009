"""Who may reach a job's pods, where the operator limits it: before the first pod is there, and never by a foreign policy."""

from __future__ import annotations

import pytest
from jobworld import KEY, JobWorld
from statefulspark_operator import cli
from statefulspark_operator.api.status import Phase
from statefulspark_operator.cluster import resources

OPERATOR: resources.Resource = {"podSelector": {"matchLabels": {"app": "operator"}}}
POLICY = ("NetworkPolicy", KEY.namespace, "flights-pods")


def running(*, is_limited: bool) -> JobWorld:
    world = JobWorld(api_peers=(OPERATOR,) if is_limited else None)
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    return world


def test_a_job_has_no_policy_unless_the_operator_is_told_to_make_one() -> None:
    world = running(is_limited=False)

    assert POLICY not in world.cluster.objects


def test_the_policy_is_there_before_the_first_pod_of_the_job() -> None:
    world = running(is_limited=True)

    writes = world.cluster.writes
    assert writes.index("apply NetworkPolicy flights-pods") < writes.index("create Pod flights-driver-1")
    own, api = resources.items(world.cluster.objects[POLICY], "spec", "ingress")
    assert "ports" not in own
    assert api["from"] == [OPERATOR]


def test_a_job_that_runs_gets_it_with_its_next_driver() -> None:
    world = running(is_limited=False)
    world.api_peers = (OPERATOR,)
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
    world = JobWorld(api_peers=(OPERATOR,))
    kind, name = resources.NETWORK_POLICY, POLICY[2]
    meta: resources.Resource = {"name": name, "namespace": KEY.namespace}
    theirs: resources.Resource = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": {}}
    world.cluster.add(theirs)

    world.run(30)

    assert world.cluster.objects[POLICY]["spec"] == {}
    assert "NetworkPolicy flights-pods exists and does not belong to this job" in (world.status.message or "")


def test_the_peers_of_the_command_line_are_those_of_a_policy() -> None:
    run = cli.build_parser().parse_args(["run", "--job-network-policy", '[{"ipBlock": {"cidr": "10.0.0.0/8"}}]'])

    assert run.job_network_policy == ({"ipBlock": {"cidr": "10.0.0.0/8"}},)
    assert cli.build_parser().parse_args(["run"]).job_network_policy is None


@pytest.mark.parametrize("text", ["", "{}", '["everybody"]', "[1]", "null"])
def test_what_is_no_list_of_peers_is_refused_at_the_start(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.build_parser().parse_args(["run", f"--job-network-policy={text}"])

    assert "is no list of peers" in capsys.readouterr().err
