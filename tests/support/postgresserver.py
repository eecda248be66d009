"""A real PostgreSQL for tests: on a free loopback port, over a folder of its own, ended by its process id.

PostgreSQL refuses to run as root, so root runs it as `nobody`, from a copy that this user can read. Fixtures: `postgres` is
one server for the whole run, `postgres_database` a new database in it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import processes
import psycopg
import pytest

BINARIES = Path(__file__).resolve().parents[2] / "build" / "postgres"
USER = "writer"
PASSWORD = "right"
_SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "shared_buffers=32MB")


class Postgres(processes.Server):
    """One server process; it is ended at once, its connections with it."""

    ends_with = signal.SIGQUIT

    def __init__(self, folder: Path) -> None:
        super().__init__("PostgreSQL", folder / "postgres.log", user=_other_user())
        self.port = processes.free_port()
        self._folder = folder
        self._databases = itertools.count(1)

    def command(self) -> Sequence[str]:
        """Make the data folder if there is none, and return what to start."""
        processes.require(BINARIES / "bin" / "postgres", "postgres")
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
        return [str(self._program("postgres")), "-D", str(data), "-p", str(self.port), *settings]

    def answers(self) -> bool:
        """Tell whether it takes connections."""
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def dsn(self, database: str = "postgres", password: str = PASSWORD) -> str:
        """Return a connection string."""
        return f"host=127.0.0.1 port={self.port} user={USER} password={password} dbname={database}"

    def new_database(self) -> str:
        """Create a database with a name of its own and return its connection string."""
        name = f"database_{next(self._databases)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def back_up(self, folder: Path) -> None:
        """Take an online backup into an empty folder, from which a server can be started; this one goes on."""
        data, copy = self._folder / "data", folder / "data"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_backup_start('nightly', true)")
            shutil.copytree(data, copy, ignore=shutil.ignore_patterns("postmaster.*", "pg_wal"))
            row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert row is not None
        (copy / "backup_label").write_text(row[0])
        shutil.copytree(data / "pg_wal", copy / "pg_wal")
        shutil.copytree(BINARIES, folder / "postgres", symlinks=True)
        for path in (folder, *folder.iterdir(), *copy.rglob("*")):
            _give_to_other_user(path)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._program(program)), *arguments], capture_output=True, user=_other_user(), check=False, env=_ENV
        )
        if done.returncode:
            pytest.fail(f"{program} failed: {done.stderr.decode()[-2000:]}", pytrace=False)

    def _program(self, name: str) -> Path:
        return self._folder / "postgres" / "bin" / name


_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def _other_user() -> str | None:
    return "nobody" if os.geteuid() == 0 else None


def _give_away(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        _give_to_other_user(path)


def _give_to_other_user(path: Path) -> None:
    user = _other_user()
    if user is not None:
        shutil.chown(path, user)


@contextmanager
def a_folder() -> Iterator[Path]:
    """Make a folder that another user can reach, while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="statefulspark-postgres-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a server while the block runs."""
    with a_folder() as folder, processes.serving(Postgres(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture
def postgres_database(postgres: Postgres) -> str:
    return postgres.new_database()
