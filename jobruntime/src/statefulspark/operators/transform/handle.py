"""The handle for `init` of a processor: it declares states, sets timers and returns query information.

It rejects the same calls as Spark, with Spark's error class: states declared after `init`, timers set in it or in a mode
without timers, a time to live in another mode than processing time.
"""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pyspark import TaskContext
from pyspark.sql import types as spark_types
from pyspark.sql.streaming import stateful_processor

from statefulspark import state as keyed_state
from statefulspark.operators.transform import firing, forms, states
from statefulspark.operators.transform.modes import TimeMode
from statefulspark.state import functions, liststate, mapstate, valuestate

State = TypeVar("State", states.ValueState, states.ListState, states.MapState)
ParseSchema = Callable[[str], spark_types.StructType]
_NAMES_OF_MODES = {TimeMode.NONE: "NoTime"}
_LONGEST_MS = datetime.timedelta.max // datetime.timedelta(milliseconds=1)
_BATCH_QUERY = "00000000-0000-0000-0000-000000000000"


class HandleState(enum.Enum):
    """The state of a processor, as Spark names it."""

    CREATED = "CREATED"
    """`init` runs."""
    INITIALIZED = "INITIALIZED"
    """Rows are handled."""
    DATA_PROCESSED = "DATA_PROCESSED"
    """Timers fire."""
    TIMER_PROCESSED = "TIMER_PROCESSED"
    """`close` runs."""


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """The query and batch of a processor, as from `StatefulProcessorHandle.getQueryInfo` in Scala."""

    query_id: uuid.UUID
    run_id: uuid.UUID
    batch_id: int

    def getQueryId(self) -> uuid.UUID:  # noqa: N802 - Spark's name
        """Return the id of the query, the same over restarts."""
        return self.query_id

    def getRunId(self) -> uuid.UUID:  # noqa: N802 - Spark's name
        """Return the id of this run of the query."""
        return self.run_id

    def getBatchId(self) -> int:  # noqa: N802 - Spark's name
        """Return the number of the batch."""
        return self.batch_id


