"""State of every kind goes on with another release of Spark, and back: each start is a driver of its own, on one folder.

`make compat` runs this, which has an environment for each release. Its two runs together try every pair.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import pyarrow as pa
import pytest
import statekinds
from pyarrow import parquet
from statefulspark import storage
from statefulspark.cli import main
from statefulspark.contract import layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.sinks.files import commits
from statefulspark.sparkinternals import releases

SPARKS = os.environ.get("STATEFULSPARK_TEST_SPARKS")
"""A folder with an environment for each release: `4.1`, `4.2`, `4.3`."""
pytestmark = [pytest.mark.spark, pytest.mark.skipif(SPARKS is None, reason="the other releases are in `make compat`")]

PATHS = {
    "4.1": ("4.1", "4.2", "4.3", "4.1"),
    "4.2": ("4.2", "4.3", "4.1", "4.2"),
    "4.3": ("4.3", "4.2", "4.1", "4.3"),
}
"""By installed release: where its state goes. Those of 4.1 and 4.3 together have every pair, up and down."""
KILLED_AT = 1
"""The start that is killed while its second batch runs, which the next one completes."""
LIST_FORMAT = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
KEY_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_SCHEMA = pa.schema([("value", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


class Crossing:
    """One job on one folder, whose starts have different releases of Spark."""

    def __init__(self, folder: Path) -> None:
        """Begin without rows."""
        self.folder = folder
        self.batches = 0
        for name in ("input", "output"):
            (folder / name).mkdir()

    def driver(
        self, release: str, *flags: str, job: Path = statekinds.JOB, state: str = "state", restore: str | None = None
    ) -> driverprocess.Driver:
        return driverprocess.Driver(
            job,
            (self.folder / state).as_uri(),
            self.folder / f"{state}-{release}.log",
            *(("--restore-uri", restore) if restore is not None else ()),
            *("--allow-local-files", "--parameter", f"input={(self.folder / 'input').as_uri()}"),
            *("--parameter", f"output={(self.folder / 'output').as_uri()}", "--master", "local[2]"),
            *("--checkpoint-interval", "1s", "--checkpoint-min-pause", "100ms"),
            *("--conf", "spark.sql.shuffle.partitions=1"),
            # State is read from snapshots, as well as from the changes after them.
            *("--conf", "spark.sql.streaming.stateStore.minDeltasForSnapshot=1"),
            *("--conf", "spark.sql.streaming.stateStore.maintenanceInterval=1s"),
            *flags,
            python=f"{SPARKS}/{release}/bin/python",
        )

    def feed(self) -> None:
        """Give every query the rows of the next batch."""
        rows = pa.Table.from_pylist(statekinds.rows_of(self.batches), schema=_SCHEMA)
        hidden = self.folder / "input" / f"_{self.batches}.parquet"
        parquet.write_table(rows, hidden)
        os.utime(hidden, (1_700_000_000 + self.batches,) * 2)  # Spark reads files in the order of their times.
        hidden.rename(self.folder / "input" / f"{self.batches}.parquet")
        self.batches += 1

    def shown(self) -> dict[str, list[tuple[int, int]]]:
        """Return the rows (k, n) that a reader of each query's sink sees, sorted."""
        return {uid: sorted(_shown(self.folder / "output" / uid)) for uid in statekinds.expected(0)}

    @property
    def stored(self) -> list[Path]:
        """Every file of the job, but for the epochs that its starts have claimed."""
        return sorted(path for path in (self.folder / "state").rglob("*") if "epochs" not in path.parts)

    def is_planned(self, state: str = "state") -> bool:
        """Whether a query has planned the newest batch."""
        return any((self.folder / state).rglob(f"offsets/{self.batches - 1}"))


@pytest.fixture
def crossing(tmp_path: Path) -> Iterator[Crossing]:
    yield Crossing(tmp_path)
    for log in sorted(tmp_path.glob("*.log")):
        print(log.read_text()[-6000:])


def test_state_of_every_kind_goes_on_with_other_releases_and_back(crossing: Crossing) -> None:
    for start, release in enumerate(PATHS[releases.text(releases.installed())]):
        driver = crossing.driver(release)
        try:
            driver.start()
            # A source that was killed after it had noted a file, and before the batch was planned, puts the next file into
            # the same batch. So the rows of the killed batch come first.
            driver.until(lambda: crossing.shown() == statekinds.expected(crossing.batches), f"{release} shows old rows")
            crossing.feed()
            driver.until(lambda: crossing.shown() == statekinds.expected(crossing.batches), f"{release} shows all rows")
            if start == KILLED_AT:
                crossing.feed()
                driver.until(crossing.is_planned, "it has planned a batch")
            else:
                assert driver.drains() == ExitCode.SUCCESS
        finally:
            driver.stop()


