"""The master hooks of a running job: asked in threads of their own, so that one that hangs holds up checkpoints only."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from statefulspark import errors, usercode
from statefulspark.contract.manifest import MasterStateEntry
from statefulspark.hooks import HookDefinition
from statefulspark.recovery.plan import StartPlan

_T = TypeVar("_T")

Answer = Callable[[str, MasterStateEntry | None], None]
"""Gets a hook's identifier and its state."""
Refusal = Callable[[str, errors.StatefulSparkError], None]
"""Gets a hook's identifier and why it has not answered."""

_log = logging.getLogger(__name__)


class JobHooks:
    """All hooks of a job."""

    def __init__(self, definitions: Sequence[HookDefinition] = ()) -> None:
        """Know the hooks; none is called before `restore`."""
        self._hooks = {one.identifier: one for one in definitions}
        self._busy: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def identifiers(self) -> frozenset[str]:
        """Of all hooks."""
        return frozenset(self._hooks)

    def require_place(self, states: Sequence[MasterStateEntry]) -> None:
        """Refuse a job that lacks a hook whose state it would start from.

        Raises:
            SpecRejectedError: `NonRestoredState`.
        """
        lost = sorted(repr(state.identifier) for state in states if state.identifier not in self._hooks)
        if lost:
            raise errors.SpecRejectedError(
                "NonRestoredState",
                f"The state on storage holds state of the master hook {', '.join(lost)}, which the job does not have. "
                "Declare it with job.hook(...), or set allowNonRestoredState to start without that state; it stays in the "
                "snapshot.",
            )

    def restore(self, plan: StartPlan) -> None:
        """Give every hook its state, before any query starts; state of hooks that the job does not have is left behind.

        Args:
            plan: Where the job starts.

        Raises:
            UserCodeError: `HookFailed`: a hook raised.
            SpecRejectedError: `HookFailed`: a hook took too long.
        """
        held = {state.identifier: state for state in plan.master_states}
        for identifier in held.keys() - self._hooks.keys():
            _log.warning("state of a master hook is left behind", extra={"hook": identifier})
        is_empty = not plan.queries and plan.restored_from is None and not held
        for one in self._hooks.values():
            state = held.get(one.identifier)
            if is_empty:
                self._call(one, "reset", one.hook.reset)
                continue
            number = state.checkpoint_id if state else (plan.restored.id if plan.restored else 0)
            self._restore_one(one, number, state)
            _log.info("master hook restored", extra={"hook": one.identifier, "checkpoint": number})

    def trigger(self, checkpoint_id: int, timestamp_ms: int, *, answered: Answer, refused: Refusal) -> None:
        """Ask every hook, all at the same time; returns at once.

        Args:
            checkpoint_id: The snapshot.
            timestamp_ms: When it was triggered.
            answered: Called once for each hook that answers, in another thread.
            refused: Called once for each that fails or takes too long, in another thread.
        """

        def ask(one: HookDefinition) -> None:
            try:
                with usercode.ours(f"Asking the master hook {one.identifier!r}"):
                    trigger = functools.partial(one.hook.trigger, checkpoint_id, timestamp_ms)
                    body = self._call(one, "trigger", trigger)
                    entry = (
                        None if body is None else MasterStateEntry.of(one.identifier, checkpoint_id, _bytes(one, body))
                    )
            except errors.StatefulSparkError as error:
                refused(one.identifier, error)
            else:
                answered(one.identifier, entry)

        for one in self._hooks.values():
            threading.Thread(target=ask, args=(one,), name=f"hook-{one.identifier}", daemon=True).start()

    def close(self) -> None:
        """Tell every hook that the job has ended; what fails is logged."""
        for one in self._hooks.values():
            try:
                self._call(one, "close", one.hook.close)
            except errors.StatefulSparkError as error:
                _log.warning("a master hook could not be closed", extra={"why": error.message})

    def _restore_one(self, one: HookDefinition, number: int, state: MasterStateEntry | None) -> None:
        body = state.body if state else None
        self._call(one, "restore", functools.partial(one.hook.restore, number, body))

    def _call(self, one: HookDefinition, method: str, call: Callable[[], _T]) -> _T:
        """Call a hook in a thread that nobody waits for longer than it may take; a thread cannot be ended."""
        with self._lock:
            busy = self._busy.get(one.identifier)
            if busy is None:
                self._busy[one.identifier] = method
        if busy is not None:
            raise _failed(one, method, f"it is still in {busy}(), which took too long before")
        outcome: Future[_T] = Future()

        def work() -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - handed over to the thread that waits
                self._free(one.identifier)
                outcome.set_exception(_raised(one, method, error))
            else:
                self._free(one.identifier)
                outcome.set_result(result)

        threading.Thread(target=work, name=f"hook-{one.identifier}-{method}", daemon=True).start()
        return self._outcome(one, method, outcome)

    def _outcome(self, one: HookDefinition, method: str, outcome: Future[_T]) -> _T:
        try:
            return outcome.result(one.timeout_s)
        except TimeoutError as error:
            raise _failed(one, method, f"it did not return within {one.timeout_s:g} s") from error

    def _free(self, identifier: str) -> None:
        with self._lock:
            self._busy.pop(identifier, None)


def _bytes(one: HookDefinition, body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise _failed(one, "trigger", f"it returned {type(body).__name__} and not bytes or None")
    return bytes(body)


def _raised(one: HookDefinition, method: str, error: BaseException) -> errors.UserCodeError:
    """Return the error for what a hook raised, whatever it is: nothing of ours runs inside of a hook."""
    failed = usercode.made(
        error, reason="HookFailed", message=_sentence(one, method, f"{type(error).__name__}: {error}")
    )
    failed.__cause__ = error
    return failed


def _failed(one: HookDefinition, method: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError("HookFailed", _sentence(one, method, why))


def _sentence(one: HookDefinition, method: str, why: str) -> str:
    return f"{type(one.hook).__qualname__}.{method}() of the master hook {one.identifier!r} failed: {why}"
