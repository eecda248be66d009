"""Files of the newest state, read ahead to this machine, so that an activation reads from storage only what came since.

A state store is loaded by the first batch: its newest snapshot with all its tables, and the changes after it. These files
have names of their own and never change, so a copy needs no question whether it is current; it is taken where Spark would
have read the file (`io.statefulspark.storage`). A copy that is damaged fails its checksum as a damaged download would, and
the next start has none.

Nothing depends on a copy: what is not there, for want of space or time, is read from storage.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from py4j.protocol import Py4JError

from statefulspark import failures
from statefulspark.checkpoint import state_files as state_file_names
from statefulspark.engine import session as spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.contract.manifest import QueryEntry

FREE_SHARE = 0.5
"""Of the disk's free space at most; Spark and the other pods of the node need the rest."""
_READERS = 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a look has read.

    Attributes:
        read_bytes: What was read in this look.
        kept_bytes: What is there now.
        left_out_bytes: State that is not here, for want of room or because it could not be read.
    """

    read_bytes: int = 0
    kept_bytes: int = 0
    left_out_bytes: int = 0


class ReadAhead:
    """Keeps the state files of the newest checkpoint in a folder, which ends with this process."""

    def __init__(self, spark: SparkSession) -> None:
        """Make the folder beside those of Spark's state stores, into which a file can be moved without copying it.

        Args:
            spark: The session; executors in processes of their own have none of the copies, so nothing is kept for them.
        """
        self._spark = spark
        self._jvm = spark_session.jvm_view(spark)
        local = self._jvm.org.apache.spark.util.Utils.getLocalDir(spark._jsc.sc().conf())
        self._folder = Path(tempfile.mkdtemp(prefix="ahead-", dir=str(local)))
        self._partial = self._folder / ".partial"
        self._partial.mkdir()

    def follow(self, root_uri: str, queries: Iterable[QueryEntry], *, stops: Callable[[], bool]) -> Ahead:
        """Read what is missing of the state files of a checkpoint, and forget those of older ones.

        Args:
            root_uri: Root of the job.
            queries: The queries of a checkpoint in it.
            stops: Asked between two files; what was read so far stays.

        Returns:
            What was read and kept. What could not be read, for example because the checkpoint was pruned meanwhile, is a
            warning: the next look tries again.
        """
        if not self._is_used_here:
            return Ahead()
        files = state_files(spark_session.hadoop_uri(root_uri), queries)
        present = {uri: copy for uri in files if (copy := self._place(uri)).exists()}
        spared = frozenset(present.values())
        for file in [path for path in self._folder.rglob("*") if path.is_file() and path not in spared]:
            file.unlink(missing_ok=True)
        missing = {uri: size for uri, size in files.items() if uri not in present}
        chosen = fitting(missing, int(shutil.disk_usage(self._folder).free * FREE_SHARE))
        with ThreadPoolExecutor(_READERS, thread_name_prefix="read-ahead") as executor:
            outcomes = executor.map(functools.partial(self._try, stops=stops), chosen)
            read_bytes = sum(size for size, is_read in zip(chosen.values(), outcomes, strict=True) if is_read)
        kept_bytes = sum(files[uri] for uri in present) + read_bytes
        ahead = Ahead(read_bytes, kept_bytes, sum(missing.values()) - read_bytes)
        if ahead.read_bytes or ahead.left_out_bytes:
            _log.info(
                "read ahead",
                extra={"bytes": ahead.read_bytes, "kept_bytes": kept_bytes, "left_out_bytes": ahead.left_out_bytes},
            )
        return ahead

    def keeps(self, root_uri: str, bodies: Mapping[str, bytes]) -> bool:
        """Keep files that somebody else has read; tell whether anybody here can take them.

        Args:
            root_uri: Root of the job.
            bodies: Content of the files, by key below the root.
        """
        if not self._is_used_here:
            return False
        root = spark_session.hadoop_uri(root_uri)
        for key, body in bodies.items():
            copy = self._place(f"{root}/{key}")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(body)
        return True

    def offer(self) -> None:
        """Let Spark take the copies from now on."""
        self._jvm.io.statefulspark.storage.FilesAhead.offer(str(self._folder))

    @property
    def _is_used_here(self) -> bool:
        return not spark_session.has_executors_elsewhere(self._spark)

    def _try(self, uri: str, *, stops: Callable[[], bool]) -> bool:
        """Read a file unless it is too late; tell whether it is here."""
        if stops():
            return False
        try:
            descriptor, partial = tempfile.mkstemp(dir=self._partial)
            os.close(descriptor)
            spark_session.download(self._spark, uri, Path(partial))
            copy = self._place(uri)
            copy.parent.mkdir(parents=True, exist_ok=True)
            Path(partial).replace(copy)
        except (Py4JError, OSError) as error:
            _log.warning("a file was not read ahead", extra={"file": uri, "why": failures.essence(str(error))})
            return False
        return True

    def _place(self, uri: str) -> Path:
        """Return where the copy of a file is: below its bucket and key."""
        parts = urlsplit(uri)
        return self._folder / parts.netloc / parts.path.removeprefix("/")


def state_files(root_uri: str, queries: Iterable[QueryEntry]) -> dict[str, int]:
    """Return the files that Spark's state stores load, with their sizes in bytes, by URI.

    Args:
        root_uri: Hadoop URI of the job's root.
        queries: The queries of a checkpoint in it.
    """
    return {
        f"{root_uri}/{query.path}/{file.path}": file.size_bytes
        for query in queries
        for file in query.files
        if state_file_names.is_of_state_store(file.path)
    }


def fitting(files: Mapping[str, int], most_bytes: int) -> dict[str, int]:
    """Return the files that fit into a number of bytes, in their order; one that does not fit is left out."""
    chosen: dict[str, int] = {}
    left = most_bytes
    for uri, size_bytes in files.items():
        if size_bytes <= left:
            chosen[uri] = size_bytes
            left -= size_bytes
    return chosen
