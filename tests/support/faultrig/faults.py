"""A bucket as one process sees it: each request may kill it, freeze it, be lost, be late, come twice, or find nobody.

What a fault does is what a network and a process do, and no more: an answer is lost after the effect; a request arrives
when its sender has long given it up; a repeated request arrives twice; a frozen process wakes with its request unsent.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol, TypeVar

from faultrig import fibers
from statefulspark import errors
from statefulspark.storage import port
from statefulspark.storage.port import (
    MOST_BYTES,
    PAGE,
    DeletedObjects,
    ObjectInfo,
    ObjectStore,
    delete_listed,
    split_pages,
)
from statefulspark.testing.stores import CrashPoint

BUCKET = "s3://rig"
RACED = "TargetRaced"
_T = TypeVar("_T")
Body = bytes | Callable[[], bytes]
"""What is written, or how it is found out when the request arrives."""


class Kind(StrEnum):
    """What happens to a request."""

    KILL_BEFORE = "dies before"
    KILL_AFTER = "dies after"
    FREEZE = "freezes before"
    LOSE = "loses the answer of"
    DELAY = "is late with"
    REPEAT = "repeats later"
    OUTAGE = "cannot reach storage from"
    CONFLICT = "is told of a conflict after"
    """Of a transaction: what a gateway says that sends it a second time, which meets its own result."""


@dataclass(slots=True)
class Fault:
    """Breaks one request that changes something.

    Attributes:
        kind: How.
        after: So many matching requests pass before.
        matches: A part of the key; every key if it is empty.
        name: How the request's name begins, such as `delete`; any if it is empty.
        length: Requests that an outage lasts.
    """

    kind: Kind
    after: int = 0
    matches: str = ""
    name: str = ""
    length: int = 3

    def is_due(self, name: str, key: str) -> bool:
        if self.matches not in key or not name.startswith(self.name):
            return False
        self.after -= 1
        return self.after < 0


class Watcher(Protocol):
    """Sees every effect on the bucket before it happens."""

    def sees(self, process: FaultyProcess, name: str, key: str, body: bytes = b"") -> None: ...


class FaultyProcess(fibers.Process):
    """A process whose requests go wrong as planned."""

    def __init__(self, scheduler: fibers.Scheduler, name: str, network: Network) -> None:
        super().__init__(scheduler, name)
        self.network = network
        self.faults: list[Fault] = []
        self.epoch = 0
        self.is_disturbed = False
        """Whether something went wrong that explains any failure."""
        self.outage = 0

    def kill(self) -> None:
        self.is_dead, self.is_disturbed = True, True

    def arm(self, kind: Kind, after: int = 0, matches: str = "", name: str = "") -> None:
        """Plan a fault."""
        self.faults.append(Fault(kind, after, matches, name))

    def store(self, prefix: str = "") -> RigStore:
        """Return the bucket, or a folder of it, as this process reaches it."""
        return RigStore(self, prefix)

    def ask(self, act: Callable[[], _T]) -> _T:
        """Perform a request that changes nothing."""
        self._reach()
        return act()

    def change(self, name: str, key: str, act: Callable[[], None], *, body: Body = b"") -> None:
        """Perform a request that changes something, unless a fault is due; a watcher sees what it writes."""
        self._reach()
        fault = next((one for one in self.faults if one.is_due(name, key)), None)
        effect = functools.partial(self._effect, name, key, act, body)
        if fault is None:
            effect()
            return
        self.faults.remove(fault)
        self.is_disturbed = True
        self.network.log(f"{self.name} {fault.kind} {name} {key}")
        self._go_wrong(fault, key, effect)

    def _go_wrong(self, fault: Fault, key: str, effect: Callable[[], None]) -> None:
        match fault.kind:
            case Kind.KILL_BEFORE | Kind.KILL_AFTER:
                if fault.kind is Kind.KILL_AFTER:
                    effect()
                self.kill()
                raise CrashPoint
            case Kind.FREEZE:
                self.is_frozen = True
                fibers.here().pause()
                effect()
            case Kind.LOSE:
                effect()
                raise _unreachable("the answer is lost")
            case Kind.DELAY:
                self.network.late.append(Late(key, effect))
                raise _unreachable("no answer in time")
            case Kind.REPEAT:
                effect()
                self.network.late.append(Late(key, effect))
            case Kind.CONFLICT:
                effect()
                raise errors.TransientError(RACED, "Another writer committed at the same time.")
            case Kind.OUTAGE:
                self.outage = fault.length
                raise _unreachable("the outage begins")

    def _effect(self, name: str, key: str, act: Callable[[], None], body: Body) -> None:
        self.network.watcher.sees(self, name, key, body if isinstance(body, bytes) else body())
        act()
        if name != "create":
            self.network.rotten.pop(key, None)

    def _reach(self) -> None:
        self.require_alive()
        fiber = fibers.current()
        if fiber is not None:
            fiber.pause()
        if self.outage:
            self.outage -= 1
            raise _unreachable("the outage goes on")


@dataclass(frozen=True, slots=True)
class Late:
    """A request that is on its way.

    Attributes:
        key: What it changes.
        arrive: Changes it.
    """

    key: str
    arrive: Callable[[], None]


@dataclass
class Network:
    """What lies between processes and the bucket."""

    server: ObjectStore
    """As it answers: its listings may lag."""
    truth: ObjectStore
    """As it is."""
    watcher: Watcher
    log: Callable[[str], None]
    late: list[Late] = field(default_factory=list)
    rotten: dict[str, ObjectInfo] = field(default_factory=dict)
    """What is said, by key, of objects whose bytes have changed below it; until they are written anew."""

    def info(self, key: str) -> ObjectInfo | None:
        """Look an object up, with the etag that the server believes in, and what the writer told."""
        info = self.server.info(key)
        return None if info is None else self.believed(info)

    def believed(self, info: ObjectInfo) -> ObjectInfo:
        if info.key not in self.rotten:
            return info
        before = self.rotten[info.key]
        return replace(info, etag=before.etag, crc32=None if info.crc32 is None else before.crc32)

    def deliver(self, index: int = 0) -> None:
        """Let a request arrive that its sender has given up, or has repeated; nobody hears of its failure.

        What needs another look by a sender that is dead comes to nothing.
        """
        with contextlib.suppress(errors.StatefulSparkError, CrashPoint):
            self.late.pop(index).arrive()


@dataclass(frozen=True, slots=True)
class RigStore:
    """A folder of the bucket, as a process sees it; implements the port."""

    process: FaultyProcess
    prefix: str = ""

    @property
    def uri(self) -> str:
        return port.join_key(BUCKET, self.prefix)

    @property
    def _server(self) -> ObjectStore:
        return self.process.network.server

    def _full(self, key: str) -> str:
        return port.join_key(self.prefix, _checked(key))

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        return self.process.ask(lambda: self._server.read(self._full(key), most_bytes=most_bytes))

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        return {key: self.read(key, most_bytes=most_bytes) for key in keys}

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        return self.process.ask(lambda: self._server.read_range(self._full(key), offset, length))

    def write(self, key: str, body: bytes) -> None:
        full = self._full(key)
        self.process.change("write", full, lambda: self._server.write(full, body), body=body)

    def create(self, key: str, body: bytes) -> None:
        full = self._full(key)
        self.process.change("create", full, lambda: self._server.create(full, body), body=body)

    def info(self, key: str) -> ObjectInfo | None:
        full = self._full(key)
        info = self.process.ask(lambda: self.process.network.info(full))
        fiber = fibers.current()
        if fiber is not None and info is None and full.endswith(f"/epochs/{self.process.epoch + 1:08d}.json"):
            fiber.has_looked = True
        return None if info is None else replace(info, key=key)

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        return {key: self.info(key) for key in keys}

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        start = len(self.prefix) + 1 if self.prefix else 0
        found = self.process.ask(lambda: self._server.list(port.join_key(self.prefix, prefix)))
        return tuple(_renamed(self.process.network.believed(info), info.key[start:]) for info in found)

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        return split_pages(self.list(prefix), size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        return self.process.ask(lambda: self._server.list_names(port.join_key(self.prefix, prefix.rstrip("/"))))

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        return isinstance(source, RigStore)

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        assert isinstance(source, RigStore)
        for done, (old, new) in enumerate(pairs, start=1):
            where, full = source._full(old), self._full(new)
            copied = functools.partial(self._server.read, where)
            self.process.change("copy", full, functools.partial(_copy, self._server, where, full), body=copied)
            if on_progress:
                on_progress(done)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            full = self._full(key)
            self.process.change("delete", full, functools.partial(self._server.delete_many, [full]))

    def delete_folder(self, prefix: str) -> DeletedObjects:
        return delete_listed(self, prefix)

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        full = self._full(key)
        self.process.change("replace", full, lambda: self._server.replace(full, body, etag=etag), body=body)

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        full = self._full(key)
        is_gone: list[bool] = []
        self.process.change("delete unchanged", full, lambda: is_gone.append(self._delete_unchanged(full, etag)))
        return is_gone[-1]

    def _delete_unchanged(self, full: str, etag: str) -> bool:
        info = self._server.info(full)
        if info is not None and info.etag == etag:
            self.process.network.watcher.sees(self.process, "delete", full)
        return self._server.delete_unchanged(full, etag=etag)

    def child(self, prefix: str) -> RigStore:
        return RigStore(self.process, port.join_key(self.prefix, port.require_folder(prefix)))


def _copy(server: ObjectStore, old: str, new: str) -> None:
    server.copy_many([(old, new)])


_checked = functools.lru_cache(maxsize=4096)(port.require_key)
"""Most requests are about keys that have been asked for before."""


def _renamed(info: ObjectInfo, key: str) -> ObjectInfo:
    return replace(info, key=key)


def _unreachable(why: str) -> errors.TransientError:
    return errors.TransientError("StorageUnreachable", f"Storage cannot be reached: {why}.")
