"""The master hooks of a running job: each call has its own thread, so that a hook that hangs delays only checkpoints."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

from statefulspark import durations, errors, threads, usercode
from statefulspark.contract import lost_state
from statefulspark.contract.manifest import MasterStateEntry
from statefulspark.hooks import HookDefinition
from statefulspark.recovery.plan import RestoredState

_T = TypeVar("_T")

Answer = Callable[[str, MasterStateEntry | None], None]
"""Called with a hook's uid and its state."""
Refusal = Callable[[str, errors.StatefulSparkError], None]
"""Called with a hook's uid and the error that it failed with."""

_log = logging.getLogger(__name__)


class JobHooks:
    """All hooks of a job."""

    def __init__(self, definitions: Sequence[HookDefinition] = ()) -> None:
        """Keep the hooks; none is called before `restore`."""
        self._hooks = {definition.uid: definition for definition in definitions}
        self._busy: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def uids(self) -> frozenset[str]:
        """The uids of all hooks."""
        return frozenset(self._hooks)

    def require_place(self, states: Sequence[MasterStateEntry], drop_state: Collection[str] = ()) -> None:
        """Refuse a job that lacks a hook whose state it would start from.

        Raises:
            SpecRejectedError: `NonRestoredState`.
        """
        lost = sorted(state.identifier for state in states if state.identifier not in self._hooks)
        lost_state.require_permission(
            [lost_state.LostState(identifier, repr(identifier)) for identifier in lost],
            drop_state,
            holds="The state on storage holds state of the master hook",
            remedy="Declare it with job.hook(...)",
        )

    def restore(self, plan: RestoredState) -> None:
        """Give every hook its state, before any query starts; state of hooks that the job does not have is dropped.

        Args:
            plan: Where the job starts.

        Raises:
            UserCodeError: `HookFailed`: a hook raised.
            SpecRejectedError: `HookFailed`: a hook took too long.
        """
        states = {state.identifier: state for state in plan.master_states}
        for uid in states.keys() - self._hooks.keys():
            _log.warning("state of a master hook is dropped: the job does not have it", extra={"hook": uid})
        is_empty = not plan.queries and plan.restored_from is None and not states
        for definition in self._hooks.values():
            state = states.get(definition.uid)
            if is_empty:
                self._call(definition, "reset", definition.hook.reset)
                continue
            number = state.checkpoint_id if state else (plan.restored.id if plan.restored else 0)
            body = state.body if state else None
            self._call(definition, "restore", functools.partial(definition.hook.restore, number, body))
            _log.info("master hook restored", extra={"hook": definition.uid, "checkpoint": number})

    def trigger(self, checkpoint_id: int, when: datetime, *, answered: Answer, refused: Refusal) -> None:
        """Trigger all hooks at the same time; returns at once.

        Args:
            checkpoint_id: The snapshot.
            when: The moment at which it was triggered, in UTC.
            answered: Called once for each hook that answers, in another thread.
            refused: Called once for each hook that fails or takes too long, in another thread.
        """

        def ask(definition: HookDefinition) -> None:
            try:
                with usercode.as_internal_error(f"Asking the master hook {definition.uid!r}"):
                    trigger = functools.partial(definition.hook.trigger, checkpoint_id, when)
                    body: object = self._call(definition, "trigger", trigger)
                    entry = None
                    if isinstance(body, bytes | bytearray | memoryview):
                        entry = MasterStateEntry.encode(definition.uid, checkpoint_id, bytes(body))
                    elif body is not None:
                        why = f"it returned {type(body).__name__} and not bytes or None"
                        raise _failed(definition, "trigger", why)
            except errors.StatefulSparkError as error:
                refused(definition.uid, error)
            else:
                answered(definition.uid, entry)

        for definition in self._hooks.values():
            threading.Thread(target=ask, args=(definition,), name=f"hook-{definition.uid}", daemon=True).start()

    def close(self) -> None:
        """Close every hook after the job has ended; errors are logged."""
        for definition in self._hooks.values():
            try:
                self._call(definition, "close", definition.hook.close)
            except errors.StatefulSparkError as error:
                _log.warning("a master hook could not be closed", extra={"why": error.message})

    def _call(self, definition: HookDefinition, method: str, call: Callable[[], _T]) -> _T:
        """Call a hook in a thread, and wait for at most its timeout; a thread cannot be ended."""
        with self._lock:
            running_method = self._busy.get(definition.uid)
            if running_method is None:
                self._busy[definition.uid] = method
        if running_method is not None:
            raise _failed(definition, method, f"it is still in {running_method}(), which took too long before")

        def work() -> _T:
            try:
                return call()
            except BaseException as error:
                # No product code runs inside a hook, so every exception is the hook's.
                message = _sentence(definition, method, f"{type(error).__name__}: {error}")
                raise usercode.user_code_error(error, reason="HookFailed", message=message) from error
            finally:
                with self._lock:
                    self._busy.pop(definition.uid, None)

        outcome = threads.beside(work, name=f"hook-{definition.uid}-{method}")
        try:
            return outcome.result(definition.timeout.total_seconds())
        except TimeoutError as error:
            raise _failed(
                definition, method, f"it did not return within {durations.format_exact(definition.timeout)}"
            ) from error


def _failed(definition: HookDefinition, method: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError("HookFailed", _sentence(definition, method, why))


def _sentence(definition: HookDefinition, method: str, why: str) -> str:
    return f"{type(definition.hook).__qualname__}.{method}() of the master hook {definition.uid!r} failed: {why}"
