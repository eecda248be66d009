"""One job of ours under load: its drivers, the commands that a person has for them, and how a run ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import driverprocess
import pyarrow as pa
import s3server
import standalone
from confluent_kafka import OFFSET_END
from load import compare, events, outputs, truth
from pyiceberg.catalog import load_catalog

from faults import s3proxy, surroundings
from faults.loaded import ANY_QUERY, PARTITIONS, LoadedWorld, ScenarioError

JOB = Path(__file__).resolve().parents[1] / "load" / "jobs" / "ledger.py"
TOKEN = "fault-matrix"  # noqa: S105 - of drivers that listen on loopback
COMMITTED = rf"/generations/\d+/{ANY_QUERY}/commits/\d+$"
MANIFEST = r"/checkpoints/\d+/_metadata\.json"
WORKER = "statefulspark.workers.daemon"
"""Of the command lines of Python workers, and of the process that forks them."""
FENCED = 12
"""How a driver ends that was replaced."""
UNREACHABLE = 16
"""How a driver ends whose storage does not answer."""
_STOPPED = 0
_INPUT_LOST = 18
_RETRIED = (_STOPPED, 1, FENCED, UNREACHABLE)
_NUMBERS = pa.schema([("subtask", pa.int32()), ("number", pa.int64())])


class World(LoadedWorld):
    """A job of ours, its input, its drivers and what they leave behind."""

    committed = COMMITTED
    queries = ("ledger", "windows", "confirmed", "counter")
    tables = ("CREATE TABLE windows (key text, begin_ms bigint, events bigint, total bigint)",)
    driver: driverprocess.Driver
    _last_look: Callable[[World], None] | None = None
    _sent: tuple[list[events.Event], dict[int, int]] | None = None
    """What was sent, where the broker does not have it any more; the job has been ended for a person then."""

    @property
    def root(self) -> Path:
        """The job's root of state, as the object store keeps it."""
        return self._servers.s3.objects / self.bucket / "state" / "default" / "load"

    def new_driver(self, proxy: s3proxy.S3Proxy, *, storage: str = "state") -> driverprocess.Driver:
        """Make a driver that reaches the store by a proxy; nothing is started.

        Args:
            proxy: Its own.
            storage: Prefix of its state in the bucket.
        """
        flags = [
            "--endpoint",
            proxy.endpoint,
            "--checkpoint-interval",
            "3s",
            "--checkpoint-retention-count",
            "2",
            *self._where_tasks_run(),
        ]
        flags += ["--conf", f"spark.sql.shuffle.partitions={PARTITIONS}", "--log-format", "json"]
        if self._local.packs_all:
            flags += ["--conf", "spark.statefulspark.keyedState.packs.minBytes=1"]
        for name, value in self._parameters().items():
            flags += ["--parameter", f"{name}={value}"]
        return driverprocess.Driver(
            JOB,
            f"s3://{self.bucket}/{storage}",
            self._log(),
            *flags,
            environment={**self._environment(), **self._local.environment},
            patience_s=180.0,
        )

    @property
    def shown_files(self) -> Path:
        """What the sink of files has written, as the object store keeps it."""
        return self._servers.s3.objects / self.bucket / "output"

    @property
    def nodes(self) -> standalone.Cluster:
        """Where the executors run."""
        assert self._local.nodes is not None, "the scenario has executors"
        return self._local.nodes

    @property
    def worker_pids(self) -> list[int]:
        """Python workers, wherever tasks run; none while the driver does not run."""
        if not self.driver.runs:
            return []
        if self._local.nodes is None:
            return pids_below(self.driver.pid, WORKER)[1:]
        return [pid for host in surroundings.HOSTS for pid in self.nodes.pids(host, WORKER)[1:]]

    # --- what a scenario does

    def until_checkpoint(self, within_s: float = 240.0) -> None:
        """Wait until a checkpoint is completed from now on."""
        since_s = time.monotonic()
        self.until(lambda: self._happened("PUT", MANIFEST, since_s) > 0, "a checkpoint is completed", within_s)

    def until_up(self) -> None:
        """Wait until the driver's start is done: every query runs, and its API answers."""
        self.until(lambda: self.driver.runs and self.driver.is_up, "the driver is up")

    def until_workers(self) -> list[int]:
        """Wait until there are Python workers, and return them."""
        self.until(lambda: bool(self.worker_pids), "there are workers")
        return self.worker_pids

    def call(self, *arguments: str, within_s: float = 180.0) -> str:
        """Run a command against the driver's API and return what it prints.

        Raises:
            ScenarioError: It fails.
        """
        self.until_up()
        return self._call(*arguments, within_s=within_s)

    def on_storage(self, *arguments: str, within_s: float = 180.0) -> str:
        """Run a command that reads and writes storage, and return what it prints.

        Raises:
            ScenarioError: It fails.
        """
        command = [*driverprocess.COMMAND, *arguments, "--endpoint", self.proxy.endpoint]
        return _printed(command, within_s, environment={**os.environ, **self.places.environment})

    def stop_or_die(self) -> None:
        """Ask the driver to stop with a savepoint until it has ended, by that or by what goes on; nobody starts it again."""
        self._attended.clear()
        self.until(self._has_stopped, "the driver has stopped", within_s=400.0)
        code = self.driver.exit_code
        self._exits.append(str(code))
        if code not in (*_RETRIED, -signal.SIGKILL):
            raise ScenarioError(f"a stop with a savepoint ended with {code}")

    def stand_by(self, *flags: str) -> driverprocess.Driver:
        """Start a standby with some flags and return it when it is ready; one that ends meanwhile is started again."""
        standby = self.new_driver(self.proxy)
        self.drivers.append(standby)
        self.until(lambda: self._is_ready(standby, flags), "a standby is ready", within_s=400.0)
        return standby

    def take_over(self, standby: driverprocess.Driver) -> None:
        """Make a standby the driver, with the next epoch, and attend to it from now on; if it is dead, it starts as one."""
        epoch = 1 + max(int(path.stem) for path in self.root.glob("epochs/[0-9]*.json"))
        if standby.runs:
            _ask(standby, "/v1/activate", {"requestId": f"take-{epoch}", "epoch": epoch})
        self.replace_driver(standby)
        self._starts += 1
        self.attend()

    def look_at_the_end(self, look: Callable[[World], None]) -> None:
        """Have the outputs looked at when everything that was sent is out, and the job has not been stopped yet."""
        self._last_look = look

    def lose_input(self) -> None:
        """Send the rest, have the broker drop all of it, and start a driver, which has to end for a person.

        Raises:
            ScenarioError: It ends otherwise.
        """
        self._attended.clear()
        self.kill()
        self.until(self.is_dead, "the driver is dead")
        self._end_the_load()
        self._sent = outputs.read_sent(self.places)
        self._servers.kafka.expire(self.places.events, before=OFFSET_END)
        self.start()
        self.note_end()
        if self.driver.exit_code != _INPUT_LOST:
            raise ScenarioError(f"a driver whose input is gone ended with {self.driver.exit_code}")

    def stop_with_savepoint(self, *flags: str) -> str:
        """Stop the driver with a savepoint and return its location."""
        self.until_up()
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

    def finish(self) -> compare.Comparison:
        """Send the rest, wait until everything is visible, stop with a canonical savepoint, and compare all of it."""
        if self._sent is not None:
            return self.visible()
        deadline_s = time.monotonic() + 300
        self._send_the_rest()
        while lost := self._lost():
            self.wait(1.0)
            if time.monotonic() > deadline_s:
                raise ScenarioError(f"rows do not arrive: {lost}")
        if self._last_look is not None:
            self._last_look(self)
        return self._compared(self.stop_with_savepoint("--format", "canonical"))

    def visible(self) -> compare.Comparison:
        """Compare what can be seen of the outputs now with the truth."""
        return self._compared(None)

    def until_settled(self) -> None:
        """Wait until the job works again, if it ever will."""
        if self._sent is None:
            super().until_settled()

    def until_begun(self) -> None:
        """Wait until a checkpoint is completed."""
        self.until_checkpoint()

    # --- inside

    def _call(self, *arguments: str, within_s: float) -> str:
        command = [*driverprocess.COMMAND, *arguments, "--url", _url_of(self.driver), "--token", TOKEN]
        return _printed(command, within_s)

    def _has_stopped(self) -> bool:
        if self.driver.runs and self.driver.is_up:
            with contextlib.suppress(ScenarioError):
                self._call("stop", "--savepoint", within_s=180.0)
        return not self.driver.runs

    def _is_ready(self, standby: driverprocess.Driver, flags: tuple[str, ...]) -> bool:
        if not standby.runs:
            standby.start("--standby", *flags)
        told = _ask(standby, "/v1/status").get("standby") if standby.is_up else None
        return isinstance(told, dict) and told.get("state") == "Ready"

    def _compared(self, savepoint: str | None) -> compare.Comparison:
        sent, confirmations = self._sent or outputs.read_sent(self.places)
        return compare.compare(truth.compute(sent, confirmations), outputs.read_results(self.places, savepoint))

    def _lost(self) -> str:
        """Return what is missing from the outputs, empty if nothing is."""
        found = self.visible()
        lost = [one.sentence for one in found.findings if one.fault is compare.Fault.LOST and one.output != "counter"]
        return f"{len(lost)}, the first is {lost[0]}" if lost else ""

    def _make_catalog(self) -> dict[str, str]:
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{self._folder}/catalog.db",
            "warehouse": f"s3://{self.bucket}/warehouse",
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.endpoint": self._servers.s3.endpoint,
            "s3.access-key-id": s3server.ACCESS_KEY,
            "s3.secret-access-key": s3server.SECRET_KEY,
            "s3.region": s3server.REGION,
        }
        tables = load_catalog("default", **catalog)
        tables.create_namespace("load")
        tables.create_table("load.numbers", _NUMBERS)
        return catalog

    def _why_not_again(self, driver: driverprocess.SparkDriver, code: int) -> str:
        return last_error(driver) if code >= 0 and code not in _RETRIED else ""

    def _where_tasks_run(self) -> tuple[str, ...]:
        nodes = self._local.nodes
        if nodes is None:
            return ("--master", "local[2]")
        settings = {"cores.max": "2", "executor.cores": "1", "executor.memory": "512m"}
        settings |= {f"executorEnv.{name}": value for name, value in self._of_workers().items()}
        return (
            "--master",
            nodes.url,
            *(word for name in settings for word in ("--conf", f"spark.{name}={settings[name]}")),
        )

    def _of_workers(self) -> dict[str, str]:
        """Return the variables of workers, which reach the sinks themselves."""
        mine = {"LOAD_DSN": self.places.dsn, "LOAD_CATALOG": str(self.places.catalog["uri"])}
        return {**self.places.environment, **mine}

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
        return {**self._of_workers(), "STATEFULSPARK_TOKEN": TOKEN}


