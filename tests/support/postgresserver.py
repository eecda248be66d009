"""A real PostgreSQL for tests: on a free loopback port, over a folder of its own, ended by its process id.

PostgreSQL refuses to run as root, so root runs it as `nobody`, from a copy that this user can read. Fixtures: `postgres` is
one server for the whole run, `postgres_database` a new database in it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

BINARIES = Path(__file__).resolve().parents[2] / "build" / "postgres"
USER = "writer"
PASSWORD = "right"
_STARTS_WITHIN_S = 30.0
_ENDS_WITHIN_S = 10.0
_SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "shared_buffers=32MB")


class Postgres:
    """One server process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._output = folder / "postgres.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = itertools.count(1)

    def start(self) -> None:
        """Make the data folder if there is none, start the server and wait until it answers."""
        if not (BINARIES / "bin" / "postgres").exists():
            pytest.fail(f"{BINARIES} is missing; run `make postgres` first.", pytrace=False)
        data = self._folder / "data"
        if not data.exists():
            shutil.copytree(BINARIES, self._folder / "postgres", symlinks=True)
            password = self._folder / "password"
            password.write_text(PASSWORD)
            _give_away(self._folder)
            self._run(
                "initdb", "-D", str(data), "-U", USER, "--pwfile", str(password), "-A", "scram-sha-256", "--no-sync"
            )
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._program("postgres")), "-D", str(data), "-p", str(self.port), *settings],
                stdout=output,
                stderr=output,
                user=_other_user(),
            )
        self._wait_until_it_answers(self._process)

    def stop(self) -> None:
        """End the server at once, its connections with it."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_ENDS_WITHIN_S)
        self._process = None

    def dsn(self, database: str = "postgres", password: str = PASSWORD) -> str:
        """Return a connection string."""
        return f"host=127.0.0.1 port={self.port} user={USER} password={password} dbname={database}"

    def new_database(self) -> str:
        """Create a database with a name of its own and return its connection string."""
        name = f"database_{next(self._databases)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._program(program)), *arguments], capture_output=True, user=_other_user(), check=False, env=_ENV
        )
        if done.returncode:
            pytest.fail(f"{program} failed: {done.stderr.decode()[-2000:]}", pytrace=False)

    def _program(self, name: str) -> Path:
        return self._folder / "postgres" / "bin" / name

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < deadline_s and process.poll() is None:
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        self.stop()
        pytest.fail(f"PostgreSQL did not start: {self._output.read_text()[-2000:]}", pytrace=False)


_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def _other_user() -> str | None:
    return "nobody" if os.geteuid() == 0 else None


def _give_away(folder: Path) -> None:
    user = _other_user()
    if user is not None:
        shutil.chown(folder, user)
        for path in folder.iterdir():
            shutil.chown(path, user)


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a server while the block runs, in a folder that another user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="statefulspark-postgres-"))
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture
def postgres_database(postgres: Postgres) -> str:
    return postgres.new_database()
