"""What happens: one job is killed, guarded, changed, refused and taken back while real flights go through it.

A list of steps from top to bottom. Each one does to the job what a person can do by hand, shows the command, and waits for
the first output after it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from demo import console, progress
from demo.failure import DemoFailedError
from statefulspark import errors

from demo_local import drivers, feed, output

JOB, BROKEN, VERSION_2 = (
    Path("examples", "flights", name) for name in ("flights.py", "flights_broken.py", "flights_v2.py")
)
KILL_AT, KILL_GUARDED_AT, CHANGE_AT, GO_BACK_AFTER = 0.08, 0.2, 0.35, 0.12
"""Shares of the flights at which the steps are taken, or later, when what they need is there."""
_BAD_JOB_FILE = 13
_SLOW_S = 300.0


@dataclass
class Story:
    """One run of the demo.

    Attributes:
        total: How many flights there are.
        show: Where a person watches.
        starts: Starts drivers.
        seen: What the job has made visible.
        days: Brings the flights.
        pauses: Seconds without output for each step, in order.
        withdrawn: Rows of version 2 that were taken back with it.
        first_row_s: Seconds from the first start to the first visible row.
    """

    total: int
    show: console.Console
    starts: drivers.Drivers
    seen: output.Output
    days: feed.Feed
    began: datetime
    pauses: dict[str, float] = field(default_factory=dict)
    withdrawn: int = 0
    first_row_s: float = 0.0
    _epoch: int = 1
    _at_savepoint: int = 0

    def play(self) -> None:
        """Tell the story to its end.

        Raises:
            DemoFailedError: Something did not happen in time.
        """
        driver = self._begin()
        driver = self._kill(driver)
        driver = self._kill_beside_a_standby(driver)
        self._try_a_broken_version(driver)
        driver, savepoint = self._change(driver)
        driver = self._go_back(driver, savepoint)
        self._until(driver, lambda: self.seen.rows >= self.total, "every flight is out")
        driver.stop_with_savepoint()
        self.show.end_status()

    def _begin(self) -> drivers.Driver:
        self.show.title("The job starts: two queries with state, exactly-once files, a checkpoint every two seconds")
        driver = self._start("version 1", JOB)
        self._until(driver, lambda: self.seen.rows > 0, "the first rows are visible")
        first = self.seen.first_of(1)
        self.first_row_s = (first - self.began).total_seconds() if first else 0.0
        self.show.say(f"Its page is {driver.page} (the token is {drivers.TOKEN!r})")
        self._until_share(driver, KILL_AT)
        return driver

    def _kill(self, driver: drivers.Driver) -> drivers.Driver:
        self.show.title("The driver is killed, and started again")
        self._kill_now(driver)
        driver = self._start("after the kill", JOB)
        self._goes_on(driver, "a kill")
        return driver

    def _kill_beside_a_standby(self, driver: drivers.Driver) -> drivers.Driver:
        self.show.title("A standby gets ready beside it, and the driver is killed again")
        standby = self._start("standby", JOB, "--standby")
        self._until(driver, standby.is_ready, "the standby is ready")
        self._until_share(driver, KILL_GUARDED_AT)
        self._kill_now(driver)
        self._activate(standby)
        self._goes_on(standby, "a kill beside a standby")
        return standby

    def _try_a_broken_version(self, driver: drivers.Driver) -> None:
        self.show.title("A version that cannot start is tried as a standby; the job does not notice")
        broken = self._start("broken version", BROKEN, "--standby")
        self._until(driver, lambda: broken.exit_code is not None, "the broken version is refused")
        if broken.exit_code != _BAD_JOB_FILE:
            raise DemoFailedError(f"The broken version ended with exit code {broken.exit_code}.\n{broken.tail()}")
        self.show.say(f"It ended with exit code {broken.exit_code}: {_last_error(broken)}")
        self.pauses["a broken version"] = 0.0

    def _change(self, driver: drivers.Driver) -> tuple[drivers.Driver, str]:
        self.show.title("Version 2 gets ready beside version 1, which then stops with a savepoint")
        standby = self._start("version 2", VERSION_2, "--standby")
        self._until(driver, standby.is_ready, "version 2 is ready")
        self._until_share(driver, CHANGE_AT)
        self.show.say("$ statefulspark stop --savepoint")
        savepoint = driver.stop_with_savepoint()
        self.show.say(savepoint)
        self._look()
        self._at_savepoint = self.seen.rows
        self.days.release_last_part()  # A slow start of version 2 has let version 1 read all days before them.
        self._activate(standby)
        self._goes_on(standby, "a change of the job")
        return standby, savepoint

    def _go_back(self, driver: drivers.Driver, savepoint: str) -> drivers.Driver:
        enough = self._at_savepoint + self.total * GO_BACK_AFTER
        self._until(driver, lambda: self.seen.rows > enough, "version 2 has worked")
        self.show.title(
            "Version 2 was a mistake: back to version 1 and its savepoint; what version 2 wrote is taken back"
        )
        self.show.say("$ statefulspark stop --savepoint")
        driver.stop_with_savepoint()
        self._look()
        written = self.seen.rows
        self.seen.is_replaced = True
        driver = self._start("back at version 1", JOB, "--restore-uri", savepoint)
        self._goes_on(driver, "the way back")
        self.seen.is_replaced = False
        self.withdrawn = max(0, written - self._at_savepoint)
        return driver

    def _start(self, name: str, file: Path, *flags: str) -> drivers.Driver:
        driver = self.starts.start(name, file, *flags)
        self.show.say(drivers.shown(driver, *flags))
        return driver

    def _kill_now(self, driver: drivers.Driver) -> None:
        self.show.say(f"$ kill -9 {driver.pid}")
        driver.kill()

    def _activate(self, standby: drivers.Driver) -> None:
        self.show.say(f"$ curl -X POST http://localhost:{standby.port}/v1/activate ...")
        standby.activate(self._epoch + 1)

    def _goes_on(self, driver: drivers.Driver, step: str) -> None:
        """Wait for the first output of the next driver, and note how long there was none."""
        self._epoch += 1
        before = self.seen.last_before(self._epoch)
        self._until(driver, lambda: self.seen.first_of(self._epoch) is not None, f"there is output after {step}")
        first = self.seen.first_of(self._epoch)
        if before is not None and first is not None:
            self.pauses[step] = (first - before).total_seconds()
            self.show.say(f"{self.pauses[step]:.1f} s without output. It goes on; its page is {driver.page}")

    def _until_share(self, driver: drivers.Driver, share: float) -> None:
        self._until(driver, lambda: self.seen.rows >= self.total * share, f"{share:.0%} of the flights are out")

    def _until(self, driver: drivers.Driver, fact: Callable[[], bool], what: str) -> None:
        """Show the job's progress until something holds while a driver runs."""

        def look() -> bool | None:
            self._look()
            return True if fact() else None

        driver.wait_for(look, what, _SLOW_S)

    def _look(self) -> None:
        with suppress(errors.ObjectNotFoundError):  # A driver that starts replaces commits.
            self.seen.look()
        done = min(self.seen.rows, self.total)
        elapsed = progress.clock(datetime.now(self.began.tzinfo) - self.began)
        bar = progress.bar(done / self.total)
        self.show.status(
            f"{elapsed}  {bar} {done:>7,} of {self.total:,}  {self.seen.rows_per_s:>6,.0f}/s  epoch {self._epoch}"
        )


def _last_error(driver: drivers.Driver) -> str:
    lines = [line for line in driver.log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
