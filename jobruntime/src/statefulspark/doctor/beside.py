"""Folders beside the state of operators: the staged rows of sinks, and scratch folders, each with its owner.

```
generations/00000003/<query uid>/staged/<sink uid>/…     part of the state until it is committed, and a while longer
scratch/00000007/…                                       of epoch 7's start
scratch/rehearsal-<unique>/…                             of a standby, or of one that was killed
```
"""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark.contract import diagnosis, layout
from statefulspark.storage.port import ObjectInfo


def folders(generations: Iterable[ObjectInfo], scratch: Iterable[ObjectInfo]) -> tuple[diagnosis.FolderHealth, ...]:
    """Return the folders of staged rows, then those of scratch. Pure.

    Args:
        generations: The files below `generations/`.
        scratch: The files below `scratch/`.
    """
    staged = (info for info in generations if layout.staged_batch(info.key.split("/", 3)[-1]) is not None)
    return (*_by_folder(staged, depth=5), *_by_folder(scratch, depth=2))


def _by_folder(files: Iterable[ObjectInfo], *, depth: int) -> Iterable[diagnosis.FolderHealth]:
    by_folder: dict[str, list[ObjectInfo]] = {}
    for info in files:
        by_folder.setdefault("/".join(info.key.split("/")[:depth]), []).append(info)
    for path, infos in sorted(by_folder.items()):
        size_bytes = sum(info.size_bytes for info in infos)
        yield diagnosis.FolderHealth(path=path, whose=_owner_of(path), files=len(infos), size_bytes=size_bytes)


def _owner_of(path: str) -> str:
    root, name, *below = path.split("/")
    if root == layout.GENERATIONS:
        return f"sink {below[-1]} of query {below[0]}"
    number = layout.parse_number(name)
    if number is not None:
        return f"start of epoch {number}"
    return "rehearsal of a standby" if layout.is_rehearsal(name) else "not ours"
