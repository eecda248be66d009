"""Plain PySpark under load: started again whenever it ends, and by a person when it cannot go on by itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import driverprocess
import psycopg
import pyarrow.parquet
from load import compare, outputs, truth

from faults import row, s3proxy
from faults.loaded import ANY_QUERY, LoadedWorld, ScenarioError
from faults.plain import driver as drivers
from faults.plain import files

CAREFUL = "windows, careful"
_QUIET_S = 25.0
_SETTLES_WITHIN_S = 600.0
_TERMINATED_WITHIN_S = 30.0
_SAME_ENDS = 2
"""So many ends in a row with one error, when no fault is left, and a person has to look."""


class PlainWorld(LoadedWorld):
    """The plain job, its input, its drivers and what they leave behind."""

    committed = rf"/checkpoints/{ANY_QUERY}/commits/\d+$"
    queries = ("ledger", "windows", "replaced", "confirmed")
    tables = (
        "CREATE TABLE windows (key text, begin_ms bigint, events bigint, total bigint, largest bigint)",
        "CREATE TABLE replaced (key text, begin_ms bigint, events bigint, total bigint, largest bigint, batch_id bigint)",
    )

    def begin_act(self) -> None:
        """Note what the figures of the next fault are counted from."""
        super().begin_act()
        self._stuck, self._was_stuck, self._person = "", "", ""
        self._ends: list[tuple[float, str]] = []
        self._repeats_before = self._repeats()

    def new_driver(self, proxy: s3proxy.S3Proxy) -> drivers.PlainDriver:
        """Make a driver that reaches the store by a proxy; nothing is started."""
        places = {
            "brokers": self.places.servers,
            "events": self.places.events,
            "rows": self.places.rows,
            "confirmations": self.places.confirmations.as_uri(),
            "output": f"s3a://{self.bucket}/output",
            "checkpoints": f"s3a://{self.bucket}/checkpoints",
        }
        arguments = tuple(word for name, value in places.items() for word in (f"--{name}", value))
        return drivers.PlainDriver(
            self._log(),
            arguments,
            conf={
                "spark.hadoop.fs.s3a.endpoint": proxy.endpoint,
                "spark.sql.warehouse.dir": (self._folder / "warehouse").as_uri(),
            },
            environment={**self.places.environment, "LOAD_DSN": self.places.dsn, **self._local.environment},
        )

    def checkpoint(self, query: str) -> Path:
        """Return a query's checkpoint location, as the object store keeps it."""
        return self._servers.s3.objects / self.bucket / "checkpoints" / query

    def rows_in(self, table: str) -> int:
        """Return how many rows a table has."""
        with psycopg.connect(self.places.dsn) as connection:
            found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a name of ours
        assert found is not None
        return int(found[0])

    # --- what a scenario does

    def until_begun(self) -> None:
        """Wait until every query has committed two batches."""
        self.until_all_commit(time.monotonic(), count=2)

    def until_all_commit(self, since_s: float, count: int = 1, within_s: float = _SETTLES_WITHIN_S) -> None:
        """Wait until every query has committed since a moment, or the job is stuck."""
        self.until(
            lambda: bool(self._stuck) or self._each_committed(since_s, count),
            f"each query has committed {count} batches",
            within_s,
        )

    def until_each_commits(self) -> None:
        """Wait until every query has committed from now on, or the job is stuck."""
        self.until_all_commit(time.monotonic())

    def until_settled(self) -> None:
        """Wait until every query has committed since the fault; a job that is stuck and has no advice stays so."""
        self.until_all_commit(self._healed_s)

    def stuck(self) -> str:
        """Wait until every query has committed since the fault, or the job is stuck, and return with which error."""
        self.until_all_commit(self._healed_s)
        return self._stuck

    def change_to(self, *flags: str) -> None:
        """End the running version as the kubelet does, and start another, as an operator does that knows pods alone.

        Args:
            flags: Of the other version, for all its starts.
        """
        with self.unattended():
            self.terminate()
            self.keep(*flags)
            self.start()

    def gone_for_good(self, driver: driverprocess.SparkDriver) -> None:
        """Note how a driver has ended that is not attended to, and end it if it has not."""
        if driver.runs:
            self._exits.append("still running")
            driver.stop()
        else:
            self._exits.append(f"{driver.exit_code} {drivers.error_class(driver.output)}")

    def terminate(self) -> None:
        """End the driver as the kubelet ends a pod: SIGTERM, and SIGKILL after its grace period."""
        if self.driver.runs:
            self.driver.send_to_family(signal.SIGTERM)
        deadline_s = time.monotonic() + _TERMINATED_WITHIN_S
        while self.driver.runs and time.monotonic() < deadline_s:
            time.sleep(0.05)
        self.kill()
        self.until(self.is_dead, "the driver is dead")
        self.note_exit(self.driver)

    def help(self, what: str, act: Callable[[], None], *flags: str) -> None:
        """Do what a person has to do for a job that is stuck, and start it again.

        Args:
            what: The same in words.
            act: Done while no driver runs.
            flags: Of all starts from now on.
        """
        with self.unattended():
            self.kill()
            self.until(self.is_dead, "the driver is dead")
            act()
            self._person = what
            self.keep(*flags)
            self._ends.clear()
            self._was_stuck, self._stuck = self._stuck, ""
            since_s = time.monotonic()
            self.start()
        self.until_all_commit(since_s)
        if self._stuck:
            raise ScenarioError(f"{what} has not helped: {self._stuck}")

    # --- how it ends

    def finish(self) -> compare.Comparison:
        """Send the rest, wait until nothing is missing or nothing comes any more, and compare."""
        self._send_the_rest()
        deadline_s = time.monotonic() + 240
        while not self._stuck and time.monotonic() < deadline_s and not self._has_ended():
            self.wait(2.0)
        return self.visible()

    def visible(self) -> compare.Comparison:
        """Compare what can be seen of the outputs with the truth; the careful table's differences are not counted."""
        sent, confirmations = outputs.read_sent(self.places)
        known, results = truth.compute(sent, confirmations), self._results("windows")
        told = compare.compare(known, results)
        careful = compare.compare(known, replace(results, windows=self._windows("replaced")))
        others = [replace(one, output=CAREFUL) for one in careful.findings if one.output == "windows"]
        return replace(told, findings=(*told.findings, *others))

    def figures(self, name: str) -> row.Row:
        """Return what a fault has cost, as a row without a comparison: what came once more can be counted without one."""
        more = {output: count - self._repeats_before[output] for output, count in self._repeats().items()}
        return replace(
            super().figures(name),
            repeated=sum(count for output, count in more.items() if output != CAREFUL),
            outputs=tuple((output, 0, count, 0) for output, count in sorted(more.items()) if count),
            stuck=self._stuck or self._was_stuck,
            person=self._person,
        )

    # --- inside

    def _has_ended(self) -> bool:
        lost = [one for one in self.visible().findings if one.fault is compare.Fault.LOST]
        since_s = time.monotonic() - _QUIET_S
        return not lost or (
            self.driver.runs and self.driver.is_up and not self._happened("PUT", self.committed, since_s)
        )

    def _why_not_again(self, driver: driverprocess.SparkDriver, code: int) -> str:
        """A pod is always started again; that it ends with the same error each time is only noted."""
        if code >= 0:
            self._ends.append((time.monotonic(), drivers.error_class(driver.output)))
            newest = [error for at_s, error in self._ends if at_s > self._healed_s][-_SAME_ENDS:]
            if len(newest) == _SAME_ENDS and len(set(newest)) == 1:
                self._stuck = newest[0]
        return ""

    def _make_catalog(self) -> dict[str, str]:
        return {}

    def _repeats(self) -> dict[str, int]:
        """Return how many rows of each output are there once more."""
        rows = self._results("windows")
        ledger = [(one["row"], one["key"], one.get("sequence"), one.get("due_ms")) for one in rows.ledger]
        tables = {"windows": rows.windows, CAREFUL: self._windows("replaced")}
        places: dict[str, list[tuple[object, ...]]] = {
            name: [(one["key"], one["begin_ms"]) for one in table] for name, table in tables.items()
        }
        places |= {"ledger": [*ledger], "confirmed": [(one["number"],) for one in rows.confirmed]}
        return {name: len(many) - len(set(many)) for name, many in places.items()}

    def _results(self, table: str) -> compare.Results:
        return compare.Results(
            ledger=outputs.read_ledger(self.places),
            windows=self._windows(table),
            confirmed=self._read_files(self._servers.s3.objects / self.bucket / "output" / "confirmed"),
            has_memory=False,
        )

    def _windows(self, table: str) -> list[compare.Row]:
        names = ("key", "begin_ms", "events", "total")
        with psycopg.connect(self.places.dsn) as connection:
            rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()  # noqa: S608 - names of ours
        return [dict(zip(names, one, strict=True)) for one in rows]

    def _read_files(self, folder: Path) -> list[compare.Row]:
        """Return the rows of the files that Spark's own reader would read: those that the sink has listed."""
        log = folder / "_spark_metadata"
        names = files.entries_to_read(path.name for path in log.iterdir()) if log.is_dir() else ()
        paths = [path for name in names for path in files.listed((log / name).read_text().splitlines())]
        tables = [pyarrow.parquet.read_table(folder / path.rpartition("/")[2]) for path in paths]
        return [one for table in tables for one in table.to_pylist()]
