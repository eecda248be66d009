"""The document `canonical/query.json`, which describes the state of a query in a canonical savepoint: names and sizes only.

```
<savepoint>/files/<query uid>/
  metadata  offsets/…  commits/…  sources/…  state/<op>/_metadata/…     the engine's small files, unchanged
  operator-state/…  prepared/…                                           batch records, unchanged
  canonical/query.json                                                    this document
  canonical/<operator uid>/states/<state>/part-….parquet                  state of a keyed operator of this runtime
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
"""Folder of all files that are not the engine's, below a query's folder."""
QUERY_DOCUMENT = f"{FOLDER}/query.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class ParquetFile(WireModel):
    """One Parquet file."""

    path: str
    """Relative to the query's folder."""
    rows: int = Field(ge=0)
    size_bytes: int = Field(ge=0)
    sha256: str


class KeyedState(KeyedStateEntry):
    """One state of a keyed operator of this runtime; times of last renewal are in the column `renewed_ms`."""

    files: tuple[ParquetFile, ...] = ()

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
    files: tuple[ParquetFile, ...] = ()


class StoreState(WireModel):
    """One state store of one of Spark's own operators."""

    name: str
    partition_key: JsonValue
    """Spark's schema of the column `partition_key`, by which rows are spread over partitions."""
    families: tuple[FamilyState, ...]


class CanonicalOperator(WireModel):
    """The state of one operator: a keyed operator of this runtime has `states`, one of Spark's own has `stores`."""

    uid: str
    operator_id: int
    name: str
    """Spark's name for the operator."""
    key_types: tuple[str, ...] = ()
    """Spark's types of the key columns; they decide the hash of a key. Empty if there is no state."""
    max_parallelism: int | None = None
    """Number of key groups when it was taken; a restore may choose any number."""
    states: tuple[KeyedState, ...] = ()
    stores: tuple[StoreState, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether it is a keyed operator of this runtime."""
        return not self.stores

    @property
    def files(self) -> tuple[ParquetFile, ...]:
        """All its files."""
        families = (file for store in self.stores for family in store.families for file in family.files)
        return (*(file for state in self.states for file in state.files), *families)


class SourcePosition(WireModel):
    """Position of a source."""

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
    operators: tuple[CanonicalOperator, ...] = ()

    def operator(self, uid: str) -> CanonicalOperator | None:
        """Return an operator's state by uid."""
        return next((operator for operator in self.operators if operator.uid == uid), None)


def states_folder(operator_uid: str, state: str) -> str:
    """Return the folder of a keyed state, relative to the query's folder; a slash in the name (timers) is replaced."""
    return f"{FOLDER}/{operator_uid}/states/{state.replace('/', '~')}"


def family_folder(operator_uid: str, number: int, store: str, family: str) -> str:
    """Return the folder of a column family; the number distinguishes names that differ only in special characters."""
    return f"{FOLDER}/{operator_uid}/families/{number:02d}-{_UNSAFE.sub('_', f'{store}-{family}')}"


def part_name(task: int, number: int) -> str:
    """Return the name of a part."""
    return f"part-{task:04d}-{number:05d}.parquet"


def is_canonical(path: str) -> bool:
    """Tell whether a file of a query is canonical, and not a file of the engine or of a function."""
    return path.startswith(f"{FOLDER}/")
