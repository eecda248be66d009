"""`read_state` returns state of a snapshot as an Arrow table; `convert` writes a snapshot as a canonical savepoint.

Canonical savepoints and the state of functions without keys are read directly. Keyed state and Spark's own operators in
checkpoints and native savepoints are read with Spark, on this machine.
"""

from __future__ import annotations

import tempfile
from types import ModuleType
from typing import TYPE_CHECKING

from statefulspark import errors, storage
from statefulspark.checkpoint import catalog, progress, savepoint, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind
from statefulspark.recovery import candidates

if TYPE_CHECKING:
    import pyarrow as pa

    from statefulspark.canonical.reading import StateSelection
    from statefulspark.storage import StorageOptions


def read_state(
    uri: str,
    *,
    uid: str,
    state: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    options: StorageOptions | None = None,
) -> pa.Table:
    """Read the state of an operator or function out of a snapshot; nothing is changed and no job has to run.

    Args:
        uri: The snapshot's folder: of a checkpoint, or of a native or canonical savepoint.
        uid: The uid of an operator, function or stateful source, or `query/uid`. Spark's own operators are named
            `<name>-<operator id>`.
        state: Name of the state; may be omitted if there is only one.
        key: Only this key, as text.
        limit: At most this many rows.
        options: How to reach storage; from the `AWS_*` variables when omitted; a `file://` folder needs none.

    Returns:
        One row per value, list element or map entry: `key` (or `key_1`, …), `index` or `entry`, `value`, and `renewed_ms`
        with a time to live; fields of records have their names. Timers are states named `_timer_state/…`, whose `entry` is
        the time in ms since 1970. For Spark's own operators `partition_key`, `key` and `value`; for functions and
        sources `state`, `mode`, `subtask` and `element`.

    Raises:
        InvalidArgumentError: `SnapshotNotFound`, `StateNotFound`, or `EngineMissing`: a native snapshot, and no pyspark,
            or a Spark that runs in this process without the classes of this product.
        SnapshotCorruptError: A file is missing or damaged.
    """
    from statefulspark.canonical import reading

    # A folder of this machine may be read: what is refused elsewhere is to keep state where no other node finds it.
    reaching = options or storage.StorageOptions.from_env(allow_local_files=True)
    return read(uri, reading.StateSelection(uid, state, key, limit), reaching)


def read(uri: str, selection: StateSelection, options: StorageOptions) -> pa.Table:
    """Read the requested state; see `read_state`."""
    from statefulspark.canonical import functions, reading, skeleton

    folder = layout.snapshot_folder(uri)
    snapshot = candidates.find(
        storage.open_store(folder, options), folder, lambda other: storage.open_store(other, options)
    )
    if snapshot.manifest is None:
        raise errors.InternalError("ManifestMissing", f"{uri} was found without a manifest.")
    query, uid = reading.find(snapshot.manifest, selection)
    function = functions.read(snapshot.location, query, selection, uid)
    if function is not None:
        return function
    if skeleton.is_canonical(snapshot.manifest):
        return reading.read_operator(snapshot.location, query, selection, uid)
    offline = _engine(uri)
    with tempfile.TemporaryDirectory(prefix="statefulspark-") as scratch:
        local = storage.StorageOptions(allow_local_files=True)
        target = offline.target(storage.open_store(f"file://{scratch}", local))
        (entry,) = offline.convert(snapshot.location, [query], target, local, only=uid)
        return reading.read_operator(transfer.SnapshotLocation(target.store, target.folder), entry, selection, uid)


def convert(
    uri: str, parent: str, folder: str, options: StorageOptions, *, on_progress: progress.Report | None = None
) -> Manifest:
    """Write a snapshot as a canonical savepoint; the snapshot itself is unchanged.

    Args:
        uri: The snapshot's folder.
        parent: URI of the folder in which the savepoint is created.
        folder: Its name there.
        options: How to reach storage.
        on_progress: Called for every file that is copied to this machine and every operator that is written.

    Returns:
        Its manifest, which is written last.

    Raises:
        InvalidArgumentError: `SnapshotNotFound`; `AlreadyCanonical`; `EngineMissing`.
        SnapshotCorruptError: `SnapshotBroken`: the snapshot does not verify; nothing was written.
        PreconditionFailedError: `SavepointExists`.
    """
    snapshot = candidates.find(storage.open_store(uri, options), uri, lambda other: storage.open_store(other, options))
    manifest = snapshot.manifest
    if manifest is None or manifest.format is SnapshotFormat.CANONICAL:
        raise errors.InvalidArgumentError(
            "AlreadyCanonical", f"{uri} is canonical already; copy it with `statefulspark savepoint copy`."
        )
    report = verify.verify_queries(snapshot.location.store, snapshot.queries, root=snapshot.location.root)
    if not report.ok:
        raise errors.SnapshotCorruptError("SnapshotBroken", f"{uri} cannot be converted: {report.sentence}")
    target = savepoint.SavepointTarget(storage.open_store(parent, options), folder)
    if target.store.info(layout.snapshot_manifest(folder)) is not None:
        raise errors.PreconditionFailedError(
            "SavepointExists", f"{target.uri} is a savepoint already; name another folder."
        )
    entries = _engine(uri).convert(snapshot.location, snapshot.queries, target, options, on_progress=on_progress)
    converted = manifest.model_copy(
        update={"kind": SnapshotKind.SAVEPOINT, "format": SnapshotFormat.CANONICAL, "queries": entries}
    )
    catalog.write_manifest(target.store, folder, converted)
    return converted


def _engine(uri: str) -> ModuleType:
    try:
        from statefulspark.engine.canonical import offline
    except ModuleNotFoundError as error:
        raise errors.InvalidArgumentError(
            "EngineMissing",
            f"{uri} is a native snapshot, whose state only Spark can read, and {error.name} is not installed here; install "
            "statefulspark[spark], or take a canonical savepoint, which needs no engine.",
        ) from error
    return offline
