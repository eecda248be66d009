"""One job under load: real drivers before a real object store behind a proxy, a broker and a database, and their end.

`Servers` are shared by all scenarios; a `World` has topics, a bucket, a database and a root of state of its own. Its
drivers are started again when they end, as the operator does; `unattended` leaves that to the scenario.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import driverprocess
import kafkabroker
import postgresserver
import psycopg
import pyarrow as pa
import s3server
from load import compare, generator, outputs, truth
from pyiceberg.catalog import load_catalog

from faults import row, s3proxy

JOB = Path(__file__).resolve().parents[1] / "load" / "jobs" / "ledger.py"
TOKEN = "fault-matrix"  # noqa: S105 - of drivers that listen on loopback
COMMITTED = r"/generations/\d+/[^/]+/commits/\d+$"
MANIFEST = r"/checkpoints/\d+/_metadata\.json"
_CLOCK = Path(__file__).with_name("clock.c")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that do not live long enough for what they compile."""
_PARTITIONS = 2
FENCED = 12
"""How a driver ends that was replaced."""
UNREACHABLE = 16
"""How a driver ends whose storage does not answer."""
_STOPPED = 11
_RETRIED = (1, 10, FENCED, UNREACHABLE)
_NUMBERS = pa.schema([("subtask", pa.int32()), ("number", pa.int64())])


class ScenarioError(Exception):
    """A scenario could not go on: something did not happen in time, or a driver asked for a person."""


@dataclass(frozen=True, slots=True)
class Servers:
    """What all scenarios share."""

    s3: s3server.S3Server
    kafka: kafkabroker.Broker
    postgres: postgresserver.Postgres


@contextmanager
def serving(folder: Path) -> Iterator[Servers]:
    """Run the servers while the block runs; they begin empty.

    Args:
        folder: Gets what they store, and their logs.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with ExitStack() as stack:
        (folder / "s3").mkdir(parents=True, exist_ok=True)
        (folder / "kafka").mkdir(parents=True, exist_ok=True)
        s3 = stack.enter_context(s3server.running(folder / "s3"))
        kafka = stack.enter_context(kafkabroker.running(folder / "kafka"))
        yield Servers(s3, kafka, stack.enter_context(postgresserver.running()))


@dataclass(frozen=True, slots=True)
class Load:
    """How much is sent.

    Attributes:
        per_second: Events.
        keys: Number of keys.
        for_s: At least so long, however short the fault.
    """

    per_second: float = 60.0
    keys: int = 24
    for_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Local:
    """What the drivers have of their own on this machine.

    Attributes:
        environment: Variables of the drivers.
        disk: Where Spark keeps what is local; None for the machine's.
        clock: File with the seconds that are added to their clock; None for the machine's.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    disk: Path | None = None
    clock: Path | None = None


