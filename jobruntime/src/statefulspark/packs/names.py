"""Names of packs: what a name says is enough to know which packs a batch needs (`window`). Pure.

```
<query root>/packs/<operator uid>/<partitions>-<partition>/<batch>-<epoch>-<attempt>-<tail>-<before>.pack
```
Heads of key groups name a pack by what follows the operator's uid. A name is used once: `attempt` is random, so a lost, late
or speculated attempt has names of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statefulspark.contract import layout

FOLDER = "packs"
SUFFIX = ".pack"
_NUMBER = r"[0-9]{8,18}"
_REFERENCE = re.compile(
    r"(?P<partitions>[1-9][0-9]{0,8})-(?P<partition>0|[1-9][0-9]{0,8})/"
    rf"(?P<batch>{_NUMBER})-(?P<epoch>{_NUMBER})-(?P<attempt>[0-9a-f]{{16}})-(?P<tail>{_NUMBER})-(?P<before>{_NUMBER})\.pack"
)


@dataclass(frozen=True, slots=True)
class Before:
    """Which packs the key groups of a partition named before a batch, by the committed heads.

    Attributes:
        tail: The oldest batch with such a pack; the batch itself if there was none.
        newest: The newest batch with such a pack; the batch itself if there was none.
    """

    tail: int
    newest: int

    @classmethod
    def summarize(cls, references: Iterable[str], batch: int) -> Before:
        """Summarise the packs that committed heads name.

        Args:
            references: The packs that the heads of all key groups of the partition named before the batch.
            batch: The batch.

        Raises:
            ValueError: One of them is not the name of a pack.
        """
        batches = {parse(reference).batch for reference in references}
        return cls(min(batches, default=batch), max(batches, default=batch))


@dataclass(frozen=True, slots=True)
class PackName:
    """Name of a pack.

    Attributes:
        partitions: Number of the operator's partitions.
        partition: The partition that wrote it.
        batch: The batch that wrote it.
        epoch: Epoch of the driver.
        attempt: Random for each attempt, 16 hexadecimal digits.
        before: What the partition needed before this batch.
    """

    partitions: int
    partition: int
    batch: int
    epoch: int
    attempt: str
    before: Before

    @property
    def reference(self) -> str:
        """The name as heads have it: relative to the operator's folder."""
        numbers = (self.batch, self.epoch, self.attempt, self.before.tail, self.before.newest)
        name = "-".join(part if isinstance(part, str) else layout.number(part) for part in numbers)
        return f"{self.folder}{name}{SUFFIX}"

    @property
    def folder(self) -> str:
        """The folder of the partition, with a slash: what the references of all its packs begin with."""
        return f"{self.partitions}-{self.partition}/"


def key(uid: str, reference: str) -> str:
    """Return the key of a pack below the query's root."""
    return f"{FOLDER}/{uid}/{reference}"


def parse(reference: str) -> PackName:
    """Parse a name as heads have it.

    Raises:
        ValueError: It is not the name of a pack.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"{reference!r} is not the name of a pack")
    before = Before(int(match["tail"]), int(match["before"]))
    name = PackName(
        int(match["partitions"]),
        int(match["partition"]),
        int(match["batch"]),
        int(match["epoch"]),
        match["attempt"],
        before,
    )
    if (
        not before.tail <= before.newest <= name.batch
        or name.partition >= name.partitions
        or name.reference != reference
    ):
        raise ValueError(f"{reference!r} is not the name of a pack: its numbers do not fit together")
    return name


def share_of(reference: str, size_bytes: int, partitions: int) -> int:
    """Return how much of a pack counts as stored for one partition of another number of them.

    After a change to more partitions several of them name chunks of one pack.

    Args:
        reference: The pack's name, as heads have it.
        size_bytes: Its size.
        partitions: Number of partitions now.
    """
    return size_bytes * min(parse(reference).partitions, partitions) // partitions


def of_key(path: str) -> tuple[str, PackName] | None:
    """Return operator uid and name of a pack by its key below the query's root; None if it is not the key of a pack."""
    folder, _, rest = path.partition("/")
    uid, _, reference = rest.partition("/")
    if folder != FOLDER or not uid:
        return None
    try:
        return uid, parse(reference)
    except ValueError:
        return None
