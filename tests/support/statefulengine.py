"""What Spark does for a stateful processor in one partition, in memory: state by implicit key, timers, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import stateful_processor
from pyspark.sql.streaming import stateful_processor_api_client as api
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

    def getValueState(self, name: str, _: object) -> _State:  # noqa: N802
        return _State(self, self._states.setdefault(name, {}))

    def getMapState(self, name: str, _: object, __: object) -> _State:  # noqa: N802
        return _State(self, self._states.setdefault(name, {}))

    def registerTimer(self, at_ms: int) -> None:  # noqa: N802
        self.timers.add((at_ms, self.key))

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


class _State:
    """A value state, or a map state, of whichever key is current."""

    def __init__(self, engine: Engine, rows: dict[object, object]) -> None:
        self._engine, self._rows = engine, rows

    def get(self) -> object:
        return self._rows.get(self._engine.key)

    def update(self, value: object) -> None:
        self._rows[self._engine.key] = value

    def getValue(self, entry: object) -> object:  # noqa: N802
        return self._rows.get((self._engine.key, entry))

    def updateValue(self, entry: object, value: object) -> None:  # noqa: N802
        self._rows[self._engine.key, entry] = value

    def removeKey(self, entry: object) -> None:  # noqa: N802
        self._rows.pop((self._engine.key, entry), None)


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
