"""An Iceberg table on a local folder, and a sink in front of it that reaches it through one kind of catalog."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import icebergcatalog
import pyarrow as pa
import sinkcontexts
from machines import iceberg_sink
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.iceberg import datafiles

SCHEMA = pa.schema([("id", pa.int64())])
CATALOGS: Mapping[str, type[Catalog]] = {"rest": RestCatalog, "sql": SqlCatalog}
FILES = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}


class Shop:
    """A table `shop.orders` on a local folder, and a sink in front of it.

    Attributes:
        sink: The sink, which reaches the table through `kind`.
        gateway: What is between the sink and a REST catalog.
    """

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        self._folder = folder
        settings = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.catalog = load_catalog("default", type="sql", **settings, **FILES)
        stack.callback(self.catalog.close)
        self.catalog.create_namespace("shop")
        self.catalog.create_table("shop.orders", SCHEMA)
        endpoint = stack.enter_context(icebergcatalog.rest_catalog(self.catalog))
        self.gateway, url = stack.enter_context(icebergcatalog.gateway_to(endpoint))
        reached = {"type": "rest", "uri": url} if kind == "rest" else {"type": "sql", **settings}
        self.sink = iceberg_sink("shop.orders", catalog=reached)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.orders")

    def read(self) -> list[int]:
        return sorted(self.table.scan().to_arrow().column("id").to_pylist())

    def stored(self) -> set[str]:
        """Return the names of the table's files."""
        return {path.name for path in self._folder.rglob("*") if path.suffix in (".avro", ".json", ".parquet")}

    def at(self, batch_id: int, epoch: int = 1) -> SinkContext:
        return sinkcontexts.a_sink_context(batch_id=batch_id, epoch=epoch)

    def prepared(self, batch_id: int, *ids: int) -> bytes:
        rows = pa.RecordBatch.from_pydict({"id": list(ids)}, schema=SCHEMA)
        part = self.sink.write_part(iter([rows]), self.at(batch_id))
        assert part is not None
        transaction = self.sink.prepare((part,), self.at(batch_id))
        assert transaction is not None
        return transaction

    def files_of(self, transaction: bytes) -> tuple[str, ...]:
        """Return the paths of a prepared batch."""
        return tuple(file.path for file in datafiles.WrittenFiles.parse(transaction, "the test").files)

    def commit(self, batch_id: int, *ids: int) -> None:
        self.sink.commit(self.prepared(batch_id, *ids), self.at(batch_id))
