"""What the operator may not do, as a real API server answers: with the chart's roles bound, by `kubectl auth can-i`."""

from __future__ import annotations

import pytest
from apiserver import ApiServer
from helmchart import bind

pytestmark = pytest.mark.api

NEVER: list[tuple[str, ...]] = [
    ("list", "secrets"),
    ("watch", "secrets"),
    ("delete", "secrets"),
    ("delete", "statefulsparkjobs.statefulspark.io"),
    ("create", "statefulsparkjobs.statefulspark.io"),
    ("deletecollection", "statefulsparkjobs.statefulspark.io"),
    ("deletecollection", "sparksavepoints.statefulspark.io"),
    ("create", "pods", "--subresource=exec"),
    ("delete", "roles.rbac.authorization.k8s.io"),
    ("escalate", "roles.rbac.authorization.k8s.io"),
    ("bind", "roles.rbac.authorization.k8s.io"),
    ("impersonate", "serviceaccounts"),
    ("create", "deployments.apps"),
    ("get", "nodes"),
    ("list", "namespaces"),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
]
FOR_EXECUTORS: list[tuple[str, ...]] = [
    ("deletecollection", "pods"),
    ("deletecollection", "configmaps"),
    ("delete", "services"),
    ("delete", "persistentvolumeclaims"),
    ("create", "serviceaccounts"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("create", "rolebindings.rbac.authorization.k8s.io"),
]
ALWAYS: list[tuple[str, ...]] = [
    ("delete", "pods"),
    ("create", "configmaps"),
    ("get", "secrets"),
    ("patch", "statefulsparkjobs.statefulspark.io"),
]


def allowed(server: ApiServer, account: str, where: str, questions: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return those of some rights that the operator's account has in a namespace."""
    who = ("-n", where, "auth", "can-i", "--as", f"system:serviceaccount:default:{account}")
    return [question for question in questions if server.kubectl(*who, *question).stdout.strip() == "yes"]


def test_the_operator_may_do_nothing_beyond_its_jobs(api_server: ApiServer, namespace: str) -> None:
    bind(api_server, namespace)

    assert allowed(api_server, namespace, namespace, NEVER) == []
    assert allowed(api_server, namespace, namespace, ALWAYS) == ALWAYS
    assert allowed(api_server, namespace, namespace, FOR_EXECUTORS) == FOR_EXECUTORS


def test_without_executors_it_deletes_nothing_in_bulk_and_grants_no_rights(
    api_server: ApiServer, namespace: str
) -> None:
    bind(api_server, namespace, "rbac.executors=false")

    assert allowed(api_server, namespace, namespace, [*NEVER, *FOR_EXECUTORS]) == []
    assert allowed(api_server, namespace, namespace, ALWAYS) == ALWAYS


def test_policies_are_made_only_where_that_is_wanted(api_server: ApiServer, namespace: str) -> None:
    making: list[tuple[str, ...]] = [(verb, "networkpolicies.networking.k8s.io") for verb in ("get", "create", "patch")]
    bind(api_server, namespace, "jobs.networkPolicy.enabled=false")
    assert allowed(api_server, namespace, namespace, making) == []

    bind(api_server, namespace)
    assert allowed(api_server, namespace, namespace, making) == making


def test_without_executors_config_maps_are_watched_only_where_that_is_wanted(
    api_server: ApiServer, namespace: str
) -> None:
    watching: list[tuple[str, ...]] = [("watch", "configmaps")]
    bind(api_server, namespace, "rbac.executors=false")
    assert allowed(api_server, namespace, namespace, watching) == watching

    bind(api_server, namespace, "rbac.executors=false", "rbac.watchCode=false")
    assert allowed(api_server, namespace, namespace, watching) == []


def test_it_may_do_nothing_in_a_namespace_that_it_does_not_look_after(api_server: ApiServer, namespace: str) -> None:
    bind(api_server, namespace)

    assert allowed(api_server, namespace, "kube-public", [*ALWAYS, *FOR_EXECUTORS]) == []