@contextmanager
def local_things(folder: Path, *, disk_bytes: int, has_own_clock: bool) -> Iterator[Local]:
    """Provide a disk of a size and a clock while the block runs; a disk needs root, and a clock a C compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    environment: dict[str, str] = {}
    disk, clock = folder / "disk" if disk_bytes else None, folder / "clock" if has_own_clock else None
    if clock is not None:
        library = folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_CLOCK), "-ldl"], check=True)
        clock.write_text("0")
        environment |= {"LD_PRELOAD": str(library), "FAULT_CLOCK": str(clock)}
    if disk is None:
        yield Local(environment, disk, clock)
        return
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "faults", str(disk)], check=True)
    try:
        yield Local(environment | {"SPARK_LOCAL_DIRS": str(disk), "TMPDIR": str(disk)}, disk, clock)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


class World:
    """A job, its input, its drivers and what they leave behind.

    Attributes:
        name: Of the scenario.
        seed: Everything that is random follows from it.
        chance: For the scenario's own decisions.
        driver: The one that is attended to.
        proxy: Between it and the object store.
        places: Where inputs and outputs are.
    """

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
            generator.Target(servers.kafka.servers, self.places.events, _PARTITIONS, self.places.confirmations),
            seed=seed,
            keys=load.keys,
            per_second=load.per_second,
        )
        self._attendant = threading.Thread(target=self._attend, daemon=True)

    @property
    def root(self) -> Path:
        """The job's root of state, as the object store keeps it."""
        return self._servers.s3.objects / self.bucket / "state" / "default" / "load"

    def new_proxy(self) -> s3proxy.S3Proxy:
        """Make a proxy for another driver."""
        return s3proxy.S3Proxy(int(self._servers.s3.endpoint.rpartition(":")[2]), self.seed)

    def new_driver(self, proxy: s3proxy.S3Proxy, *, storage: str = "state") -> driverprocess.Driver:
        """Make a driver that reaches the store by a proxy; nothing is started.

        Args:
            proxy: Its own.
            storage: Prefix of its state in the bucket.
        """
        log = self._folder / f"driver-{len(list(self._folder.glob('driver-*')))}.log"
        log.touch()
        flags = ["--endpoint", proxy.endpoint, "--checkpoint-interval", "3s", "--master", "local[2]", "--retained", "2"]
        flags += ["--conf", f"spark.sql.shuffle.partitions={_PARTITIONS}", "--log-format", "json"]
        for name, value in self._parameters().items():
            flags += ["--parameter", f"{name}={value}"]
        return driverprocess.Driver(
            JOB,
            f"s3://{self.bucket}/{storage}",
            log,
            *flags,
            environment={**self._environment(), **self._local.environment},
            patience_s=180.0,
        )

    # --- what a scenario does

    def begin(self) -> None:
        """Start the load and the driver, and return when a checkpoint has been completed."""
        self._generator.start()
        self.start()
        self._attended.set()
        self._attendant.start()
        self.until_checkpoint()

    def start(self, *flags: str) -> None:
        """Start the driver; the flags are those of this start alone."""
        self._starts += 1
        self.driver.start(*self._flags, *flags)

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
            lambda: self._happened("PUT", COMMITTED, since_s) >= count, f"{count} batches are committed", within_s
        )

    def until_checkpoint(self, within_s: float = 240.0) -> None:
        """Wait until a checkpoint is completed from now on."""
        since_s = time.monotonic()
        self.until(lambda: self._happened("PUT", MANIFEST, since_s) > 0, "a checkpoint is completed", within_s)

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

    def replace_driver(self, driver: driverprocess.Driver, proxy: s3proxy.S3Proxy | None = None) -> None:
        """Attend to another driver from now on."""
        self.proxy = proxy or self.proxy
        self._proxies += [self.proxy] if self.proxy not in self._proxies else []
        self.drivers += [driver] if driver not in self.drivers else []
        self.driver = driver

    def call(self, *arguments: str, within_s: float = 180.0) -> str:
        """Run a command against the driver's API and return what it prints.

        Raises:
            ScenarioError: It fails.
        """
        url = f"http://127.0.0.1:{self.driver.port}"
        command = [*driverprocess.COMMAND, *arguments, "--url", url, "--token", TOKEN]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within_s)
        if done.returncode:
            raise ScenarioError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr[-600:]}")
        return done.stdout

    def stop_with_savepoint(self, *flags: str) -> str:
        """Stop the driver with a savepoint and return its location."""
        self.until(lambda: self.driver.runs and self.driver.is_up, "the driver is up")
        self._attended.clear()
        told = self._ask_to_stop(*flags)
        code = self.driver.ends()
        self._exits.append(str(code))
        if code != _STOPPED:
            raise ScenarioError(f"a stop with a savepoint ended with {code}")
        return location_of(told)

    def _ask_to_stop(self, *flags: str) -> object:
        """A stop whose savepoint fails leaves the job running; it is asked for again, as the operator does."""
        for tries_left in (2, 1, 0):
            try:
                return json.loads(self.call("stop", "--savepoint", *flags, "-o", "json"))
            except ScenarioError:
                if not tries_left or not self.driver.runs:
                    raise
                self.wait(1.0)
        raise AssertionError

    # --- how it ends

    def finish(self) -> str:
        """Send the rest, wait until everything is visible, and stop with a canonical savepoint; return where it is."""
        self._attended.set()
        deadline_s = time.monotonic() + 300
        self.wait(max(0.0, self._load.for_s - self._generator.sent / self._load.per_second))
        self._generator.stop()
        self.wait(2.0)
        self._generator.close()
        while lost := self._lost():
            self.wait(1.0)
            if time.monotonic() > deadline_s:
                raise ScenarioError(f"rows do not arrive: {lost}")
        return self.stop_with_savepoint("--format", "canonical")

    def compared(self, savepoint: str | None) -> compare.Comparison:
        """Compare everything that is visible with the truth."""
        sent, confirmations = outputs.read_sent(self.places)
        return compare.compare(truth.compute(sent, confirmations), outputs.read_results(self.places, savepoint))

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
            fault_s=self._healed_s - self._hurt_s,
            replayed=row.replayed(requests, self._hurt_s) if self._hurt_s else "",
            starts=self._starts - self._act_starts,
            exits=tuple(self._exits[self._act_exits :]),
            took_s=time.monotonic() - self._act_began_s,
        )

    def note_exit(self, driver: driverprocess.Driver) -> None:
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
            if code >= 0 and code not in _RETRIED:
                self._failure = ScenarioError(f"a driver ended with {code}: {last_error(driver)}")
                continue
            if driver.is_up:
                wait_s = 0.5
            if self._ended.wait(wait_s):
                return
            wait_s = min(wait_s * 2, 8.0)
            if self._attended.is_set() and driver is self.driver:
                self.start()

    def _look(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _happened(self, method: str, path: str, since_s: float) -> int:
        return sum(proxy.count(method, path, since_s=since_s) for proxy in self._proxies)

    def _lost(self) -> str:
        """Return what is missing from the outputs, empty if nothing is."""
        found = self.compared(None)
        lost = [one.sentence for one in found.findings if one.fault is compare.Fault.LOST and one.output != "counter"]
        return f"{len(lost)}, the first is {lost[0]}" if lost else ""

    def _make_places(self) -> outputs.Places:
        servers, options = self._servers, self._servers.s3.options()
        dsn = servers.postgres.new_database()
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE windows (key text, begin_ms bigint, events bigint, total bigint)")
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{self._folder}/catalog.db",
            "warehouse": f"s3://{self.bucket}/warehouse",
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.endpoint": servers.s3.endpoint,
            "s3.access-key-id": str(options.access_key),
            "s3.secret-access-key": str(options.secret_key),
            "s3.region": s3server.REGION,
        }
        tables = load_catalog("default", **catalog)
        tables.create_namespace("load")
        tables.create_table("load.numbers", _NUMBERS)
        return outputs.Places(
            servers=servers.kafka.servers,
            events=servers.kafka.new_topic(_PARTITIONS),
            confirmations=self._folder / "confirmations",
            rows=servers.kafka.new_topic(_PARTITIONS),
            dsn=dsn,
            endpoint=servers.s3.endpoint,
            credentials=(s3server.ACCESS_KEY, s3server.SECRET_KEY),
            output=(self.bucket, "output"),
            catalog=catalog,
            command=driverprocess.COMMAND,
            environment={"AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY},
        )

    def _parameters(self) -> dict[str, str]:
        return {
            "brokers": self.places.servers,
            "events": self.places.events,
            "confirmations": self.places.confirmations.as_uri(),
            "rows": self.places.rows,
            "output": f"s3://{self.bucket}/output",
            "warehouse": f"s3://{self.bucket}/warehouse",
        }

    def _environment(self) -> dict[str, str]:
        mine = {"LOAD_DSN": self.places.dsn, "LOAD_CATALOG": str(self.places.catalog["uri"])}
        return {**self.places.environment, **mine, "STATEFULSPARK_TOKEN": TOKEN, "JAVA_TOOL_OPTIONS": _SHORT_LIVED}


def location_of(told: object) -> str:
    """Return the location of the snapshot that a command tells of."""
    if isinstance(told, dict):
        for name, value in told.items():
            if name == "location" and isinstance(value, str):
                return value
            if found := location_of(value):
                return found
    return ""


def last_error(driver: driverprocess.Driver) -> str:
    """Return the last line of a driver's log that tells of an error."""
    lines = [line for line in driver.output.splitlines() if '"ERROR"' in line or '"level": "error"' in line.lower()]
    return (lines[-1] if lines else driver.tail)[-600:]


def pids_below(pid: int, word: str) -> list[int]:
    """Return the processes below one whose command line has a word in it, the oldest first."""
    found, place = [pid], 0
    while place < len(found):
        with contextlib.suppress(OSError):
            children = [path.read_text().split() for path in Path(f"/proc/{found[place]}/task").glob("*/children")]
            found += [int(child) for names in children for child in names if int(child) not in found]
        place += 1
    return sorted(one for one in found if word in _command_of(one))


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Kill one process; nothing happens if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
