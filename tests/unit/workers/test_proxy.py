"""A worker proxy and a pool that acts at the worst moment."""

from __future__ import annotations

import socket

import pytest
from statefulspark.workers import handover, pool, proxy


def test_a_task_that_is_declined_before_the_proxy_has_sent_all_runs_in_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests, asking = handover.channel()
    task, _spark = socket.socketpair()

    def registered() -> handover.Files:
        asked = handover.receive(requests)
        assert asked is not None
        pool.Task(*asked, received_s=0.0).decline()
        return {"1": "/of/1"}

    monkeypatch.setattr(handover, "registered_broadcasts", registered)

    assert proxy.WorkerProxy(asking, lambda *_: 0)._hand_over(task, "q/0") is None
