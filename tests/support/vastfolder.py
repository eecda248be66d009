"""The folder of a job with a million objects, and the operator's work on it within the memory of its container.

python vastfolder.py purge|prune MEBIBYTES
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from statefulspark import clock, errors
from statefulspark.contract import layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.storage import allowance
from statefulspark.storage.port import PAGE, ObjectInfo, split_pages
from statefulspark.testing import stores
from statefulspark_operator.api.spec import Checkpoint, Storage
from statefulspark_operator.cluster import storage_reader

OBJECTS = 1_000_000
TARGET = storage_reader.StorageTarget(Storage(uri="s3://bucket/state"), "default", "flights", {}, "uid")
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_FOLDER = f"{layout.GENERATIONS}/00000001/counts/state/0"


def _info(number: int) -> ObjectInfo:
    return ObjectInfo(f"{_FOLDER}/{number % 1000}/{number}.changelog", 7, f"{number:032x}", _AT)


class VastFolder(stores.MemoryStore):
    """A store whose objects are made when they are listed, and forgotten with their page.

    Attributes:
        deleted: How many of them are deleted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deleted = 0
        record = OwnerRecord(namespace="default", job="flights", owner_id="uid", created_at=_AT)
        self.write(layout.OWNER, record.to_json().encode())
        self.write("epochs/00000001.json", b"{}")

    def child(self, prefix: str) -> VastFolder:
        """Return this store: it has one job."""
        del prefix
        return self

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port; what an allowance allows is held."""
        infos: list[ObjectInfo] = []
        for page in self.pages(prefix):
            infos += page
            allowance.require_few_objects(len(infos), prefix)
        return tuple(infos)

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port."""
        yield from split_pages(super().list(prefix), size)
        if prefix in ("", layout.GENERATIONS):
            for begin in range(self.deleted, OBJECTS, size):
                yield tuple(map(_info, range(begin, min(begin + size, OBJECTS))))

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        names = super().list_names(prefix)
        return tuple(sorted({*names, f"{layout.GENERATIONS}/"})) if not prefix and self.deleted < OBJECTS else names

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        self.deleted += sum(key.startswith(f"{_FOLDER}/") for key in keys)
        super().delete_many(keys)


def main(work: str, mebibytes: str) -> None:
    """Do the work, and print what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (int(mebibytes) << 20,) * 2)
    folder = VastFolder()
    reader = storage_reader.SnapshotStorageReader(lambda _uri, _options: folder)
    try:
        if work == "purge":
            asyncio.run(reader.purge(TARGET))
        else:
            asyncio.run(reader.prune(TARGET, Checkpoint(), epoch=1, now=clock.utc_now()))
    except errors.StatefulSparkError as error:
        print(error.reason, error.message)
    print(f"deleted {folder.deleted}")


if __name__ == "__main__":
    main(*sys.argv[1:])
