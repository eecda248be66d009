"""The NetworkPolicy of a job's pods: who may open a connection to them. What they connect to is not limited. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from statefulspark_operator.api import names
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render.base import Manifest, metadata


@dataclass(frozen=True, slots=True)
class Peers:
    """Who may reach the driver of a job beside the job's own pods, as in a NetworkPolicy's `from`.

    Attributes:
        api: At its API: the operator, and whom the installation names; empty for nobody.
        metrics: At the port of its metrics; empty for everybody, as these tell no secret.
    """

    api: tuple[Manifest, ...] = ()
    metrics: tuple[Manifest, ...] = ()


def policy(job: Job, peers: Peers) -> Manifest:
    """Return the policy of the drivers, standbys and executors of a job.

    They reach one another at every port, since Spark chooses ports as it likes. Others reach the driver's API and its
    metrics; an executor has nothing at these ports. Probes come from the node, which policies let through: they ask at
    the port of the API, whose connections no stranger can hold then.

    Args:
        job: The job.
        peers: Who else may reach its driver.
    """
    own: Manifest = {"podSelector": {"matchLabels": {names.LABEL_JOB: job.name}}}
    ingress: list[JsonValue] = [{"from": [own]}]
    if peers.api:  # An empty list would let in everybody.
        ingress.append({"from": list(peers.api), "ports": _ports(names.API_PORT)})
    metrics: Manifest = {"ports": _ports(names.METRICS_PORT)}
    ingress.append({"from": list(peers.metrics), **metrics} if peers.metrics else metrics)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, names.network_policy(job.name), names.labels(job.name)),
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_JOB: job.name}},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _ports(port: int) -> list[JsonValue]:
    return [{"port": port, "protocol": "TCP"}]
