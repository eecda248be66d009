"""Answers of a pod that is no driver of ours: the operator goes nowhere for them, and its memory stays its own."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from fakecontrol import TOKEN
from situations import a_pod
from statefulspark.contract.api import JobStatus, Operation, OperationState
from statefulspark_operator.cluster import driver_api
from statefulspark_operator.cluster.driver_api import DriverAccess, HttpDriverApi
from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent

T = TypeVar("T")
BOMB = zlib.compress(b"x" * (64 * 2**20))


class Pod:
    """Answers every request with the same head and an endless or given body; keeps what it was asked."""

    def __init__(self, head: str, body: bytes = b"", *, is_endless: bool = False, token: str | None = None) -> None:
        self.token = token
        self.head, self.body, self.is_endless = head, body, is_endless
        self.asked: list[str] = []
        self.sent_bytes = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.splitlines()[0])
        refused = self.token is not None and f"Bearer {self.token}\r\n" not in head
        writer.write(
            f"HTTP/1.1 {'401 Unauthorized' if refused else self.head}\r\nConnection: close\r\n\r\n".encode() + self.body
        )
        try:
            while self.is_endless:
                writer.write(b"x" * 2**16)
                await writer.drain()
                self.sent_bytes += 2**16
        except ConnectionError:
            self.is_endless = False
        writer.close()

    def is_asked(self) -> JobStatus | DriverSilent:
        return self._asked(lambda drivers, pod: drivers.status(pod, DriverAccess(TOKEN)))

    def is_asked_of_an_operation(self, wait_s: int) -> Operation | OperationAbsent | None:
        return self._asked(lambda drivers, pod: drivers.operation(pod, DriverAccess(TOKEN), "stop-1", wait_s=wait_s))

    def is_asked_with(self, access: DriverAccess) -> Operation | OperationAbsent | None:
        return self._asked(lambda drivers, pod: drivers.operation(pod, access, "stop-1"))

    def _asked(self, ask: Callable[[HttpDriverApi, DriverPod], Awaitable[T]]) -> T:
        async def scene() -> T:
            async with await asyncio.start_server(self.answer, "127.0.0.1", 0) as server:
                drivers = HttpDriverApi()
                try:
                    port = server.sockets[0].getsockname()[1]
                    pod = a_pod(ip="127.0.0.1", api_port=port, tls_secret=None)
                    return await ask(drivers, pod)
                finally:
                    await drivers.close()

        return asyncio.run(scene())


@pytest.mark.parametrize("code", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_the_operator_goes_nowhere_because_a_pod_says_so(code: str) -> None:
    pod = Pod(f"{code}\r\nLocation: /elsewhere\r\nContent-Length: 0")

    assert pod.is_asked() == DriverSilent(f"its API answered {code[:3]}")
    assert pod.asked == ["GET /v1/status HTTP/1.1"]


def test_an_endless_answer_is_not_read_to_the_end() -> None:
    pod = Pod("200 OK", is_endless=True)

    assert pod.is_asked() == DriverSilent("its API answered with more than 2 MiB, which no driver of ours does")
    assert pod.sent_bytes < 16 * driver_api.MOST_ANSWER_BYTES  # the rest is in buffers of the system


def test_a_compressed_answer_stays_compressed() -> None:
    pod = Pod(f"200 OK\r\nContent-Encoding: deflate\r\nContent-Length: {len(BOMB)}", BOMB)

    said = pod.is_asked()

    assert isinstance(said, DriverSilent)
    assert said.message.startswith("its status cannot be read")


def test_an_operation_may_end_before_its_state_is_told() -> None:
    ended = Operation(request_id="stop-1", kind="Stop", state=OperationState.COMPLETED)
    pod = Pod("200 OK", ended.to_json().encode())

    assert pod.is_asked_of_an_operation(wait_s=2) == ended
    assert pod.asked == ["GET /v1/operations/stop-1?waitSeconds=2 HTTP/1.1"]


@pytest.mark.parametrize(
    ("accepted", "answers"),
    [
        pytest.param("new", 1, id="a driver that has the new token"),
        pytest.param("old", 2, id="a driver that does not have it yet"),
    ],
)
def test_a_driver_is_asked_while_its_token_is_rotated(accepted: str, answers: int) -> None:
    ended = Operation(request_id="stop-1", kind="Stop", state=OperationState.COMPLETED)
    pod = Pod("200 OK", ended.to_json().encode(), token=accepted)

    assert pod.is_asked_with(DriverAccess("new", previous="old")) == ended
    assert len(pod.asked) == answers


def test_no_other_token_is_tried_when_there_is_no_rotation() -> None:
    pod = Pod("200 OK", token="another")

    assert pod.is_asked_with(DriverAccess("new")) is None
    assert len(pod.asked) == 1


def test_the_longest_wait_ends_before_an_answer_counts_as_missing() -> None:
    assert driver_api.LONGEST_WAIT_S + 0.5 <= driver_api.TIMEOUT_S
