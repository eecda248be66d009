"""A job under load, whatever runs it: drivers before a real object store behind a proxy, a broker and a database.

A world has topics, a bucket, a database and an input of its own. Its drivers are started again when they end; `unattended`
leaves that to the scenario. What a driver is, when it may be started again and how a run ends is for the subclasses.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import driverprocess
import psycopg
import s3server
from load import compare, generator, outputs

from faults import row, s3proxy
from faults.surroundings import Load, Local, Servers

PARTITIONS = 2
"""Of topics and of state."""
ANY_QUERY = "[^/]+"
"""In the pattern of the paths of commit logs, where a query's name is."""


class ScenarioError(Exception):
    """A scenario could not go on: something did not happen in time, or a driver asked for a person."""


class LoadedWorld(ABC):
    """A job, its input, its drivers and what they leave behind.

    Attributes:
        name: Of the scenario.
        seed: Everything that is random follows from it.
        chance: For the scenario's own decisions.
        bucket: All that the job has on S3 is in it.
        driver: The one that is attended to.
        proxy: Between it and the object store.
        places: Where inputs and outputs are.
    """

    committed: str
    """Pattern of the paths of commit logs."""
    queries: tuple[str, ...]
    """Names of the job's queries."""
    tables: tuple[str, ...]
    """How the tables are created that the job writes to."""

    def __init__(
        self,
        servers: Servers,
        folder: Path,
        *,
        name: str,
        seed: int,
        load: Load,
        local: Local | None = None,
    ) -> None:
        self.name, self.seed, self.chance = name, seed, random.Random(seed)
        self._servers, self._folder, self._load = servers, folder, load
        self._local = local or Local()
        folder.mkdir(parents=True, exist_ok=True)
        self.bucket = servers.s3.new_bucket("faults")
        self.places = self._make_places()
        self.proxy = self.new_proxy()
        self._proxies = [self.proxy]
        self.driver = self.new_driver(self.proxy)
        self.drivers = [self.driver]
        self._flags: tuple[str, ...] = ()
        self._attended = threading.Event()
        self._ended = threading.Event()
        self._exits: list[str] = []
        self._starts = 0
        self.begin_act()
        self._failure: ScenarioError | None = None
        self._generator = generator.Generator(
            generator.Target(servers.kafka.servers, self.places.events, PARTITIONS, self.places.confirmations),
            seed=seed,
            keys=load.keys,
            per_second=load.per_second,
        )
        self._attendant = threading.Thread(target=self._attend, daemon=True)

    # --- what differs between the kinds of drivers

    @abstractmethod
    def new_driver(self, proxy: s3proxy.S3Proxy) -> driverprocess.SparkDriver:
        """Make a driver that reaches the store by a proxy; nothing is started."""

    @abstractmethod
    def until_begun(self) -> None:
        """Wait until the job works."""

    @abstractmethod
    def visible(self) -> compare.Comparison:
        """Compare what can be seen of the outputs now with the truth."""

    @abstractmethod
    def finish(self) -> compare.Comparison:
        """Send the rest, wait for what comes of it, and compare everything with the truth."""

    @abstractmethod
    def _make_catalog(self) -> dict[str, str]:
        """Make what the job needs beside topics and a database, and return the properties of its catalog, if it has one."""

    @abstractmethod
    def _why_not_again(self, driver: driverprocess.SparkDriver, code: int) -> str:
        """Return why a driver that has ended is not started again; empty if it is."""

    def until_settled(self) -> None:
        """Wait until the job works again after a fault."""
        self.until_commits()

    # --- what a scenario does

    def new_proxy(self) -> s3proxy.S3Proxy:
        """Make a proxy for another driver."""
        return s3proxy.S3Proxy(int(self._servers.s3.endpoint.rpartition(":")[2]), self.seed)

    def begin(self) -> None:
        """Start the load and the driver, and return when the job works."""
        self._generator.start()
        self.start()
        self._attended.set()
        self._attendant.start()
        self.until_begun()

    def start(self, *flags: str) -> None:
        """Start the driver; the flags are those of this start alone."""
        self._starts += 1
        self.driver.start(*self._flags, *flags)

    def keep(self, *flags: str) -> None:
        """Give these flags to all starts from now on."""
        self._flags = flags

    def more_events(self) -> str:
        """Make a second topic of events, and return its name."""
        return self._servers.kafka.new_topic(PARTITIONS)

    def hurt(self) -> None:
        """Note that the fault begins."""
        self._hurt_s = self._healed_s = time.monotonic()

    def heal(self) -> None:
        """Note that the fault is over."""
        self._healed_s = time.monotonic()

    def kill(self) -> None:
        """Kill the driver with everything below it, as a node that dies."""
        self.driver.send_to_family(signal.SIGKILL)

    def wait(self, seconds: float) -> None:
        """Let the load go on for a while; the scenario ends if a driver asks for a person meanwhile."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self._look()
            time.sleep(0.05)

    def until(self, fact: Callable[[], bool], what: str, within_s: float = 240.0) -> None:
        """Wait until something holds.

        Raises:
            ScenarioError: It does not hold in time.
        """
        deadline_s = time.monotonic() + within_s
        while not fact():
            self._look()
            if time.monotonic() > deadline_s:
                raise ScenarioError(f"after {within_s:.0f} s it is still not so that {what}")
            time.sleep(0.05)

    def until_commits(self, count: int = 1, within_s: float = 240.0) -> None:
        """Wait until so many batches are committed from now on."""
        since_s = time.monotonic()
        self.until(
            lambda: self._happened("PUT", self.committed, since_s) >= count, f"{count} batches are committed", within_s
        )

    def until_each_commits(self) -> None:
        """Wait until each query has committed a batch from now on."""
        since_s = time.monotonic()
        self.until(lambda: self._each_committed(since_s), "each query has committed a batch")

    def until_held(self, hold: s3proxy.Hold, within_s: float = 180.0) -> None:
        """Wait until a request is held."""
        self.until(lambda: hold.has_come, f"a {hold.method} of {hold.path} comes", within_s)

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Start no driver again while the block runs."""
        self._attended.clear()
        try:
            yield
        finally:
            self._attended.set()

    def is_dead(self) -> bool:
        """Tell whether the driver has ended."""
        return not self.driver.runs

    @property
    def folder(self) -> Path:
        """Where everything of this world is on this machine."""
        return self._folder

    @property
    def disk(self) -> Path | None:
        """Where Spark keeps what is local, if it has a disk of its own."""
        return self._local.disk

    def set_clock(self, offset_s: int) -> None:
        """Set the drivers' clock so far ahead of this machine's."""
        assert self._local.clock is not None, "the scenario has a clock"
        self._local.clock.write_text(str(offset_s))

    def kill_target(self, name: str, *, away_s: float) -> None:
        """Kill the server that sinks write to, and start it again after a while with what it has stored.

        Args:
            name: `kafka` or `postgres`.
            away_s: How long it is away.
        """
        server = {"kafka": self._servers.kafka, "postgres": self._servers.postgres}[name]
        server.stop()
        self.wait(away_s)
        server.start()

    def attend(self) -> None:
        """Start the driver again from now on whenever it ends."""
        self._attended.set()

    def replace_driver(self, driver: driverprocess.SparkDriver, proxy: s3proxy.S3Proxy | None = None) -> None:
        """Attend to another driver from now on."""
        self.proxy = proxy or self.proxy
        self._proxies += [self.proxy] if self.proxy not in self._proxies else []
        self.drivers += [driver] if driver not in self.drivers else []
        self.driver = driver

    # --- how it ends

    def _send_the_rest(self) -> None:
        """End the load while the driver is attended to, and send the event after which event time has passed all others."""
        self._attended.set()
        self._end_the_load()

    def _end_the_load(self) -> None:
        self.wait(max(0.0, self._load.for_s - self._generator.sent / self._load.per_second))
        self._generator.stop()
        self.wait(2.0)
        self._generator.close()

    def begin_act(self) -> None:
        """Note what the figures of the next fault are counted from."""
        self._act_began_s, self._act_exits, self._act_starts = time.monotonic(), len(self._exits), self._starts
        self._hurt_s = self._healed_s = 0.0

    def figures(self, name: str) -> row.Row:
        """Return what a fault has cost, as a row without a comparison.

        Args:
            name: Of the scenario.
        """
        requests = sorted((one for proxy in self._proxies for one in proxy.passed), key=lambda one: one.at_s)
        return row.Row(
            scenario=name,
            seed=self.seed,
            passed=False,
            first_commit_s=row.first_commit_s(requests, self._healed_s) if self._hurt_s else None,
            all_commit_s=row.all_commit_s(requests, self._hurt_s, self._healed_s) if self._hurt_s else None,
            pause_s=row.pause_s(requests, self._hurt_s) if self._hurt_s else None,
            fault_s=self._healed_s - self._hurt_s,
            replayed=row.replayed(requests, self._hurt_s) if self._hurt_s else "",
            starts=self._starts - self._act_starts,
            exits=tuple(self._exits[self._act_exits :]),
            took_s=time.monotonic() - self._act_began_s,
        )

    def note_exit(self, driver: driverprocess.SparkDriver) -> None:
        """Note how a driver ended that nobody attended to."""
        self._exits.append(str(driver.exit_code))

    def note_end(self) -> None:
        """Wait until the driver has ended by itself, and note how."""
        self._exits.append(str(self.driver.ends()))

    def close(self) -> None:
        """End every process of this world."""
        self._ended.set()
        with contextlib.suppress(Exception):
            self._generator.stop()
        for driver in self.drivers:
            driver.send_to_family(signal.SIGCONT)
            driver.stop()
        for proxy in self._proxies:
            proxy.close()

    # --- inside

    def _attend(self) -> None:
        """Start the driver again whenever it has ended, after a wait that doubles."""
        wait_s = 0.5
        while not self._ended.wait(0.05):
            driver = self.driver
            if not self._attended.is_set() or driver.runs or self._failure:
                continue
            code = driver.exit_code
            if code is None:
                continue
            self._exits.append(str(code))
            if reason := self._why_not_again(driver, code):
                self._failure = ScenarioError(f"a driver ended with {code}: {reason}")
                continue
            if driver.is_up:
                wait_s = 0.5
            if self._ended.wait(wait_s):
                return
            wait_s = min(wait_s * 2, 8.0)
            if self._attended.is_set() and driver is self.driver and not driver.runs:
                self.start()

    def _look(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _happened(self, method: str, path: str, since_s: float) -> int:
        return sum(proxy.count(method, path, since_s=since_s) for proxy in self._proxies)

    def _each_committed(self, since_s: float, count: int = 1) -> bool:
        patterns = [self.committed.replace(ANY_QUERY, query) for query in self.queries]
        return all(self._happened("PUT", pattern, since_s) >= count for pattern in patterns)

    def _make_places(self) -> outputs.Places:
        servers = self._servers
        dsn = servers.postgres.new_database()
        with psycopg.connect(dsn) as connection:
            for table in self.tables:
                connection.execute(table)
        return outputs.Places(
            servers=servers.kafka.servers,
            events=servers.kafka.new_topic(PARTITIONS),
            confirmations=self._folder / "confirmations",
            rows=servers.kafka.new_topic(PARTITIONS),
            dsn=dsn,
            endpoint=servers.s3.endpoint,
            credentials=(s3server.ACCESS_KEY, s3server.SECRET_KEY),
            output=(self.bucket, "output"),
            catalog=self._make_catalog(),
            command=driverprocess.COMMAND,
            environment={"AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY},
        )

    def _log(self) -> Path:
        """Return an empty file for what another driver prints."""
        log = self._folder / f"driver-{len(list(self._folder.glob('driver-*')))}.log"
        log.touch()
        return log