def _printed(command: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints; a failure, and one that takes too long, ends the scenario."""
    shown = " ".join(command[len(driverprocess.COMMAND) :])
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within_s, env=environment)
    except subprocess.TimeoutExpired as error:
        raise ScenarioError(f"{shown} has not ended within {within_s:.0f} s") from error
    if done.returncode:
        raise ScenarioError(f"{shown} ended with {done.returncode}: {done.stderr[-600:]}")
    return done.stdout


def _url_of(driver: driverprocess.Driver) -> str:
    return f"http://127.0.0.1:{driver.port}"


def _ask(driver: driverprocess.Driver, path: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
    """Return what a driver's API answers; nothing if it is not there, or refuses."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    text = None if body is None else json.dumps(body).encode()
    try:
        asked = urllib.request.Request(_url_of(driver) + path, text, headers)  # noqa: S310 - a driver of ours
        with urllib.request.urlopen(asked, timeout=30.0) as answer:  # noqa: S310
            told: Mapping[str, object] = json.loads(answer.read())
            return told
    except (OSError, ValueError):
        return {}


def location_of(told: object) -> str:
    """Return the location of the snapshot that a command tells of."""
    if isinstance(told, dict):
        for name, value in told.items():
            if name == "location" and isinstance(value, str):
                return value
            if found := location_of(value):
                return found
    return ""


def last_error(driver: driverprocess.SparkDriver) -> str:
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
