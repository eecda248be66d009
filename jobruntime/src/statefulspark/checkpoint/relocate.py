"""Copies a savepoint to another folder, in another bucket too; the copy is as good as the original (A.173).

Every path in a savepoint is relative, so its manifest is copied as it is, and last: a copy that was interrupted is no
savepoint, and repeating it goes on where it ended. Copies are made by the object store itself wherever it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import catalog, listing, transfer, verify
from statefulspark.contract.manifest import MANIFEST_NAME, Manifest, SnapshotKind
from statefulspark.contract.notes import CLAIM_NAME, WRITER_NAME
from statefulspark.storage.port import ObjectInfo, ObjectStore

_NOT_COPIED = (MANIFEST_NAME, CLAIM_NAME, WRITER_NAME)
"""The manifest goes last; who owns the original and who made it is not true of the copy."""
_CHUNK = 64
"""Files copied between two reports of bytes."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy came to.

    Attributes:
        manifest: The savepoint's.
        files: Number of its files.
        size_bytes: All of them.
        copied_files: Those that were not there already.
    """

    manifest: Manifest
    files: int
    size_bytes: int
    copied_files: int


def relocate(
    source: ObjectStore,
    folder: str,
    target: ObjectStore,
    target_folder: str,
    *,
    on_progress: Callable[[int, int], None] = lambda done_bytes, total_bytes: None,
) -> Copied:
    """Copy a savepoint; the original stays. Idempotent: files that are there already are left as they are.

    Cost: what `verify.verify` costs, a listing of both folders, a copy per file, one PUT.

    Args:
        source: Any store.
        folder: The savepoint's folder below it.
        target: Any store.
        target_folder: The copy's folder below it.
        on_progress: Called with bytes done and bytes in all.

    Returns:
        What was copied.

    Raises:
        ObjectNotFoundError: The folder is no snapshot.
        SpecRejectedError: `NotASavepoint`, or `TargetInsideSource`.
        SnapshotCorruptError: `SnapshotBroken`: the original is not whole. `CopyIncomplete`: the copy is not.
        PreconditionFailedError: `SavepointExists`: another savepoint is there.
    """
    manifest = _readable(source, folder, target, target_folder)
    named = [f"{query.path}/{file.path}" for query in manifest.queries for file in query.files]
    listed = listing.below(source, folder, needed=named)
    files = {key: info for key, info in listed.items() if key not in _NOT_COPIED}
    present = listing.below(target, target_folder)
    missing = [key for key, info in sorted(files.items()) if not _is_there(present.get(key), info)]
    total_bytes = sum(info.size_bytes for info in files.values())
    done_bytes = total_bytes - sum(files[key].size_bytes for key in missing)
    for first in range(0, len(missing), _CHUNK):
        on_progress(done_bytes, total_bytes)
        chunk = missing[first : first + _CHUNK]
        transfer.copy(source, target, [(f"{folder}/{key}", f"{target_folder}/{key}") for key in chunk])
        done_bytes += sum(files[key].size_bytes for key in chunk)
    on_progress(total_bytes, total_bytes)
    _require_whole(target, target_folder, files)
    if MANIFEST_NAME not in present:
        _write_manifest_last(source, folder, target, target_folder)
    return Copied(manifest, len(files), total_bytes, len(missing))


def _readable(source: ObjectStore, folder: str, target: ObjectStore, target_folder: str) -> Manifest:
    manifest = catalog.read_manifest(source, folder)
    here, there = f"{source.uri}/{folder}", f"{target.uri}/{target_folder}"
    if manifest.kind is not SnapshotKind.SAVEPOINT:
        raise errors.SpecRejectedError(
            "NotASavepoint",
            f"{here} is {manifest.label}, whose files lie in the job's folder; take a savepoint, and copy that.",
        )
    if f"{there}/".startswith(f"{here}/"):
        raise errors.SpecRejectedError(
            "TargetInsideSource", f"{there} is the savepoint itself, or inside it; name another folder."
        )
    _require_free(target, target_folder, manifest)
    report = verify.verify(source, manifest, root=folder)
    if not report.ok:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken", f"{manifest.label} at {here} is not whole, so it was not copied: {report.sentence}"
        )
    return manifest


def _require_free(target: ObjectStore, target_folder: str, manifest: Manifest) -> None:
    try:
        there = catalog.read_manifest(target, target_folder)
    except errors.ObjectNotFoundError:
        return
    if there != manifest:
        raise errors.PreconditionFailedError(
            "SavepointExists",
            f"{target.uri}/{target_folder} holds {there.label} of {there.namespace}/{there.job} already.",
        )


def _require_whole(target: ObjectStore, target_folder: str, files: Mapping[str, ObjectInfo]) -> None:
    present = listing.below(target, target_folder, needed=files)
    lacking = next((key for key, info in files.items() if not _is_there(present.get(key), info)), None)
    if lacking is not None:
        raise errors.SnapshotCorruptError(
            "CopyIncomplete", f"{target.uri}/{target_folder}/{lacking} is not complete after the copy; copy again."
        )


def _write_manifest_last(source: ObjectStore, folder: str, target: ObjectStore, target_folder: str) -> None:
    """Copy it byte by byte, so that what a newer release wrote into it is kept."""
    try:
        target.create(f"{target_folder}/{MANIFEST_NAME}", source.read(f"{folder}/{MANIFEST_NAME}"))
    except errors.ObjectExistsError as error:
        raise errors.PreconditionFailedError(
            "SavepointExists", f"{target.uri}/{target_folder} was completed by somebody else; nothing was overwritten."
        ) from error


def _is_there(info: ObjectInfo | None, original: ObjectInfo) -> bool:
    return info is not None and info.size_bytes == original.size_bytes
