"""What a canonical savepoint says about the state of a query: `canonical/query.json` beside the data. Pure names and sizes.

```
<savepoint>/files/<query uid>/
  metadata  offsets/…  commits/…  sources/…  state/<op>/_metadata/…     the engine's small files, as they were
  operator-state/…  prepared/…                                           side records, as they were
  canonical/query.json                                                    this document
  canonical/<operator uid>/states/<state>/part-….parquet                  keyed state of ours
  canonical/<operator uid>/families/<n>-<name>/part-….parquet             state of one of Spark's own operators
```
"""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import Field, JsonValue

from statefulspark.contract import formats
from statefulspark.contract.base import StoredDocument, WireModel
from statefulspark.contract.manifest import KeyedStateEntry

FOLDER = "canonical"
"""Below a query's folder: everything that is not the engine's."""
QUERY_DOCUMENT = f"{FOLDER}/query.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class PartFile(WireModel):
    """One Parquet file."""

    path: str
    """Relative to the query's folder."""
    rows: int = Field(ge=0)
    size_bytes: int = Field(ge=0)
    sha256: str


class KeyedState(KeyedStateEntry):
    """One state of a keyed operator of ours; times of last renewal are in the column `renewed_ms`."""

    files: tuple[PartFile, ...] = ()

    @property
    def rows(self) -> int:
        """Number of entries."""
        return sum(file.rows for file in self.files)


class FamilyState(WireModel):
    """One column family of one of Spark's own operators."""

    name: str
    key: JsonValue
    """Spark's schema of the column `key`, as JSON; `"binary"` if it holds a type that Parquet has no column for."""
    value: JsonValue
    """The same for `value`."""
    files: tuple[PartFile, ...] = ()


class StoreState(WireModel):
    """One state store of one of Spark's own operators."""

    name: str
    partition_key: JsonValue
    """Spark's schema of the column `partition_key`, by which rows are spread over partitions."""
    families: tuple[FamilyState, ...]


class OperatorState(WireModel):
    """The state of one operator: of ours with `states`, of Spark's own with `stores`."""

    uid: str
    operator_id: int
    name: str
    """Spark's name of the operator."""
    key_types: tuple[str, ...] = ()
    """Spark's types of the key columns; they decide the hash of a key. Empty if there is no state."""
    max_parallelism: int | None = None
    """Key groups when it was taken; any number may be chosen at the restore."""
    states: tuple[KeyedState, ...] = ()
    stores: tuple[StoreState, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether it is a keyed operator of ours."""
        return not self.stores

    @property
    def files(self) -> tuple[PartFile, ...]:
        """Every file of it."""
        families = (file for store in self.stores for family in store.families for file in family.files)
        return (*(file for state in self.states for file in state.files), *families)


class SourcePosition(WireModel):
    """Where a source stands."""

    name: str
    description: str
    offset: JsonValue = None
    """The source's own offset; absent if it had read nothing yet."""


class QueryDocument(StoredDocument):
    """`canonical/query.json`."""

    FORMAT: ClassVar = formats.CANONICAL_QUERY
    format_version: int = formats.CANONICAL_QUERY.writes

    uid: str
    batch_id: int
    sources: tuple[SourcePosition, ...] = ()
    operators: tuple[OperatorState, ...] = ()

    def operator(self, uid: str) -> OperatorState | None:
        """Return an operator's state by uid."""
        return next((one for one in self.operators if one.uid == uid), None)


def states_folder(operator_uid: str, state: str) -> str:
    """Return the folder of a keyed state, relative to the query's folder; the names of timers have a slash."""
    return f"{FOLDER}/{operator_uid}/states/{state.replace('/', '~')}"


def family_folder(operator_uid: str, number: int, store: str, family: str) -> str:
    """Return the folder of a column family; its number keeps names apart that differ in special characters only."""
    return f"{FOLDER}/{operator_uid}/families/{number:02d}-{_UNSAFE.sub('_', f'{store}-{family}')}"


def part_name(task: int, number: int) -> str:
    """Return the name of a part."""
    return f"part-{task:04d}-{number:05d}.parquet"


def is_canonical(path: str) -> bool:
    """Tell whether a file of a query belongs to the canonical part, and not to the engine or to a function."""
    return path.startswith(f"{FOLDER}/")
