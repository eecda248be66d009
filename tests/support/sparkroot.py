"""Checkpoint roots as Spark writes them, without Spark: the same names, formats and order of writes.

Each batch writes offsets, then the changelogs of every attempt, then the commit, which says which attempt won. State
snapshots are uploaded when the test says so, some batches later, as Spark's maintenance does; they share SST files.
"""

from __future__ import annotations

import io
import json
import random
import uuid
import zipfile
from dataclasses import dataclass, field

import google_crc32c
from statefulspark.contract import layout
from statefulspark.storage.port import ObjectStore


@dataclass
class FakeQuery:
    """One query with one keyed operator of ours; from a given batch if its root was restored."""

    store: ObjectStore
    generation: int = 1
    uid: str = "delays"
    operator_uid: str = "mean"
    partitions: int = 2
    stores: tuple[str, ...] = ("default",)
    seed: int = 1
    batch: int = -1
    ids: dict[int, dict[str, list[list[str]]]] = field(default_factory=dict)
    ssts: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    sst_bytes: int = 200
    step: int = 100

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} {self.generation} {self.uid}")

    @property
    def path(self) -> str:
        return layout.query_root(self.generation, self.uid)

    def begin(self) -> None:
        """Write what Spark writes before the first batch."""
        self._put("metadata", json.dumps({"id": self._uuid()}).encode())
        schema = f"state/0/_stateSchema/default/0_{self._uuid()}"
        self._put(schema, b"schema")
        stores = [
            {
                "storeName": name,
                "numColsPrefixKey": 0,
                "numPartitions": self.partitions,
                "stateSchemaFilePaths": [f"s3a://somewhere/{self.path}/{schema}"],
            }
            for name in self.stores
        ]
        variables = json.dumps({"stateVariables": [{"stateName": f"head_{self.operator_uid}"}]})
        info = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
        body = {"operatorInfo": info, "stateStoreInfo": stores, "operatorPropertiesJson": variables}
        self._put("state/0/_metadata/v2/0", f"v2\n{json.dumps(body)}".encode())

    def plan_batch(self) -> int:
        """Write the offsets of the next batch, as Spark does before running it."""
        number = self.batch + 1
        if number == 0:
            self.begin()
        self._put(f"offsets/{number}", f'v1\n{{"batchWatermarkMs":0}}\n{{"offset":{number * self.step}}}'.encode())
        return number

    def attempt(self, number: int) -> list[list[str]]:
        """Write one attempt's changelogs and return its unique ids."""
        ids = [[self._uuid() for _ in self.stores] for _ in range(self.partitions)]
        for partition, row in enumerate(ids):
            for index, unique_id in enumerate(row):
                self._put_guarded(f"{self._folder(partition, index)}/{number + 1}_{unique_id}.changelog", self._bytes())
        return ids

    def run_batch(self, *, failed_attempts: int = 0) -> int:
        """Run a batch to its commit; return its number."""
        number = self.plan_batch()
        for _ in range(failed_attempts):
            self.attempt(number)
        self.finish_batch(number, {"0": self.attempt(number)})
        return number

    def finish_batch(self, number: int, ids: dict[str, list[list[str]]]) -> None:
        """Commit a batch: say which attempt won."""
        self.ids[number] = ids
        self._put(f"commits/{number}", f"v2\n{json.dumps({'nextBatchWatermarkMs': 0, 'stateUniqueIds': ids})}".encode())
        self.batch = number

    def upload_snapshots(self, batch: int | None = None, *, kept_ssts: int = 1) -> None:
        """Upload the state snapshots of a batch: new SST files, then the archive that also names older ones."""
        number = self.batch if batch is None else batch
        self.upload_ssts(number, kept_ssts=kept_ssts)
        self.finish_upload(number)

    def upload_ssts(self, number: int, *, kept_ssts: int = 1) -> None:
        """Begin an upload: the new SST files, which no archive names yet."""
        for partition, row in enumerate(self.ids[number]["0"]):
            for index in range(len(row)):
                folder = self._folder(partition, index)
                name, body = f"00000{number}-{self._uuid()}.sst", self._bytes(self.sst_bytes)
                self._put_guarded(f"{folder}/SSTs/{name}", body)
                names = [*self.ssts.get(folder, [])[-kept_ssts:], (name, len(body))]
                self.ssts[folder] = names

    def finish_upload(self, number: int) -> None:
        """Finish an upload: the archives."""
        for partition, row in enumerate(self.ids[number]["0"]):
            for index, unique_id in enumerate(row):
                folder = self._folder(partition, index)
                self._put_guarded(f"{folder}/{number + 1}_{unique_id}.zip", _archive(self.ssts[folder]))

    def continue_in(self, generation: int, batch: int) -> FakeQuery:
        """Return the query as Spark would go on with it after a restore into another generation."""
        return FakeQuery(
            self.store,
            generation,
            self.uid,
            self.operator_uid,
            self.partitions,
            self.stores,
            self.seed + 1,
            batch,
            {number: ids for number, ids in self.ids.items() if number <= batch},
            {},
        )

    def _folder(self, partition: int, index: int) -> str:
        name = self.stores[index]
        return f"state/0/{partition}" + ("" if name == "default" else f"/{name}")

    def _put_guarded(self, name: str, body: bytes) -> None:
        checksum = {"algorithm": "CRC32C", "value": google_crc32c.value(body), "mainFileSize": len(body)}
        self._put(f"{name}.crc", json.dumps(checksum).encode())
        self._put(name, body)

    def _put(self, name: str, body: bytes) -> None:
        self.store.write(f"{self.path}/{name}", body)

    def _bytes(self, size_bytes: int = 40) -> bytes:
        return self._random.randbytes(size_bytes)

    def _uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16)))


def _archive(ssts: list[tuple[str, int]]) -> bytes:
    files = [{"localFileName": f"{name[:6]}.sst", "dfsSstFileName": name, "sizeBytes": size} for name, size in ssts]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps({'sstFiles': files, 'numKeys': 1})}")
        archive.writestr("CURRENT", "MANIFEST-000001")
    return buffer.getvalue()
