"""The operator's own work on storage, carried out by a process of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from faultrig import faults
from statefulspark_operator.api.spec import Storage
from statefulspark_operator.cluster import storage_reader

_T = TypeVar("_T")
_KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


class AtOnce:
    """Does the operator's work on storage in the fiber that asks for it."""

    async def run(self, store: str, owner: str, work: Callable[[], _T]) -> _T:
        del store, owner
        return work()

    delete = run


def purge(process: faults.FaultyProcess, area: str, job: str) -> None:
    """Delete a job's state as the operator does with `deletionPolicy: Delete`; called by a fiber of the process."""

    def opened(uri: str, options: object) -> faults.RigStore:
        del options
        return process.store(uri.removeprefix(f"{faults.BUCKET}/"))

    reader = storage_reader.SnapshotStorageReader(opened, AtOnce())  # type: ignore[arg-type]
    target = storage_reader.StorageTarget(Storage(uri=f"{faults.BUCKET}/{area}"), "default", job, _KEYS, "uid")
    asyncio.run(reader.purge(target))
