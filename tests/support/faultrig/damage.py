"""What a disk or a careless hand does to the newest files of a root: cut short, a bit flipped, gone. Can be undone."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from statefulspark.storage.port import ObjectStore
from statefulspark.testing.stores import MemoryStore

TARGETS = {
    "manifest": r"/checkpoints/\d+/_metadata\.json$",
    "changelog": r"/state/\d+/\d+/\d+_[0-9a-f-]+\.changelog$",
    "checksum": r"/state/\d+/\d+/\d+_[0-9a-f-]+\.changelog\.crc$",
    "snapshot": r"\.zip$",
    "sst": r"\.sst$",
    "commit": r"/commits/\d+$",
    "generation": r"/generation\.json$",
}
"""Files that a start must cope with, by what they are."""
WAYS = ("cut short", "flipped", "gone")


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged file, and how it was before."""

    key: str
    way: str
    before: bytes

    def undo(self, bucket: ObjectStore) -> None:
        bucket.write(self.key, self.before)


def inflict(bucket: MemoryStore, root: str, chance: random.Random, target: str) -> Damage | None:
    """Damage one of the newest files of a kind below a root; None if there is none."""
    keys = [info for info in bucket.list(root) if re.search(TARGETS[target], f"/{info.key}")]
    if not keys:
        return None
    newest = sorted(keys, key=lambda info: (info.modified_at, _number(info.key)))[-2:]
    key, way = chance.choice(newest).key, chance.choice(WAYS)
    found = Damage(key, way, bucket.read(key))
    if way == "gone":
        bucket.delete_many([key])
    elif way == "cut short":
        bucket.write(key, found.before[: chance.randrange(len(found.before))])
    else:
        place = chance.randrange(len(found.before))
        flipped = bytes([found.before[place] ^ (1 << chance.randrange(8))])
        bucket.write(key, found.before[:place] + flipped + found.before[place + 1 :])
    return found


def _number(key: str) -> int:
    found = re.findall(r"/(\d+)", key)
    return int(found[-1]) if found else 0
