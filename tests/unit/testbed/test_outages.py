"""Which process is the etcd of a cluster, before it is put to sleep: another cluster's must not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed import outages

OURS = Path("build", "e2e", "cluster")


@pytest.mark.parametrize(
    ("arguments", "is_it"),
    [
        pytest.param(["cluster", "etcd", "--data-dir", "/src/build/e2e/cluster/etcd", "--log-level"], True, id="ours"),
        pytest.param(["cluster", "etcd", "--data-dir", "/src/build/demo/cluster/etcd"], False, id="the demo's"),
        pytest.param(["ls", "/src/build/e2e/cluster/etcd"], False, id="another program on its folder"),
        pytest.param(["containerd", "--data-dir"], False, id="a flag without a value"),
        pytest.param([], False, id="a process that has ended"),
    ],
)
def test_only_the_etcd_of_this_cluster_is_put_to_sleep(arguments: list[str], *, is_it: bool) -> None:
    assert outages.is_etcd(arguments, OURS) is is_it
