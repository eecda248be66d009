"""Sizes of the packs of one partition, as listings of its own folder show them.

A pack's size never changes. So the listing that has to show a new pack before a head names it also gives the next batch what
it needs, and a batch costs a partition one listing of its own packs, however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from statefulspark.packs import names
from statefulspark.storage.port import ObjectStore


class PartitionPacks:
    """The packs of a partition that a worker knows. Packs that another process has written since are seen a batch later."""

    def __init__(self) -> None:
        """Know none."""
        self._sizes: dict[str, int] = {}

    def sizes(self, store: ObjectStore, uid: str, folder: str, named: Iterable[str]) -> Mapping[str, int]:
        """Return sizes by name: of the packs in the partition's folder, and of those that its heads name.

        Cost: nothing if all are known; else a listing of each folder of which one is not. After a change of the number of
        partitions heads name packs in folders of others.

        Args:
            store: The query's root.
            uid: The operator.
            folder: The partition's folder, with a slash.
            named: The packs that heads name.
        """
        unknown = {names.parse(reference).folder for reference in named if reference not in self._sizes}
        for each in sorted(unknown if self._sizes else {folder, *unknown}):
            self._list(store, uid, each)
        return self._sizes

    def shows(self, store: ObjectStore, uid: str, name: names.PackName) -> bool:
        """Tell whether a listing shows a pack. Cost: a listing of its folder."""
        return name.reference in self._list(store, uid, name.folder)

    def _list(self, store: ObjectStore, uid: str, folder: str) -> Mapping[str, int]:
        packs = ((names.of_key(info.key), info.size_bytes) for info in store.list(names.key(uid, folder.rstrip("/"))))
        listed = {pack[1].reference: size_bytes for pack, size_bytes in packs if pack is not None}
        others = {reference: size for reference, size in self._sizes.items() if not reference.startswith(folder)}
        self._sizes = others | listed
        return listed
