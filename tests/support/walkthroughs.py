"""How many files a maintainer opens to follow one row, one checkpoint, and one change of a spec.

A module counts if one of its functions is called meanwhile. Spark, Kubernetes and storage are simulated, so Spark's side of
a row is missing: it begins at a keyed function and ends in the files sink.

    PYTHONPATH=tests/support python -m walkthroughs
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import drivenjob
import pyarrow as pa
import sinkcontexts
import snapshots
import statefulspark as ss
from jobworld import JobWorld
from machines import files_sink
from statefulspark import testing
from statefulspark.contract import api
from statefulspark.storage import StorageOptions
from statefulspark_operator.api.status import Phase

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "jobruntime" / "src", ROOT / "operator" / "src")


class Tracer:
    """Notes the product's modules whose functions are called, in this thread and in those that start later."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._is_noting = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[Tracer]:
        """See calls while the block runs; `noting` says which of them count."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Count the calls in the block."""
        self._is_noting = True
        yield
        self._is_noting = False

    @property
    def modules(self) -> list[str]:
        """Modules below the sources, without what exists for tests."""
        files = {Path(file) for file in self._files}
        names = (str(file.relative_to(root)) for file in files for root in SOURCES if file.is_relative_to(root))
        return sorted(name for name in names if "/testing/" not in name)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._is_noting and frame.f_code.co_name != "<module>":
            self._files.add(frame.f_code.co_filename)


class _Totals(ss.KeyedProcessFunction):
    def open(self, ctx: ss.KeyedContext) -> None:
        self.total = ctx.value_state("total", int)

    def process(self, key: object, rows: object, ctx: ss.KeyedContext) -> Iterator[tuple[object, int]]:
        self.total.update((self.total.get() or 0) + sum(row.amount for row in rows))  # type: ignore[attr-defined]
        yield key, self.total.get()


def follow_row(tracer: Tracer) -> None:
    """Pass a row through a keyed function, and commit what it gives to the files sink."""
    with tempfile.TemporaryDirectory() as folder:
        sink, local = files_sink(f"file://{folder}/out"), StorageOptions(allow_local_files=True)
        uris = {"staging_uri": f"file://{folder}/state/q", "notes_uri": f"file://{folder}/state/notes"}
        context = sinkcontexts.a_sink_context(options=local, **uris)
        harness = testing.KeyedHarness(_Totals(), key="customer")
        sink.open(context)
        with tracer.noting():
            harness.feed({"customer": "ada", "amount": 2})
            part = sink.write_part(iter([pa.RecordBatch.from_pydict({"customer": ["ada"], "total": [2]})]), context)
            assert part is not None
            transaction = sink.prepare((part,), context)
            assert transaction is not None
            sink.commit(transaction, context)


def follow_checkpoint(tracer: Tracer) -> None:
    """Take a checkpoint of two queries in a running driver."""
    job = snapshots.Job()
    with drivenjob.running(drivenjob.DrivenJob(job, drivenjob.new_roots(job))) as driver:
        driver.turns(3)
        with tracer.noting():
            driver.loop.request_checkpoint(api.CheckpointRequest(request_id="followed"))
            operation = driver.ended_operation("followed")
        assert operation.state is api.OperationState.COMPLETED


def follow_change(tracer: Tracer) -> None:
    """Change the image of a running job, until the new revision runs."""
    world = JobWorld()
    world.change({"upgrade": {"strategy": "Warm"}})
    world.run_until(lambda: world.status.phase is Phase.RUNNING and world.status.last_checkpoint is not None)
    before = world.status.revision
    with tracer.noting():
        world.change({"image": "registry.example/flights:2"})
        world.run_until(lambda: world.status.revision != before and world.status.phase is Phase.RUNNING, within_s=600)


WALKTHROUGHS: dict[str, Callable[[Tracer], None]] = {
    "a row": follow_row,
    "a checkpoint": follow_checkpoint,
    "a change of the spec": follow_change,
}


def main() -> None:
    """Print the number of modules of each walkthrough."""
    parser = argparse.ArgumentParser(prog="walkthroughs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the modules, as JSON")
    as_json = parser.parse_args().json
    followed = {}
    for name, follow in WALKTHROUGHS.items():
        with Tracer().installed() as tracer:
            follow(tracer)
        followed[name] = tracer.modules
    if as_json:
        print(json.dumps(followed, indent=2))
        return
    for name, modules in followed.items():
        print(f"{name:21} {len(modules):>3} modules")


if __name__ == "__main__":
    main()
