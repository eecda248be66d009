"""What Spark does for a stateful processor in one partition, in memory: state by implicit key, timers, batches."""

from __future__ import annotations

import pickle
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming import stateful_processor_api_client as api
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from statefulspark.operators.keyed import packing
from transformworld import schema


class Engine:
    """A partition of one operator, across batches, as client and as handle.

    Attributes:
        timers: Moments with their keys.
        is_driver: Whether the processor is initialised on the driver.
    """

    def __init__(self, make: Callable[[], stateful_processor.StatefulProcessor], time_mode: str) -> None:
        self._make, self._by_watermark = make, time_mode == "EventTime"
        self._states: dict[str, dict[object, object]] = {}
        self._key: tuple[int] | None = None
        self.timers: set[tuple[int, tuple[int]]] = set()
        self._times = (0, 0)
        self._answers: deque[bytes] = deque()
        self.is_driver = False

    @property
    def _statefulProcessorApiClient(self) -> Engine:  # noqa: N802
        return self

    @property
    def handle_state(self) -> api.StatefulProcessorHandleState:
        states = api.StatefulProcessorHandleState
        return states.PRE_INIT if self.is_driver else states.INITIALIZED

    _parse_string_schema = staticmethod(schema)

    def get_timestamps(self, _: str) -> tuple[int, int]:
        return self._times

    def set_implicit_key(self, key: tuple[int]) -> None:
        self._key = key

    def remove_implicit_key(self) -> None:
        self._key = None

    def getValueState(self, name: str, _: object) -> None:  # noqa: N802
        self._states.setdefault(name, {})

    def getMapState(self, name: str, _: object, __: object) -> None:  # noqa: N802
        self._states.setdefault(name, {})

    @property
    def sockfile(self) -> Engine:
        """Where requests are written."""
        return self

    def write(self, requests: bytes) -> None:
        """Answer requests, as Spark's state server does."""
        at = 0
        while at < len(requests):
            _, length = struct.unpack_from(">ii", requests, at)
            at += 8 + length
            self._answers.append(self._answer(messages.StateRequest.FromString(requests[at - length : at])))

    def flush(self) -> None:
        """Do nothing: requests are answered when they are written."""

    def _receive_proto_message(self) -> tuple[int, str, bytes]:
        return 0, "", self._answers.popleft()

    def _answer(self, request: Any) -> bytes:
        loads, dumps = pickle.loads, pickle.dumps
        if request.HasField("implicitGroupingKeyRequest"):
            self._key = loads(request.implicitGroupingKeyRequest.setImplicitKey.key)
            return b""
        if request.HasField("statefulProcessorCall"):
            register = request.statefulProcessorCall.timerStateCall.register
            self.timers.add((register.expiryTimestampMs, self.key))
            return b""
        kind = request.stateVariableRequest.WhichOneof("method")
        call = getattr(request.stateVariableRequest, kind)
        rows, method = self._states[call.stateName], call.WhichOneof("method")
        asked = getattr(call, method)
        row = (self.key, loads(asked.userKey)) if kind == "mapStateCall" else self.key
        if method in ("get", "getValue"):
            return dumps(rows[row]) if row in rows else b""
        if method == "removeKey":
            rows.pop(row, None)
        else:
            rows[row] = loads(asked.value)
        return b""

    @property
    def key(self) -> tuple[int]:
        """The current key; state without one is an error, as in Spark."""
        assert self._key is not None
        return self._key

    def start_on_driver(self) -> None:
        """Initialise and close a processor, as Spark does when it plans a batch."""
        self.is_driver = True
        processor: Any = self._make()
        processor.init(self)
        processor.close()
        self.is_driver = False

    def batch(
        self, table: pa.Table | None, *, now_ms: int = 0, watermark_ms: int = 0, initial: pa.Table | None = None
    ) -> list[dict[str, object]]:
        """Run a batch; tables have the key group last. Return what came out."""
        self._times = (now_ms, watermark_ms)
        processor: Any = self._make()
        processor.init(self)
        output: list[pd.DataFrame] = []
        for key, frame in _packed(initial):
            self.set_implicit_key(key)
            processor.handleInitialState(key, frame, None)
        for key, frame in _packed(table):
            self.set_implicit_key(key)
            output += processor.handleInputRows(key, iter([frame]), None)
        reached_ms = watermark_ms if self._by_watermark else now_ms
        for at_ms, key in sorted(timer for timer in self.timers if timer[0] <= reached_ms):
            self.set_implicit_key(key)
            output += processor.handleExpiredTimer(key, None, stateful_processor.ExpiredTimerInfo(at_ms))
            self.timers.discard((at_ms, key))
        self.remove_implicit_key()
        processor.close()
        return [row for frame in output for row in _named(frame, processor).to_dict("records")]


def _named(frame: pd.DataFrame, processor: Any) -> pd.DataFrame:
    """Name columns by their position, as Spark does where none of them is named by a text."""
    if any(isinstance(column, str) for column in frame.columns):
        return frame
    return frame.set_axis(processor._settings.schema.names, axis=1)


def _packed(table: pa.Table | None) -> list[tuple[tuple[int], pd.DataFrame]]:
    if table is None:
        return []
    batches = list(packing.pack(iter(table.combine_chunks().to_batches())))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [((row[packing.GROUP],), pd.DataFrame({packing.ROWS: [row[packing.ROWS]]})) for row in rows]