class Handle(stateful_processor.StatefulProcessorHandle):
    """Spark's handle on our state.

    Args:
        context: Declares states.
        timers: Sets timers.
        mode: The time mode.
        parse_schema: Parses a DDL schema.

    Attributes:
        state: State of the processor.
        deleted: Names given to `deleteIfExists`.
        declared: The states that are declared, by name.
    """

    def __init__(
        self,
        context: functions.BatchContext,
        timers: firing.ProcessorTimers,
        mode: TimeMode,
        parse_schema: ParseSchema,
    ) -> None:
        self._context, self._timers, self._mode, self._parse = context, timers, mode, parse_schema
        self.state = HandleState.CREATED
        self.deleted: set[str] = set()
        self.declared: dict[str, states.AnyState] = {}
        self._names: set[str] = set()

    def getValueState(  # noqa: N802 - Spark's name
        self,
        stateName: str,  # noqa: N803 - Spark's name
        schema: spark_types.StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803 - Spark's name
    ) -> states.ValueState:
        """Declare a value state. Without a time to live, or with 0, values do not expire."""
        self._check_declaration("value", stateName)
        form = self._form(schema)
        ttl = self._ttl("value", stateName, ttlDurationMs)
        descriptor = valuestate.ValueStateDescriptor(stateName, form, ttl)
        return self._register(states.ValueState(stateName, self._context.declare(descriptor), form))

    def getListState(  # noqa: N802 - Spark's name
        self,
        stateName: str,  # noqa: N803 - Spark's name
        schema: spark_types.StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803 - Spark's name
    ) -> states.ListState:
        """Declare a list state. The time to live applies to each element."""
        self._check_declaration("list", stateName)
        form = self._form(schema)
        ttl = self._ttl("list", stateName, ttlDurationMs)
        descriptor = liststate.ListStateDescriptor(stateName, form, ttl)
        return self._register(states.ListState(stateName, self._context.declare(descriptor), form))

    def getMapState(  # noqa: N802 - Spark's name
        self,
        stateName: str,  # noqa: N803 - Spark's name
        userKeySchema: spark_types.StructType | str,  # noqa: N803 - Spark's name
        valueSchema: spark_types.StructType | str,  # noqa: N803 - Spark's name
        ttlDurationMs: int | None = None,  # noqa: N803 - Spark's name
    ) -> states.MapState:
        """Declare a map state. The time to live applies to each entry."""
        self._check_declaration("map", stateName)
        key, value = self._form(userKeySchema), self._form(valueSchema)
        ttl = self._ttl("map", stateName, ttlDurationMs)
        descriptor = mapstate.MapStateDescriptor(stateName, key, value, ttl)
        return self._register(states.MapState(stateName, self._context.declare(descriptor), key, value))

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803 - Spark's names
        """Set a timer of the current key; no effect if it is already set."""
        self._require_timers("register_timer", "Error register timer: ")
        self._timers.register(expiryTimestampMs)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803 - Spark's names
        """Delete a timer of the current key; no effect if it is not set."""
        self._require_timers("delete_timer", "Error deleting timer: ")
        self._timers.delete(expiryTimestampMs)

    def listTimers(self) -> Iterator[int]:  # noqa: N802 - Spark's name
        """Return the timers of the current key, earliest first, including the firing one; read at the first iteration."""
        self._require_timers("list_timers", "")
        yield from self._timers.listed()

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803 - Spark's names
        """Delete a state of all keys; in `init` only. An earlier declaration of it can no longer be used.

        A state of that name may be declared again after it.
        """
        self._require_init("delete_if_exists", "Error deleting state: ")
        self.deleted.add(stateName)
        declared = self.declared.pop(stateName, None)
        if declared is not None:
            states.delete(declared)
            self._context.withdraw(stateName)

    def getQueryInfo(self) -> QueryInfo:  # noqa: N802 - Spark's name
        """Return ids of query, run and batch. PySpark 4.2 has this in Scala only; it is here for both."""
        task = TaskContext.get()
        properties = (task and task._localProperties) or {}
        return QueryInfo(
            uuid.UUID(properties.get("sql.streaming.queryId") or _BATCH_QUERY),
            uuid.UUID(properties.get("sql.streaming.runId") or properties.get("spark.jobGroup.id") or _BATCH_QUERY),
            int(properties.get("streaming.sql.batchId") or 0),
        )

    def _register(self, state: State) -> State:
        self.declared[state.name] = state
        return state

    def _form(self, schema: spark_types.StructType | str) -> forms.RowForm:
        return forms.RowForm(self._parse(schema) if isinstance(schema, str) else schema)

    def _ttl(self, kind: str, name: str, duration_ms: int | None) -> keyed_state.Ttl | None:
        if not duration_ms:
            return None
        doing = f"Error initializing {kind} state: "
        if self._mode is not TimeMode.PROCESSING_TIME:
            states.refuse_class(
                "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL",
                f"Cannot use TTL for state={name} in timeMode={self._mode_name}, use TimeMode.ProcessingTime() instead.",
                doing=doing,
            )
        if duration_ms < 0:
            states.refuse_class(
                "STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE",
                f"TTL duration must be greater than zero for State store operation=update on state={name}.",
                doing=doing,
            )
        return keyed_state.Ttl(datetime.timedelta(milliseconds=min(duration_ms, _LONGEST_MS)))

    @property
    def _mode_name(self) -> str:
        return _NAMES_OF_MODES.get(self._mode, self._mode.value)

    def _check_declaration(self, kind: str, name: str) -> None:
        doing = f"Error initializing {kind} state: "
        self._require_init(f"get_{kind}_state", doing)
        before = self.declared.get(name)
        if before is not None and type(before).__name__ == f"{kind.capitalize()}State":
            states.refuse(f"{doing}{kind.capitalize()} state {name} already exists")
        if name in self._names:
            states.refuse_class(
                "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED",
                f"State variable with name {name} has already been defined in the StatefulProcessor.",
                doing=doing,
            )
        self._names.add(name)

    def _require_init(self, operation: str, doing: str) -> None:
        if self.state is not HandleState.CREATED:
            self._refuse_state(operation, doing)

    def _require_timers(self, operation: str, doing: str) -> None:
        if self._mode is TimeMode.NONE:
            states.refuse_class(
                "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE",
                f"Failed to perform stateful processor operation={operation} with invalid timeMode={self._mode_name}",
                doing=doing,
            )
        if self.state not in (HandleState.INITIALIZED, HandleState.DATA_PROCESSED):
            self._refuse_state(operation, doing)

    def _refuse_state(self, operation: str, doing: str) -> None:
        states.refuse_class(
            "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE",
            f"Failed to perform stateful processor operation={operation} with invalid handle state={self.state.value}.",
            doing=doing,
        )
