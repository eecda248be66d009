"""What must be true whatever happened: judged from the bucket and the ledger, with nothing of the product but its formats.

At every effect: nobody deletes or overwrites what a newer driver wrote, and nobody completes a checkpoint or commits to a
sink without having looked for a newer epoch. At every moment: a reader of the files sink sees whole batches without a
gap and each row once. At rest: both sinks hold exactly the rows of the lineage that runs, the state is the
truth, and every completed snapshot has all its files.
"""

from __future__ import annotations

import functools
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as parquet
from faultrig import drivers, faults, fibers, truth
from statefulspark.checkpoint import catalog
from statefulspark.contract import layout, prepared
from statefulspark.contract.manifest import Manifest
from statefulspark.sinks.files import commits as files_commits
from statefulspark.storage.port import ObjectStore

_MANIFEST = re.compile(r"/(check|save)points/[^/]+/_metadata\.json$")
_COMMIT = re.compile(r"/_commits/\d+\.json$")
_ONCE = re.compile(r"/(offsets|commits)/\d+$|/epochs/\d+\.json$")


@dataclass
class Oracle:
    """Watches every effect, and judges the bucket when asked."""

    bucket: ObjectStore
    violations: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)
    """Keys that the scenario has damaged, so that their absence is nobody's fault."""
    overtaken: set[str] = field(default_factory=set)
    """Manifests that arrived after that of a later checkpoint: what only they need may have been pruned before."""

    def sees(self, process: faults.FaultyProcess, name: str, key: str, body: bytes = b"") -> None:
        """Judge an effect that is about to happen."""
        if name == "delete" and (_MANIFEST.search(key) or _COMMIT.search(key)):
            self._judge_delete(process, key)
        is_final = _MANIFEST.search(key) or _COMMIT.search(key) or _ONCE.search(key)
        if name == "write" and is_final and self.bucket.info(key) is not None:
            self.violations.append(f"{process.name} overwrites {key}")
        completes = _MANIFEST.search(key) or (_COMMIT.search(key) and b'"withdrawn":true' not in body)
        if name == "create" and completes and self.bucket.info(key) is None:
            self._judge_completion(process, key)
            self._note_if_overtaken(key)

    def _note_if_overtaken(self, key: str) -> None:
        found = re.search(r"^(.*/checkpoints)/(\d+)/_metadata\.json$", key)
        if found:
            later = [name for name in self.bucket.list_names(found[1]) if name.rstrip("/") > found[2]]
            self.overtaken |= {key} if later else set()

    def _judge_delete(self, process: faults.FaultyProcess, key: str) -> None:
        if self.bucket.info(key) is None or key in self.damaged:
            return
        body = self.bucket.read(key)
        epoch = int(json.loads(body)["epoch"])
        if epoch > process.epoch and not self._is_elsewhere(process, key):
            self.violations.append(f"{process.name} (epoch {process.epoch}) deletes {key} of epoch {epoch}")

    def _is_elsewhere(self, process: faults.FaultyProcess, key: str) -> bool:
        """Tell whether a file may be of another root, whose epochs are numbered on their own."""
        wish = getattr(process, "wish", None)
        return wish is None or not key.startswith((f"{wish.root}/", f"{wish.output}/"))

    def _judge_completion(self, process: faults.FaultyProcess, key: str) -> None:
        fiber = fibers.current()
        if fiber is None:
            return  # A request that was late: its sender has looked long ago.
        if not fiber.has_looked:
            self.violations.append(f"{process.name}/{fiber.name} creates {key} without a look at the fence")
        if _MANIFEST.search(key):
            fiber.has_looked = False

    # A reader of the files sink

    def visible(self, output: str, last_batch: int | None = None) -> list[truth.Row]:
        """Return what a reader of a files sink sees, in the order of batches, perhaps only up to one."""
        folder = self.bucket.child(output)
        shown = files_commits.read_commits(folder)
        kept = (commit for commit in shown if last_batch is None or commit.batch_id <= last_batch)
        return [row for commit in kept for row in self._rows(folder, commit)]

    def waiting(self, output: str, root: str, sink: str) -> set[truth.Row]:
        """Return the rows of the files that a query has prepared for a files sink, as far as its folder has them.

        A batch that ran twice has left files of the first time, too; its record names those of the last time.
        """
        folder, prefix = self.bucket.child(output), f"{root}/prepared/{sink}"
        rows = set[truth.Row]()
        for name in self.bucket.list_names(prefix):
            record = prepared.PreparedRecord.parse(self.bucket.read(f"{prefix}/{name}"), name)
            for file in files_commits.PreparedFiles.parse((record.transaction or "").encode(), name).files:
                rows |= set(_rows_in(folder.read(file.path))) if folder.info(file.path) is not None else set()
        return rows

    def _rows(self, folder: ObjectStore, commit: files_commits.BatchCommit) -> list[truth.Row]:
        rows: list[truth.Row] = []
        for file in commit.files:
            if folder.info(file.path) is None:
                self.violations.append(f"the commit of batch {commit.batch_id} names {file.path}, which does not exist")
                continue
            rows += _rows_in(folder.read(file.path))
        return sorted(rows)

    def judge_reader(self, output: str, base: int) -> None:
        """Check what holds at every moment: whole batches, no gap, each record once."""
        numbers = [number for number, _ in self.visible(output)]
        if numbers != list(range(base, base + len(numbers))):
            self.violations.append(f"a reader of {output} sees {_told(numbers)} instead of a stretch from {base}")

    # At rest

    def cut_of(self, root: str, generation: int, uid: str, batch: int) -> truth.Cut:
        return truth.read_cut(self.bucket, f"{root}/{layout.query_root(generation, uid)}", batch)

    def judge_files(self, output: str, cut: truth.Cut, base: int) -> None:
        """Check that the files sink shows exactly a cut, from its first record on."""
        self._compare(output, self.visible(output), [row for row in cut.rows if row[0] >= base])

    def judge_ledger(self, rows: Sequence[truth.Row], cut: truth.Cut, base: int) -> None:
        """Check that every row of a cut is there, and none twice; rows of futures that were left stay."""
        counts = Counter(rows)
        missing = [row for row in cut.rows if row[0] >= base and not counts[row]]
        repeated = [row for row, count in counts.items() if count > 1]
        if missing:
            self.violations.append(f"the ledger lacks {_told(missing)}")
        if repeated:
            self.violations.append(f"the ledger repeats {_told(repeated)}")

    def _compare(self, where: str, found: list[truth.Row], expected: list[truth.Row]) -> None:
        missing, superfluous = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        if missing:
            self.violations.append(f"{where} lacks {_told(missing)}")
        if superfluous:
            self.violations.append(f"{where} shows {_told(superfluous)} too much")

    def judge_state(self, name: str, cut: truth.Cut) -> None:
        if cut.problem:
            self.violations.append(f"{name} at batch {cut.batch}: {cut.problem}")

    def judge_snapshots(self, roots: Iterable[str], savepoints: Iterable[str]) -> None:
        """Check that every completed snapshot has all its files, as large as it says."""
        for root in roots:
            store = self.bucket.child(root)
            for name in store.list_names(layout.CHECKPOINTS):
                folder = f"{layout.CHECKPOINTS}/{name.rstrip('/')}"
                self._judge_snapshot(store, folder, below="")
        for uri in savepoints:
            self._judge_snapshot(self.bucket, uri.removeprefix(f"{faults.BUCKET}/"), below=None)

    def _judge_snapshot(self, store: ObjectStore, folder: str, below: str | None) -> None:
        key = f"{folder}/_metadata.json"
        if (
            f"{store.uri}/{key}".removeprefix(f"{faults.BUCKET}/") in self.damaged | self.overtaken
            or store.info(key) is None
        ):
            return
        for path, size_bytes in _files(catalog.read_manifest(store, folder)):
            where = path if below is not None else f"{folder}/{path}"
            full = f"{store.uri}/{where}".removeprefix(f"{faults.BUCKET}/")
            info = store.info(where)
            if full not in self.damaged and (info is None or info.size_bytes != size_bytes):
                self.violations.append(f"{store.uri}/{folder} needs {where}, which is not there any more")


@functools.lru_cache(maxsize=1024)
def _rows_in(body: bytes) -> tuple[truth.Row, ...]:
    """Return the rows of a file, which a life asks for again and again."""
    table = parquet.read_table(io.BytesIO(body))
    return tuple(zip(table["number"].to_pylist(), table["place"].to_pylist(), strict=True))


def expected_batches(driver: drivers.Driver) -> dict[str, int]:
    """Return the batches that a driver's newest checkpoint covers."""
    latest = driver.last_checkpoint
    return dict(latest.batches) if latest else {}


def _files(manifest: Manifest) -> Iterable[tuple[str, int]]:
    return [(f"{query.path}/{file.path}", file.size_bytes) for query in manifest.queries for file in query.files]


def _told(found: Iterable[object]) -> str:
    listed = list(found)
    return f"{len(listed)} ({', '.join(map(str, listed[:6]))}{', ...' if len(listed) > 6 else ''})"
