"""Requests to Spark's state server go many at a time, each for its grouping key, and are answered in their order."""

from __future__ import annotations

import pickle
import struct
from collections import deque
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from statefulspark.operators.keyed import stateserver


class Server:
    """Spark's client, with a server behind it that answers when it is told to send.

    Attributes:
        sent: The number of requests and bytes of each time that something was sent.
        requests: All requests.
        values: The values of value states by grouping key.
        refused: Fails the request with this number, from 0.
    """

    def __init__(self) -> None:
        self.sockfile = self
        self.sent: list[tuple[int, int]] = []
        self.requests: list[Any] = []
        self.values: dict[int, tuple[object, ...]] = {}
        self.timers: list[tuple[int, int]] = []
        self.refused = -1
        self.key = -1
        self._buffer = b""
        self._answers: deque[tuple[int, str, bytes]] = deque()

    def write(self, requests: bytes) -> None:
        self._buffer += requests

    def flush(self) -> None:
        assert not self._answers, "the answers of before are not read"
        at = count = 0
        while at < len(self._buffer):
            version, length = struct.unpack_from(">ii", self._buffer, at)
            assert version == 0
            at += 8 + length
            count += 1
            request = messages.StateRequest.FromString(self._buffer[at - length : at])
            is_refused = len(self.requests) == self.refused
            self.requests.append(request)
            self._answers.append((1, "no such state", b"") if is_refused else (0, "", self._answer(request)))
        self.sent.append((count, len(self._buffer)))
        self._buffer = b""

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        return self._answers.popleft()

    def _answer(self, request: Any) -> bytes:
        if request.HasField("implicitGroupingKeyRequest"):
            (self.key,) = pickle.loads(request.implicitGroupingKeyRequest.setImplicitKey.key)  # noqa: S301 - our own
        elif request.HasField("statefulProcessorCall"):
            self.timers.append((self.key, request.statefulProcessorCall.timerStateCall.register.expiryTimestampMs))
        elif request.stateVariableRequest.valueStateCall.HasField("get"):
            return pickle.dumps(self.values[self.key]) if self.key in self.values else b""
        elif request.stateVariableRequest.valueStateCall.HasField("valueStateUpdate"):
            updated = request.stateVariableRequest.valueStateCall.valueStateUpdate.value
            self.values[self.key] = pickle.loads(updated)  # noqa: S301 - our own
        return b""


def _opened() -> tuple[Server, stateserver.StateServer]:
    server = Server()
    return server, stateserver.StateServer(server)  # type: ignore[arg-type]  # what it uses of the client


def test_values_of_many_keys_are_one_exchange() -> None:
    server, state = _opened()
    server.values = {key: (key * 10, "id") for key in range(0, 60, 2)}

    values = state.values("head", range(60))

    assert values == [None if key % 2 else (key * 10, "id") for key in range(60)]
    assert [count for count, _ in server.sent] == [120]


def test_what_is_on_the_way_is_limited_by_number_and_size() -> None:
    server, state = _opened()

    for key in range(1000):
        state.put_value("head", key, (key,))
    state.put_value("head", 1, (bytes(1 << 20),))
    state.flush()

    assert len(server.values) == 1000
    assert max(count for count, _ in server.sent) == 256
    assert sorted(size for _, size in server.sent)[-2] <= 64 << 10
    assert server.sent[-1][0] == 1


def test_what_is_written_is_read_again() -> None:
    server, state = _opened()

    state.put_value("head", 7, (1, "new"))

    assert server.sent == []
    assert state.values("head", [7, 8]) == [(1, "new"), None]


def test_a_key_is_set_once_for_what_follows() -> None:
    server, state = _opened()

    state.put_value("head", 3, (1,))
    state.put_timer(3, 50)
    state.put_timer(4, 60)
    state.flush(3)

    assert server.timers == [(3, 50), (4, 60)]
    assert server.key == 3
    assert len(server.requests) == 6


def test_after_a_flush_spark_may_have_set_another_key() -> None:
    server, state = _opened()
    state.put_timer(3, 50)
    state.flush()
    server.key = 99

    state.put_timer(3, 60)
    state.flush()

    assert server.timers == [(3, 50), (3, 60)]


def test_a_refused_request_is_an_error() -> None:
    server, state = _opened()
    server.refused = 3

    with pytest.raises(PySparkRuntimeError, match="no such state"):
        state.values("head", range(5))
