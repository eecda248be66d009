"""The ports of a reconcile pass to the outside world, and its clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from statefulspark_operator.cluster.driver_api import DriverApi
from statefulspark_operator.cluster.gateway import Gateway
from statefulspark_operator.cluster.storage_reader import StorageReader


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


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
    """

    gateway: Gateway
    drivers: DriverApi
    storage: StorageReader
    now: Callable[[], datetime] = utc_now
    new_token: Callable[[], str] = field(default=lambda: secrets.token_urlsafe(32))
    tokens: dict[str, str] = field(default_factory=dict)
