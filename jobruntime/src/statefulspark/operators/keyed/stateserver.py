"""Requests to Spark's state server, many in one go.

PySpark's client sends a request and waits for its answer. The server answers requests in their order, so many of them can be
on the way: one wait for all, with both sides at work. The server keeps a current grouping key; a change of it is a request
like the others, and each request here names its key.

What is written waits until `flush`, until something is read, or until there is enough to be sent. Nothing is on the way
between two calls, so PySpark's own client may be used there.
"""

from __future__ import annotations

import functools
import pickle
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkRuntimeError

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

Value = tuple[object, ...]
_MOST_REQUESTS, _MOST_BYTES = 256, 64 << 10
"""Limits of what is on the way; a single larger request is. All of it fits into the buffers of a socket: else the server
would wait until its answers are read, and the worker until its requests are."""
_PROTOCOL = 0


class StateServer:
    """The state of a task's partition.

    Args:
        client: PySpark's client of the task.
    """

    def __init__(self, client: StatefulProcessorApiClient) -> None:
        self._client = client
        self._key: int | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._answers: list[bytes] = []

    def values(self, state: str, keys: Iterable[int]) -> list[Value | None]:
        """Return the values of a value state for grouping keys, None for no value. Cost: one wait for some hundred."""
        return self._results([self._request(key, _value_get(state)) for key in keys])

    def entry(self, state: str, key: int, entry: int) -> Value | None:
        """Return an entry of a map state, None for no entry."""
        get = _messages().GetValue(userKey=_pickled((entry,)))
        return self._results([self._request(key, _of_map(state, getValue=get))])[0]

    def put_value(self, state: str, key: int, value: Value) -> None:
        """Write a value of a value state."""
        update = _messages().ValueStateUpdate(value=_pickled(value))
        self._request(key, _of_value(state, valueStateUpdate=update))

    def put_entry(self, state: str, key: int, entry: int, value: Value) -> None:
        """Write an entry of a map state."""
        update = _messages().UpdateValue(userKey=_pickled((entry,)), value=_pickled(value))
        self._request(key, _of_map(state, updateValue=update))

    def remove_entry(self, state: str, key: int, entry: int) -> None:
        """Remove an entry of a map state."""
        remove = _messages().RemoveKey(userKey=_pickled((entry,)))
        self._request(key, _of_map(state, removeKey=remove))

    def put_timer(self, key: int, at_ms: int) -> None:
        """Register a timer; idempotent."""
        messages = _messages()
        call = messages.TimerStateCallCommand(register=messages.RegisterTimer(expiryTimestampMs=at_ms))
        self._request(key, _framed(statefulProcessorCall=messages.StatefulProcessorCall(timerStateCall=call)))

    def flush(self, key: int | None = None) -> None:
        """Write what waits, at the end of each of Spark's calls: Spark sets another grouping key then.

        Args:
            key: The grouping key that is the current one afterwards; any when omitted.
        """
        if key is not None:
            self._enter(key)
        self._exchange()
        self._answers.clear()
        self._key = None

    def _enter(self, key: int) -> None:
        if key != self._key:
            self._key = key
            self._add(_set_key(_pickled((key,))))

    def _request(self, key: int, request: bytes) -> int:
        """Let a request wait; return the position of its answer."""
        self._enter(key)
        self._add(request)
        return len(self._answers) + len(self._waiting) - 1

    def _add(self, request: bytes) -> None:
        if len(self._waiting) >= _MOST_REQUESTS or self._waiting_bytes + len(request) > _MOST_BYTES:
            self._exchange()
        self._waiting.append(request)
        self._waiting_bytes += len(request)

    def _exchange(self) -> None:
        """Send what waits, and take the answers.

        Raises:
            PySparkRuntimeError: The server refuses a request.
        """
        if not self._waiting:
            return
        self._client.sockfile.write(b"".join(self._waiting))
        self._client.sockfile.flush()
        for _ in self._waiting:
            status, message, value = self._client._receive_proto_message()
            if status != 0:
                raise PySparkRuntimeError(f"Error of the state server: {message}")
            self._answers.append(value)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _results(self, positions: list[int]) -> list[Value | None]:
        self._exchange()
        answers = [self._answers[position] for position in positions]
        self._answers.clear()
        # The answers are Spark's, and its own client reads them so.
        return [tuple(pickle.loads(answer)) if answer else None for answer in answers]  # noqa: S301


def _pickled(row: Value) -> bytes:
    """Return a row as PySpark's client makes it, with Python's own pickler: that of PySpark costs several times as much."""
    return pickle.dumps(row, pickle.HIGHEST_PROTOCOL)


def _framed(**request: object) -> bytes:
    """Return a request as the server reads it: the version of the protocol, the length, the message."""
    message: bytes = _messages().StateRequest(**request).SerializeToString()
    return struct.pack(">ii", _PROTOCOL, len(message)) + message


@functools.cache
def _messages() -> ModuleType:
    # Imported here because it imports protobuf, which Spark's process that plans states does not need.
    from pyspark.sql.streaming.proto import StateMessage_pb2

    return StateMessage_pb2


@functools.lru_cache(maxsize=1024)
def _set_key(pickled: bytes) -> bytes:
    messages = _messages()
    change = messages.SetImplicitKey(key=pickled)
    return _framed(implicitGroupingKeyRequest=messages.ImplicitGroupingKeyRequest(setImplicitKey=change))


@functools.lru_cache(maxsize=64)
def _value_get(state: str) -> bytes:
    return _of_value(state, get=_messages().Get())


def _of_value(state: str, **call: object) -> bytes:
    messages = _messages()
    request = messages.ValueStateCall(stateName=state, **call)
    return _framed(stateVariableRequest=messages.StateVariableRequest(valueStateCall=request))


def _of_map(state: str, **call: object) -> bytes:
    messages = _messages()
    request = messages.MapStateCall(stateName=state, **call)
    return _framed(stateVariableRequest=messages.StateVariableRequest(mapStateCall=request))
