"""What snapshots cost in requests to a real S3 server: counted by the server."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import s3server
from manifests import a_manifest
from sparkroot import FakeQuery
from statefulspark import storage
from statefulspark.checkpoint import catalog, closure, epochs, verify
from statefulspark.contract.config import RestoreConfig
from statefulspark.recovery import recovery, restore
from statefulspark.recovery.plan import Author
from statefulspark.retention import pruning, rules
from statefulspark.storage.port import ObjectStore

pytestmark = pytest.mark.s3

_OPERATION = re.compile(r" s3_(\w+) ")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Meter:
    """Counts the requests that a call makes."""

    def __init__(self, server: s3server.S3Server, store: ObjectStore) -> None:
        self._server = server
        self._store = store
        self._marker = 0

    def requests(self, call: Callable[[], object]) -> Counter[str]:
        """Return how many requests of each method a call made; markers in the log delimit them."""
        begin = self._mark()
        call()
        end = self._mark()
        lines = self._server.requests()
        first, last = (next(i for i, line in enumerate(lines) if marker in line) for marker in (begin, end))
        operations = [_OPERATION.search(line) for line in lines[first:last] if "marker-" not in line]
        return Counter(operation.group(1) for operation in operations if operation)

    def _mark(self) -> str:
        self._marker += 1
        name = f"marker-{self._marker:04d}-end"
        self._store.info(name)
        deadline_s = time.monotonic() + 10
        while not any(name in line for line in self._server.requests()) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return name


def test_requests_per_operation(tmp_path: Path) -> None:
    with s3server.running(tmp_path) as server:
        store = storage.open_store(f"s3://{server.new_bucket()}/default/flights", server.options())
        meter = Meter(server, store)
        epochs.claim(store, assigned=None, holder="pod", claim_id="start", now=NOW)
        author = Author("default", "flights", 1, NOW)
        wish = RestoreConfig()
        plan = recovery.plan_recovery(store, restore=wish)
        restore.carry_out(store, restore.settle(store, plan, author), author)
        query = FakeQuery(store)
        closer = closure.ClosureBuilder(store, query.path)
        for _ in range(6):
            query.run_batch()
        query.upload_snapshots(3)
        closer.close_over(5)
        query.run_batch()

        seen = {
            "closure of the next batch": meter.requests(lambda: closer.close_over(6)),
            "closure without memory": meter.requests(lambda: closure.close_over(store, query.path, 6)),
        }
        entry = closer.close_over(6)
        manifest = a_manifest(1, [entry], claim="start", now=NOW)
        seen["manifest"] = meter.requests(lambda: catalog.write_checkpoint(store, manifest))
        seen["verify"] = meter.requests(lambda: verify.verify(store, manifest))
        seen["list of snapshots"] = meter.requests(lambda: catalog.list_snapshots(store))
        seen["plan of a start"] = meter.requests(lambda: recovery.plan_recovery(store, restore=wish))
        policy = rules.PrunePolicy(1, timedelta(seconds=1))
        seen["prune"] = meter.requests(lambda: pruning.run(store, policy, NOW))

    totals = {what: sum(counts.values()) for what, counts in seen.items()}
    assert totals == {
        "closure of the next batch": 3,  # LIST; GET commit, offsets
        # LIST; GET 4 commits, 2 offsets, metadata, operator and schema, 2 state snapshots
        "closure without memory": 12,
        "manifest": 1,
        "verify": 10,  # LIST; GET 4 commits, 2 offsets, metadata, operator and schema, several at a time
        "list of snapshots": 2,
        # LIST 6 for the root, 1 for the generation in use; GET manifest, generation, epoch, 9 small files to verify;
        # HEAD next number of generations, lineages, epochs and commits, and the next 8 checkpoints
        "plan of a start": 32,
        # LIST files, 2 for snapshots, generations; GET manifest, generation; HEAD 2 marks that are absent; PUT
        "prune": 9,
    }
