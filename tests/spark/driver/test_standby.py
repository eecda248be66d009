"""A standby beside a running driver, both whole processes: a death, and another one with a changed plan."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import driverprocess
import pyarrow as pa
import pytest
from pyarrow import parquet
from statefulspark import storage
from statefulspark.contract import api
from statefulspark.sinks.files import commits as files_commits

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("standby_job.py")
DRAINED = 0


def runs_job(driver: driverprocess.Driver) -> None:
    """Wait until it is the driver, and its queries run."""
    driver.until(lambda: driver.status.state is api.JobState.RUNNING, "it is the driver")


class World:
    """One job on local storage, its driver and its standbys."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.fed, self._made = folder, 0, list[driverprocess.Driver]()
        self.input, self.state, self.output = folder / "input", folder / "state", folder / "out"
        self.input.mkdir()
        self.driver = self.process("driver")

    def process(self, name: str, version: str = "good") -> driverprocess.Driver:
        made = driverprocess.Driver(
            JOB,
            self.state.as_uri(),
            self._folder / f"{name}.log",
            *("--allow-local-files", "--checkpoint-interval", "1s", "--conf", "spark.sql.shuffle.partitions=2"),
            *("--parameter", f"input={self.input}", "--parameter", f"output={self.output.as_uri()}"),
            *("--parameter", f"version={version}"),
        )
        self._made.append(made)
        return made

    def standby(self, name: str = "standby", version: str = "good") -> driverprocess.Driver:
        made = self.process(name, version)
        made.start("--standby")
        return made

    def feed(self, *keys: str) -> None:
        self.fed += len(keys)
        part = self._folder / "part.parquet"
        parquet.write_table(pa.table({"key": pa.array(keys, pa.string())}), part)
        os.utime(part, (1_600_000_000 + self.fed,) * 2)
        part.rename(self.input / f"{self.fed:06}.parquet")

    def runs(self) -> None:
        """Start the driver, and wait until what there is is visible."""
        self.driver.start()
        self.driver.until(lambda: self.driver.is_up, "it is up")
        self.is_visible(self.driver)

    def is_visible(self, by: driverprocess.Driver) -> None:
        """Wait until every row that was fed has been counted once, and never more."""
        try:
            by.until(lambda: len(self.rows()) >= self.fed, f"{self.fed} rows are visible")
        finally:
            print("visible:", sorted(self.rows()))
        assert sorted(self.rows()) == sorted(self.expected())

    def expected(self) -> list[tuple[str, int]]:
        """Every file has one row of each key."""
        files = sorted(self.input.glob("*.parquet"))
        keys = [key for file in files for key in parquet.read_table(file)["key"].to_pylist()]
        return [(key, keys[: index + 1].count(key)) for index, key in enumerate(keys)]

    def rows(self) -> list[tuple[str, int]]:
        if not self.output.exists():
            return []
        reader = storage.open_store(self.output.as_uri(), storage.StorageOptions(allow_local_files=True))
        tables = [
            parquet.read_table(io.BytesIO(reader.read(file.path)))
            for commit in files_commits.read_commits(reader)
            for file in commit.files
        ]
        return [(str(row["key"]), int(row["seen"])) for table in tables for row in table.to_pylist()]

    def generations(self) -> list[str]:
        return sorted(path.name for path in self.state.glob("*/*/generations/*"))

    def stop(self) -> None:
        for process in self._made:
            process.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.stop()


def test_standbys_take_over_from_drivers_that_are_killed_in_place_and_with_a_changed_plan_and_repeat_nothing(
    world: World,
) -> None:
    world.input.with_name("input-more").mkdir()
    world.feed("a", "b")
    world.runs()
    standby = world.standby()
    ready = standby.stands(api.StandbyState.READY)
    world.feed("a", "c")
    world.driver.stop(signal.SIGKILL)
    world.feed("b", "c")

    accepted = standby.activate(2)
    runs_job(standby)
    world.is_visible(standby)

    assert (ready.warmed_queries, (ready.compared_with or "").startswith("checkpoint")) == (("counts",), True)
    assert '"rehearsed on state", "query": "counts", "has_run": true' in standby.output
    assert (accepted[0], accepted[1]["kind"]) == (202, "Activation")
    assert (standby.status.epoch, standby.status.standby) == (2, None)
    assert world.generations() == ["00000001"]

    changed = world.standby("changed", version="more")
    changed.stands(api.StandbyState.READY)
    (ahead,) = world.state.glob("*/*/generations/00000002")
    carried = [file for file in ahead.glob("counts/state/**/*") if file.is_file()]
    is_in_use = (ahead / "generation.json").exists()
    world.feed("a", "c")
    world.is_visible(standby)
    standby.stop(signal.SIGKILL)
    world.feed("b", "c")

    assert changed.activate(3)[0] == 202
    runs_job(changed)
    world.is_visible(changed)

    assert (carried != [], is_in_use) == (True, False)
    assert '"state that was carried ahead is taken"' in changed.output
    assert (ahead / "generation.json").exists()
    assert world.generations() == ["00000001", "00000002"]
    changed.terminate()
    assert changed.ends() == DRAINED, changed.tail
