"""The NetworkPolicy of a job's pods: who may open a connection to them. What they connect to is not limited. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from statefulspark_operator.api import names
from statefulspark_operator.lifecycle.situation import Job
from statefulspark_operator.render.base import Manifest, metadata


def policy(job: Job, api_peers: Sequence[Manifest]) -> Manifest:
    """Return the policy of the drivers, standbys and executors of a job.

    They reach one another at every port, since Spark chooses ports as it likes. The driver's API is reached by others, too;
    an executor has nothing at that port. Probes come from the node, which policies let through.

    Args:
        job: The job.
        api_peers: Who else may reach the driver's API, as in a NetworkPolicy's `from`: the operator, and scrapers.
    """
    own: Manifest = {"podSelector": {"matchLabels": {names.LABEL_JOB: job.name}}}
    ingress: list[JsonValue] = [{"from": [own]}]
    if api_peers:  # An empty list would let in everybody.
        ports: list[JsonValue] = [{"port": names.API_PORT, "protocol": "TCP"}]
        ingress.append({"from": list(api_peers), "ports": ports})
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
