"""A front and a keeper that acts at the worst moment."""

from __future__ import annotations

import socket

import pytest
from statefulspark.workers import broadcasts, handover, pool, proxy


def test_a_task_that_is_declined_before_the_front_has_said_all_runs_in_the_front(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests, asking = handover.channel()
    task, _spark = socket.socketpair()

    def known() -> broadcasts.Files:
        asked = handover.receive(requests)
        assert asked is not None
        pool.Task(*asked, came_s=0.0).decline()
        return {"1": "/of/1"}

    monkeypatch.setattr(broadcasts, "known", known)

    assert proxy.Front(asking, lambda *_: 0)._hand_over(task, "q/0") is None
