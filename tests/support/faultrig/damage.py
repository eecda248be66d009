"""What a disk or a careless hand does to the newest files of a root: cut short, flipped, rotten, gone. Can be undone.

A rotten file has other bytes below the etag that it had; the server does not notice.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from faultrig import faults
from statefulspark.storage.port import ObjectInfo, ObjectStore

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
GUARDED = ("changelog", "checksum", "snapshot", "sst")
"""Files with a checksum beside them or inside, so that what is rotten is found out while it is loaded."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged file, and how it was before."""

    key: str
    way: str
    before: bytes

    def undo(self, network: faults.Network) -> None:
        """Bring the bytes back, also where a start has copied the file to before it was found out."""
        name = self.key.rpartition("/")[2]
        copies = [info.key for info in network.truth.list("") if info.key.endswith(f"/{name}") and _is_unique(name)]
        for key in {self.key, *copies}:
            network.truth.write(key, self.before)
            network.rotten.pop(key, None)


def inflict(network: faults.Network, root: str, chance: random.Random, target: str) -> Damage | None:
    """Damage one of the newest files of a kind below a root; None if there is none."""
    bucket = network.truth
    keys = [info for info in bucket.list(root) if re.search(TARGETS[target], f"/{info.key}")]
    if not keys:
        return None
    newest = sorted(keys, key=lambda info: (info.modified_at, _number(info.key)))[-2:]
    key, way = chance.choice(newest).key, chance.choice((*WAYS, "rotten") if target in GUARDED else WAYS)
    found = Damage(key, way, bucket.read(key))
    if way == "gone":
        bucket.delete_many([key])
    elif way == "cut short":
        bucket.write(key, found.before[: chance.randrange(len(found.before))])
    else:
        if way == "rotten":
            network.rotten[key] = _present(bucket, key)
        place = chance.randrange(len(found.before))
        flipped = bytes([found.before[place] ^ (1 << chance.randrange(8))])
        bucket.write(key, found.before[:place] + flipped + found.before[place + 1 :])
    return found


def _is_unique(name: str) -> bool:
    return len(name) > len("generation.json")


def _number(key: str) -> int:
    found = re.findall(r"/(\d+)", key)
    return int(found[-1]) if found else 0


def _present(bucket: ObjectStore, key: str) -> ObjectInfo:
    info = bucket.info(key)
    assert info is not None
    return info
