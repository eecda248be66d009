"""Where a rehearsal keeps what it reads and writes: a folder that every task of the query reaches, removed at its end.

Tasks in the driver's own process reach this machine's disk. All that executors in other pods share is the job's storage, so
there it is a scratch folder with a name that is used once, to which no state refers. What a rehearsal that was killed has
left there is removed by the next one, or the next start (`recovery.scratch`).

Spark writes into the folder after the query's end, so it is removed once more when that has come by (`local_folder`).
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from statefulspark import clock, errors
from statefulspark.contract import layout
from statefulspark.engine import session as spark_session
from statefulspark.planning import local_folder
from statefulspark.recovery import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.storage import ObjectStore

_log = logging.getLogger(__name__)


class RehearsalFolder(Protocol):
    """A folder of one rehearsal."""

    @property
    def uri(self) -> str:
        """Hadoop URI, without a trailing slash."""
        ...

    def take(self, files: Sequence[tuple[str, str]], *, stops: Callable[[], bool]) -> None:
        """Copy files of the job into the folder.

        Args:
            files: Key below the job's root, and path in this folder, of each.
            stops: Asked between files; not all are there once it has said so.

        Raises:
            StatefulSparkError, Py4JError: A file could not be read.
        """
        ...

    def write(self, path: str, body: bytes) -> None:
        """Write a file.

        Raises:
            StatefulSparkError, OSError: It could not be written.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """On this machine, for tasks in the driver's process. Files are read as Spark reads them, so that its client is warm."""

    spark: SparkSession
    store: ObjectStore
    root: Path

    @property
    def uri(self) -> str:
        """See the port."""
        return self.root.as_uri()

    def take(self, files: Sequence[tuple[str, str]], *, stops: Callable[[], bool]) -> None:
        """See the port."""
        job_uri = spark_session.hadoop_uri(self.store.uri)
        for key, path in files:
            if stops():
                return
            spark_session.download(self.spark, f"{job_uri}/{key}", self._made(path))

    def write(self, path: str, body: bytes) -> None:
        """See the port."""
        self._made(path).write_bytes(body)

    def _made(self, path: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """On the job's storage, for executors. Files are copied by the store."""

    store: ObjectStore
    key: str

    @property
    def uri(self) -> str:
        """See the port."""
        return f"{spark_session.hadoop_uri(self.store.uri)}/{self.key}"

    def take(self, files: Sequence[tuple[str, str]], *, stops: Callable[[], bool]) -> None:
        """See the port."""

        def go_on(_: int) -> None:
            if stops():
                raise _StoppedError

        with contextlib.suppress(_StoppedError):
            self.store.copy_many([(key, f"{self.key}/{path}") for key, path in files], on_progress=go_on)

    def write(self, path: str, body: bytes) -> None:
        """See the port."""
        self.store.write(f"{self.key}/{path}", body)


class _StoppedError(Exception):
    """A copy is not needed any more."""


@contextlib.contextmanager
def on_this_machine(spark: SparkSession, store: ObjectStore) -> Iterator[RehearsalFolder]:
    """Make a folder on this machine, and remove it afterwards."""
    with local_folder.made(spark, "statefulspark-rehearsal-") as root:
        yield LocalFolder(spark, store, root)


@contextlib.contextmanager
def on_storage(spark: SparkSession, store: ObjectStore) -> Iterator[RehearsalFolder]:
    """Make a folder on the job's storage, and remove it afterwards, as well as those that were left behind.

    Raises:
        StatefulSparkError: Storage could not be listed.
    """
    scratch.clear_of_rehearsals(store, store.list_names(layout.SCRATCH), now=clock.utc_now())
    folder = SharedFolder(store, layout.rehearsal(uuid.uuid4().hex))
    try:
        yield folder
    finally:
        _remove(folder)
        local_folder.after_maintenance(spark, lambda: _remove(folder))


def open_folder(spark: SparkSession, store: ObjectStore) -> AbstractContextManager[RehearsalFolder]:
    """Return a folder that the executors of a session reach.

    Args:
        spark: The session.
        store: The job's root.
    """
    return (on_storage if spark_session.has_executors_elsewhere(spark) else on_this_machine)(spark, store)


def _remove(folder: SharedFolder) -> None:
    try:
        folder.store.delete_folder(folder.key)
    except errors.StatefulSparkError as error:
        _log.warning(
            "a rehearsal's folder is left for the next start", extra={"folder": folder.uri, "why": error.message}
        )
