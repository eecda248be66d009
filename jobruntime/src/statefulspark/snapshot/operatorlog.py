"""Records of operator state: their names inside a query's root, and which of them a cut needs. Pure.

```
operator-state/<uid>/<batch:08d>-<epoch:08d>.json
```
A record is written before Spark commits its batch, and only if the state has changed, so a cut at batch N needs the newest
one up to N of every function. Of several attempts at a batch the one of the highest epoch counts: it had the same input,
and the others were never followed by anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statefulspark.contract import layout

FOLDER = "operator-state"

_KEY = re.compile(rf"^{FOLDER}/(?P<uid>[^/]+)/(?P<batch>\d{{8,}})-(?P<epoch>\d{{8,}})\.json$")


@dataclass(frozen=True, slots=True)
class RecordName:
    """A record, as its key names it.

    Attributes:
        uid: The function.
        batch: The batch after which the function had this state.
        epoch: The driver's epoch that wrote it.
    """

    uid: str
    batch: int
    epoch: int

    @property
    def key(self) -> str:
        """Its key below the query's root."""
        return f"{FOLDER}/{self.uid}/{layout.number(self.batch)}-{layout.number(self.epoch)}.json"


def of_key(key: str) -> RecordName | None:
    """Read a key below a query's root; None if it is not a record's."""
    match = _KEY.match(key)
    return RecordName(match["uid"], int(match["batch"]), int(match["epoch"])) if match else None


def newest(keys: Iterable[str], batch: int) -> dict[str, RecordName]:
    """Return the record that holds after a batch, by uid of the function."""
    found: dict[str, RecordName] = {}
    for key in keys:
        name = of_key(key)
        if name is None or name.batch > batch:
            continue
        best = found.get(name.uid)
        if best is None or (name.batch, name.epoch) > (best.batch, best.epoch):
            found[name.uid] = name
    return found


def needed_keys(keys: Iterable[str], batch: int) -> tuple[str, ...]:
    """Return the keys, below the query's root, of the records that a cut at a batch needs."""
    return tuple(name.key for name in newest(keys, batch).values())
