"""The ports of a reconcile pass to the outside world, and its clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from statefulspark_operator.cluster.driver_api import DriverApi
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.cluster.storage_reader import StorageReader


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


LISTING_LASTS = timedelta(minutes=5)
"""A watch that is broken without a word is opened again within this time."""


@dataclass(slots=True)
class Listings:
    """The savepoint objects of each namespace as they were listed last, until an event says that they have changed."""

    _listed: dict[str, tuple[datetime, tuple[Resource, ...] | None]] = field(default_factory=dict)
    _changes: dict[str, int] = field(default_factory=dict)

    def forget(self, namespace: str) -> None:
        """Have the objects of a namespace listed again."""
        self._changes[namespace] = self.changes(namespace) + 1
        self._listed.pop(namespace, None)

    def changes(self, namespace: str) -> int:
        """Return a number that grows with every `forget`."""
        return self._changes.get(namespace, 0)

    def is_current(self, namespace: str, now: datetime) -> bool:
        """Tell whether the objects of a namespace were listed, and nothing says that they have changed."""
        return namespace in self._listed and now - self._listed[namespace][0] < LISTING_LASTS

    def kept(self, namespace: str) -> tuple[Resource, ...] | None:
        """Return the objects of a namespace whose listing is current; None if the cluster does not know the kind."""
        return self._listed[namespace][1]

    def keep(self, namespace: str, listed: tuple[Resource, ...] | None, *, now: datetime, changes: int) -> None:
        """Keep a listing, unless something has changed since it was begun.

        Args:
            namespace: The namespace.
            listed: Its objects; None if the cluster does not know the kind.
            now: The current time.
            changes: What `changes` was before the objects were listed.
        """
        if self.changes(namespace) == changes:
            self._listed[namespace] = (now, listed)


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world as a reconcile pass sees it.

    Attributes:
        gateway: Kubernetes.
        drivers: The drivers' HTTP API.
        storage: Shared storage.
        now: The clock, UTC.
        new_token: Creates a token for a driver's API.
        tokens: Tokens of the drivers' APIs as they were read last, by the uid of their job.
        listings: The savepoint objects as they were listed last.
    """

    gateway: Gateway
    drivers: DriverApi
    storage: StorageReader
    now: Callable[[], datetime] = utc_now
    new_token: Callable[[], str] = field(default=lambda: secrets.token_urlsafe(32))
    tokens: dict[str, str] = field(default_factory=dict)
    listings: Listings = field(default_factory=Listings)