@pytest.mark.skipif(releases.installed() != (4, 1), reason="the other run does not need to try it again")
def test_lists_in_a_form_that_4_1_does_not_know_are_refused_by_it(crossing: Crossing) -> None:
    job = statekinds.version(1, "lists-of-spark", crossing.folder)
    crossing.feed()
    newer = crossing.driver("4.2", "--conf", f"{LIST_FORMAT}=2", job=job)
    try:
        newer.start()
        newer.until(lambda: bool(crossing.shown()["lists-of-spark"]), "it shows rows")
        assert newer.drains() == ExitCode.SUCCESS
    finally:
        newer.stop()
    before = crossing.stored

    older = crossing.driver("4.1", job=job)
    older.start()
    assert older.ends() == ExitCode.INCOMPATIBLE_STATE
    assert "has list elements without a comma between them, which began with Spark 4.2" in older.output
    assert crossing.stored == before


@pytest.mark.skipif(releases.installed() != (4, 3), reason="only 4.3 writes this form")
def test_keys_in_an_order_of_4_3_are_refused_by_4_2_and_go_on_with_4_3_from_a_canonical_savepoint(
    crossing: Crossing,
) -> None:
    native = begin(crossing, "deduplication", f"{KEY_ORDER}=true")
    canonical = (crossing.folder / "canonical").as_uri()
    assert main.main(["savepoint", "convert", native, canonical, "--allow-local-files"]) == ExitCode.SUCCESS
    for number, snapshot in enumerate((native, canonical)):
        refused = refusal(crossing, "deduplication", f"older-{number}", snapshot)
        assert "has the columns of a key in the order in which they were named, which began with Spark 4.3" in refused

    job = statekinds.version(1, "deduplication", crossing.folder)
    restored = crossing.driver("4.3", job=job, state="restored", restore=canonical)
    try:
        restored.start()
        crossing.feed()
        restored.until(lambda: crossing.is_planned("restored"), "4.3 goes on")
        assert restored.drains() == ExitCode.SUCCESS
    finally:
        restored.stop()
    assert crossing.shown()["deduplication"] == statekinds.expected(3)["deduplication"]


@pytest.mark.skipif(releases.installed() != (4, 3), reason="only 4.3 writes this form")
def test_a_join_by_time_is_refused_wherever_spark_would_get_it_wrong(
    crossing: Crossing, capsys: pytest.CaptureFixture[str]
) -> None:
    native = begin(crossing, "join", f"{JOIN_FORMAT}=4", f"{LIST_FORMAT}=2")
    assert "has the rows of a join by their times, which began with" in refusal(crossing, "join", "older", native)

    canonical = (crossing.folder / "canonical").as_uri()
    assert main.main(["savepoint", "convert", native, canonical, "--allow-local-files"]) != ExitCode.SUCCESS
    assert "which Spark cannot write from Parquet. Take a native savepoint." in capsys.readouterr().err

    job = statekinds.version(1, "join", crossing.folder)
    spread = crossing.driver("4.3", "--conf", "spark.sql.shuffle.partitions=2", job=job)
    spread.start()
    assert spread.ends() == ExitCode.INCOMPATIBLE_STATE
    assert "which Spark cannot spread over another number of partitions" in spread.output


def begin(crossing: Crossing, kind: str, *settings: str) -> str:
    """Run a query on 4.3 for two batches, and return the URI of its last checkpoint."""
    job = statekinds.version(1, kind, crossing.folder)
    crossing.feed()
    crossing.feed()
    driver = crossing.driver("4.3", *(flag for setting in settings for flag in ("--conf", setting)), job=job)
    try:
        driver.start()
        driver.until(lambda: crossing.shown()[kind] == statekinds.expected(2)[kind], "4.3 shows rows")
        driver.until(crossing.is_planned, "4.3 has planned both batches")
        assert driver.drains() == ExitCode.SUCCESS
    finally:
        driver.stop()
    manifests = (crossing.folder / "state").rglob(layout.MANIFEST_NAME)
    return max(manifests, key=lambda path: path.stat().st_mtime_ns).parent.as_uri()


def refusal(crossing: Crossing, kind: str, state: str, snapshot: str) -> str:
    """Start a new root from a snapshot with 4.2, and return what it prints after it has refused that."""
    older = crossing.driver("4.2", job=statekinds.version(1, kind, crossing.folder), state=state, restore=snapshot)
    older.start()
    assert older.ends() == ExitCode.INCOMPATIBLE_STATE
    assert not list((crossing.folder / state).rglob("offsets"))
    return older.output


def _shown(folder: Path) -> Iterator[tuple[int, int]]:
    if folder.is_dir():
        store = storage.open_store(folder.as_uri(), storage.StorageOptions(allow_local_files=True))
        for part in (part for batch in commits.read_commits(store) for part in batch.files):
            for row in parquet.read_table(folder / part.path).to_pylist():
                yield row["k"], row["n"]
