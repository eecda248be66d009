"""The keyed operators of a job: recorded while its queries are built, read by the runtime.

The runtime matches state on storage with operators by uid, and rejects two operators with the same uid. It builds
queries inside `collecting`; outside of it, as in a notebook, nothing is recorded.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.state import evolution, functions, keygroups, timers, ttl
from statefulspark.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class Operator:
    """A declared keyed operator.

    Attributes:
        uid: Its uid, which is part of the names of its state variables on storage.
        query_uid: Its query.
        max_parallelism: Number of key groups.
        key: Key columns.
        key_type: Their types, for example `string, bigint`.
        function: Qualified name of the function's class.
        declared: Returns the declarations of the function; None if they are unknown before it runs.
    """

    uid: str
    query_uid: str
    max_parallelism: int
    key: tuple[str, ...]
    key_type: str
    function: str
    declared: Callable[[], functions.Declared | None] = field(default=lambda: None, compare=False)

    @property
    def states(self) -> tuple[evolution.Declaration, ...] | None:
        """Its declared states; None if they are unknown before the first batch."""
        declared = self.declared()
        return None if declared is None else declared.states

    @property
    def lifetimes_ms(self) -> dict[str, int]:
        """Times to live of states whose expired entries canonical savepoints omit (Flink A.29)."""
        declared = self.declared()
        lifetimes = {} if declared is None else declared.lifetimes
        return {name: life.duration_ms for name, life in lifetimes.items() if life.cleanup_full_snapshot}


class OperatorRegistry:
    """All keyed operators of a job."""

    def __init__(self) -> None:
        self._operators: dict[str, Operator] = {}

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Every operator, in the order of declaration."""
        return tuple(self._operators.values())

    def operators_of(self, query_uid: str) -> tuple[Operator, ...]:
        """Return the operators of one query, in the order of declaration."""
        return tuple(operator for operator in self._operators.values() if operator.query_uid == query_uid)

    def add(self, operator: Operator) -> None:
        """Record an operator.

        Raises:
            SpecRejectedError: Another one has the same uid.
        """
        before = self._operators.get(operator.uid)
        if before is not None:
            raise errors.SpecRejectedError(
                "OperatorUidTaken",
                f"The uid '{operator.uid}' is used twice: by {before.function} in query '{before.query_uid}' and by "
                f"{operator.function} in query '{operator.query_uid}'. State is found by uid, so give each keyed "
                "operator of the job its own.",
            )
        self._operators[operator.uid] = operator


@dataclass(frozen=True, slots=True)
class _Collection:
    registry: OperatorRegistry
    query_uid: str
    key_groups: Mapping[str, int]
    partitions: int
    options: StorageOptions | None


_collection: contextvars.ContextVar[_Collection | None] = contextvars.ContextVar(
    "statefulspark_operators", default=None
)


@contextlib.contextmanager
def collecting(
    registry: OperatorRegistry,
    *,
    query_uid: str,
    key_groups: Mapping[str, int] = MappingProxyType({}),
    partitions: int = 0,
    options: StorageOptions | None = None,
) -> Iterator[OperatorRegistry]:
    """Record the operators that are declared inside the block.

    Args:
        registry: The registry of the job.
        query_uid: The query that is being built.
        key_groups: Number of key groups of restored operators of the query, by uid.
        partitions: Number of partitions of the query's restored state; 0 if it has none.
        options: How workers reach the job's storage.

    Yields:
        The registry.
    """
    token = _collection.set(_Collection(registry, query_uid, key_groups, partitions, options))
    try:
        yield registry
    finally:
        _collection.reset(token)


def declare(
    *,
    uid: str,
    max_parallelism: int,
    key: tuple[str, ...],
    key_type: str,
    function: str,
    declared: Callable[[], functions.Declared | None],
) -> None:
    """Record an operator in the current registry, if there is one.

    Raises:
        SpecRejectedError: Another operator of the job has the same uid.
    """
    collection = _collection.get()
    if collection is not None:
        collection.registry.add(Operator(uid, collection.query_uid, max_parallelism, key, key_type, function, declared))


def query_uid() -> str:
    """Return the uid of the query that is being built; empty outside of a job."""
    collection = _collection.get()
    return "" if collection is None else collection.query_uid


def storage_options() -> StorageOptions | None:
    """Return how workers reach the storage of the job that is being built; None without a job."""
    collection = _collection.get()
    return None if collection is None else collection.options


def key_groups_of(uid: str, declared: int | None, *, partitions: int) -> int:
    """Return the number of key groups of an operator: the declared, else the restored, else a derived one.

    Args:
        uid: The operator.
        declared: `max_parallelism` of the job; None selects a default.
        partitions: Number of partitions of a query without state.

    Raises:
        SpecRejectedError: `MaxParallelismInvalid`. Whether it fits the restored state is checked with the plan.
    """
    if declared is not None:
        keygroups.check_max_parallelism(declared)
        return declared
    collection = _collection.get()
    if collection is None:
        return keygroups.default_max_parallelism(partitions)
    derived = keygroups.default_max_parallelism(max(partitions, collection.partitions))
    return collection.key_groups.get(uid, derived)


def check_uid(uid: str) -> None:
    """Reject an invalid operator uid.

    Raises:
        SpecRejectedError: It has invalid characters, or is too long.
    """
    if not layout.is_uid(uid):
        raise errors.SpecRejectedError(
            "OperatorUidInvalid",
            f"{uid!r} is not a valid operator uid: use 1 to 63 lower-case letters, digits, '-' and '_', beginning and "
            "ending with a letter or digit. It names the operator's state for as long as the job lives.",
        )


_log = logging.getLogger(__name__)


def declared_by(
    function: functions.KeyedProcessFunction,
    uid: str,
    *,
    method: str,
    domains: frozenset[timers.TimeDomain],
    ttl_change: ttl.TtlChange,
) -> Callable[[], functions.Declared | None]:
    """Return a function that returns the declared states of a function, evaluated on its first call.

    It returns None, and logs a warning, if `open` needs resources of workers: the types are then compared when the first
    batch reads the state. It raises SpecRejectedError for declarations that workers would reject too.

    Args:
        function: The function; a copy of it is opened.
        uid: The uid of its operator.
        method: Name of the method that opens it, for errors.
        domains: Time domains in which it has timers.
        ttl_change: Handling of a time to live that was enabled or disabled.
    """

    @functools.cache
    def declared() -> functions.Declared | None:
        try:
            return functions.declarations_of(function, uid, domains=domains, ttl_change=ttl_change)
        except errors.SpecRejectedError as error:
            message = f"{method}() of keyed operator '{uid}' failed: {error.message}"
            raise errors.SpecRejectedError(error.reason, message) from error
        except Exception as error:  # noqa: BLE001 - the function is the user's
            message = f"{type(error).__name__}: {error}"
            _log.warning(
                "an operator could not be opened on the driver; its states are unknown before its first batch",
                extra={"operator": uid, "method": method, "error": message},
            )
            return None

    return declared
