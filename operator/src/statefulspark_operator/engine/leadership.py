"""Who of several operators acts: the one that holds a Lease, as Kubernetes' own controllers do it.

The holder renews the Lease every two seconds. It counts as the leader for six seconds after a renewal was begun, and ends if
it could not renew by then; another one takes the Lease when it has not changed for ten seconds by its own clock. So clocks
need not agree, and a leader that hangs has stopped acting before the next one starts. State needs none of this: whoever
writes it is fenced by epochs on storage.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from statefulspark import errors

from statefulspark_operator.cluster import cache, resources
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.resources import Resource

_LOG = logging.getLogger("statefulspark.leadership")
Result = TypeVar("Result")

LASTS_S = 10
"""A Lease that has not changed for so long is taken."""
ACTS_FOR_S = 6.0
"""The holder acts for so long after it began a renewal that succeeded."""
TRY_EVERY_S = 2.0
REQUEST_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The Lease, and who wants it.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        identity: The name of this operator's pod: a container that was started again in it goes on at once.
    """

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class _Observed:
    """A version of the Lease, and when it was seen first."""

    version: str
    since_s: float


class Leadership:
    """Whether this operator acts."""

    def __init__(self, gateway: Gateway, lease: LeaseName, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Want a Lease; `attempt` tries to get it.

        Args:
            gateway: Kubernetes; not the one of the passes, whose requests may have to wait.
            lease: The Lease.
            clock_s: A clock that only goes forward.
        """
        self._gateway, self._lease, self._clock_s = gateway, lease, clock_s
        self._observed: _Observed | None = None
        self._renewed_s: float | None = None

    @property
    def may_act(self) -> bool:
        """Whether this operator is the leader at this moment."""
        return self._renewed_s is not None and self._clock_s() - self._renewed_s < ACTS_FOR_S

    def require(self) -> None:
        """Refuse to act if this operator is not the leader at this moment.

        Raises:
            TransientError: `NotLeading`: another operator may be acting already.
        """
        if not self.may_act:
            raise errors.TransientError(
                "NotLeading", "The operator did not renew its Lease in time; another operator may act."
            )

    async def acquire(self) -> None:
        """Wait until this operator is the leader."""
        while not await self.attempt():
            await asyncio.sleep(TRY_EVERY_S)
        _LOG.info("leading", extra={"lease": self._lease.name, "identity": self._lease.identity})

    async def hold(self) -> None:
        """Renew the Lease; return as soon as it is lost."""
        while self.may_act:
            await asyncio.sleep(TRY_EVERY_S)
            renewed_s = self._renewed_s if self._renewed_s is not None else -ACTS_FOR_S
            try:
                await asyncio.wait_for(self.attempt(), max(0.0, renewed_s + ACTS_FOR_S - self._clock_s()))
            except TimeoutError:
                return  # What goes on in threads would go on beside the next leader.

    async def attempt(self) -> bool:
        """Take or renew the Lease if that is possible; tell whether this operator is the leader.

        A server that does not answer changes nothing: a leader goes on until its time is over.
        """
        begun_s = self._clock_s()
        try:
            is_held = await self._attempt(begun_s)
        except errors.PreconditionFailedError:
            is_held = False  # Another operator was faster.
        except errors.StatefulSparkError as error:
            _LOG.warning("lease not renewed", extra={"reason": error.reason, "error": error.message})
            return self.may_act
        self._renewed_s = begun_s if is_held else None
        return is_held

    async def release(self) -> None:
        """Give the Lease to whoever wants it, so that nobody waits until its time is over."""
        if not self.may_act:
            return
        self._renewed_s = None
        with contextlib.suppress(errors.StatefulSparkError):
            held = await self._read()
            if held is not None and _holder(held) == self._lease.identity:
                await self._gateway.replace(_changed(held, holderIdentity="", leaseDurationSeconds=1))

    async def _attempt(self, now_s: float) -> bool:
        existing = await self._read()
        if existing is None:
            at = _stamp()
            return await self._gateway.create(
                {
                    "apiVersion": resources.LEASE.api_version,
                    "kind": resources.LEASE.name,
                    "metadata": {"name": self._lease.name, "namespace": self._lease.namespace},
                    "spec": {
                        "holderIdentity": self._lease.identity,
                        "leaseDurationSeconds": LASTS_S,
                        "acquireTime": at,
                        "renewTime": at,
                        "leaseTransitions": 0,
                    },
                }
            )
        is_own = _holder(existing) == self._lease.identity
        version = cache.version_of(existing)
        if self._observed is None or self._observed.version != version:
            self._observed = _Observed(version, now_s)
        lasts_s = resources.number(existing, "spec", "leaseDurationSeconds") or LASTS_S
        is_free = not _holder(existing) or now_s - self._observed.since_s >= lasts_s
        if not is_own and not is_free:
            return False
        changes: dict[str, str | int] = {"renewTime": _stamp(), "leaseDurationSeconds": LASTS_S}
        if not is_own:
            taken = resources.number(existing, "spec", "leaseTransitions") + 1
            changes |= {"holderIdentity": self._lease.identity, "acquireTime": _stamp(), "leaseTransitions": taken}
        await self._gateway.replace(_changed(existing, **changes))
        return True

    async def _read(self) -> Resource | None:
        return await self._gateway.get(resources.LEASE, self._lease.namespace, self._lease.name)


def _holder(existing: Resource) -> str:
    return resources.text(existing, "spec", "holderIdentity")


def _changed(existing: Resource, **changes: str | int) -> Resource:
    kind: Resource = {"apiVersion": resources.LEASE.api_version, "kind": resources.LEASE.name}
    return {**existing, **kind, "spec": {**resources.section(existing, "spec"), **changes}}


def _stamp() -> str:
    """Return the time for people; no operator goes by it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LoopThread:
    """An event loop in a thread of its own, seen from another one, for what must not wait for the passes of all jobs.

    With a thousand jobs a round of the main loop takes seconds, and a request takes several rounds: a Lease that was renewed
    there was lost while a thousand jobs were created on a busy machine. Nothing but the Lease belongs here: what is shared
    with the main loop is read without a lock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use a loop that runs in another thread; `run_loop_thread` starts one."""
        self._loop = loop

    def start(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start work in the loop; it goes on whatever the caller's loop does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do work in the loop, and wait for it; it is cancelled with the caller."""
        return await asyncio.wrap_future(self.start(work))


@contextlib.asynccontextmanager
async def run_loop_thread(name: str) -> AsyncIterator[LoopThread]:
    """Run a loop in a thread of a name while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield LoopThread(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
