"""Checkpoint roots on this machine, while Spark prepares state there for a start.

Spark's tasks ask storage several questions for each file that they read or write, one after the other: with an answer after
0.3 s, spreading 100 KB of state took three minutes a query. Here they ask this machine's disk, and what crosses the network
are the files alone, several at a time. Executors in other pods do not reach that disk; for them roots stay on storage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from statefulspark import storage
from statefulspark.checkpoint import checksums, transfer
from statefulspark.engine import session as spark_session
from statefulspark.evolution import rewrite
from statefulspark.planning import local_folder, state_copy
from statefulspark.storage.options import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.storage.port import ObjectInfo, ObjectStore

_LOCAL = "file://"


@contextlib.contextmanager
def root_of(spark: SparkSession, store: ObjectStore, query_path: str) -> Iterator[str]:
    """Give the block the Hadoop URI of a query's root that it may add files to.

    The root is brought to this machine if all tasks run here and it is no larger than what a rehearsal copies, and what was
    added is taken back in any order: nothing may use the root yet. An error of the block leaves it as it was.

    Args:
        spark: The session.
        store: The job's root.
        query_path: The query's root in it.

    Raises:
        StatefulSparkError: A file could not be read, or not be written here or there.
    """
    hadoop_root = f"{spark_session.hadoop_uri(store.uri)}/{query_path}"
    if spark_session.has_executors_elsewhere(spark) or store.uri.startswith(_LOCAL):
        yield hadoop_root
        return
    there = store.child(query_path)
    files = [info for info in there.list("") if rewrite.is_spark_file(info.key)]
    if not state_copy.are_few(info.size_bytes for info in files):
        yield hadoop_root
        return
    with _on_this_machine(spark) as here:
        carry(there, here, {info.key: info.key for info in files}, here.uri)
        before = {info.key: info.etag for info in here.list("")}
        yield here.uri
        carry(here, there, {path: path for path in changed(here.list(""), before)}, hadoop_root)


@contextlib.contextmanager
def scratch(spark: SparkSession, store: ObjectStore, folder: str) -> Iterator[ObjectStore]:
    """Give the block an empty root that every task of Spark reaches, and remove it afterwards.

    Args:
        spark: The session.
        store: The job's root.
        folder: Where in it executors in other pods have that root; what is there is deleted.

    Raises:
        StatefulSparkError: Storage could not be listed, or not be cleared.
    """
    if not spark_session.has_executors_elsewhere(spark):
        with _on_this_machine(spark) as here:
            yield here
        return
    store.delete_folder(folder)
    try:
        yield store.child(folder)
    finally:
        store.delete_folder(folder)


@contextlib.contextmanager
def _on_this_machine(spark: SparkSession) -> Iterator[ObjectStore]:
    with local_folder.made(spark, "statefulspark-state-") as folder:
        yield storage.open_store(folder.as_uri(), StorageOptions(allow_local_files=True))


def changed(files: Iterable[ObjectInfo], before: dict[str, str]) -> list[str]:
    """Return the files that were added or written anew, without the checksums that Hadoop keeps beside local files only.

    Args:
        files: What is in a folder.
        before: Etags of what was there before, by key.
    """
    new = {info.key for info in files if before.get(info.key) != info.etag}
    hadoops = {checksums.hadoop_sidecar(key) for key in new}
    return sorted(new - hadoops)


def carry(source: ObjectStore, target: ObjectStore, paths: Mapping[str, str], root: str) -> None:
    """Copy files of a checkpoint root into another one.

    Args:
        source: The root that they are in.
        target: The root that they come into.
        paths: The new path of each by its old one. Checksums of files that are rewritten are left out.
        root: Hadoop URI of the new root, which the copies name where the files name their own.

    Raises:
        StatefulSparkError: A file could not be read, or not be written.
    """
    moved = {old: new for old, new in paths.items() if rewrite.holds_paths(old)}
    left_out = {*moved, *(sidecar for old in moved for sidecar in checksums.sidecars(old))}
    transfer.copy(source, target, [(old, new) for old, new in paths.items() if old not in left_out])
    for old, new in moved.items():
        target.write(new, rewrite.relocate_operator(source.read(old), f"{source.uri}/{old}", {}, root))
