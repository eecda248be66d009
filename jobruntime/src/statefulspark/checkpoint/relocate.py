"""Copies a savepoint to another folder or bucket; the copy can be restored like the original (A.173).

Every path in a savepoint is relative, so its manifest is copied unchanged. It is copied last: an interrupted copy is not a
savepoint, and a repeated copy continues where it stopped. The object store makes the copies itself if it can.

The target may have what is left of the copy of another savepoint. Files of state have names of their own; the others, as
Spark's logs, may have the same name and size, so their content is compared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import catalog, listing, state_files, transfer, verify
from statefulspark.contract import layout
from statefulspark.contract.manifest import Manifest, SnapshotKind
from statefulspark.contract.notes import CLAIM_NAME, WRITER_NAME
from statefulspark.storage.port import ObjectInfo, ObjectStore

_NOT_COPIED = (layout.MANIFEST_NAME, CLAIM_NAME, WRITER_NAME)
"""The manifest is copied last; the claim and the writer of the original do not apply to the copy."""
_CHUNK = 64
"""Number of files copied between two progress reports, or compared at once."""
_COMPARED_BYTES = 2**20
"""A larger file without a name of its own is copied again."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Result of a copy.

    Attributes:
        manifest: Manifest of the savepoint.
        files: Number of its files.
        size_bytes: Total size of its files.
        copied_files: Number of files that were copied; the others existed already.
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
    """Copy a savepoint; the original stays. Idempotent: files that exist already are not copied again.

    Cost: what `verify.verify` costs, a listing of both folders, a copy per file, one PUT; after an interruption two reads of
    each small file that exists already.

    Args:
        source: Any store.
        folder: The savepoint's folder below it.
        target: Any store.
        target_folder: The copy's folder below it.
        on_progress: Called with the copied and the total bytes.

    Returns:
        What was copied.

    Raises:
        ObjectNotFoundError: The folder is not a snapshot.
        SpecRejectedError: `NotASavepoint`, or `TargetInsideSource`.
        SnapshotCorruptError: `SnapshotBroken`: the original is damaged. `CopyIncomplete`: the copy is incomplete.
        PreconditionFailedError: `SavepointExists`: the target folder holds another savepoint.
    """
    manifest = _checked_manifest(source, folder, target, target_folder)
    named = [f"{query.path}/{file.path}" for query in manifest.queries for file in query.files]
    listed = listing.below(source, folder, needed=named)
    files = {key: info for key, info in listed.items() if key not in _NOT_COPIED}
    present = listing.below(target, target_folder)
    there = {key for key, info in files.items() if _is_complete(present.get(key), info)}
    if layout.MANIFEST_NAME not in present:
        there -= _different(source.child(folder), target.child(target_folder), {key: files[key] for key in there})
    missing = sorted(files.keys() - there)
    total_bytes = sum(info.size_bytes for info in files.values())
    done_bytes = total_bytes - sum(files[key].size_bytes for key in missing)
    for first in range(0, len(missing), _CHUNK):
        on_progress(done_bytes, total_bytes)
        chunk = missing[first : first + _CHUNK]
        transfer.copy(source, target, [(f"{folder}/{key}", f"{target_folder}/{key}") for key in chunk])
        done_bytes += sum(files[key].size_bytes for key in chunk)
    on_progress(total_bytes, total_bytes)
    copied = listing.below(target, target_folder, needed=files)
    incomplete = next((key for key, info in files.items() if not _is_complete(copied.get(key), info)), None)
    if incomplete is not None:
        raise errors.SnapshotCorruptError(
            "CopyIncomplete", f"{target.uri}/{target_folder}/{incomplete} is not complete after the copy; copy again."
        )
    if layout.MANIFEST_NAME not in present:
        try:
            # The bytes are copied unchanged, so that fields of a newer release are kept.
            target.create(layout.snapshot_manifest(target_folder), source.read(layout.snapshot_manifest(folder)))
        except errors.ObjectExistsError as error:
            raise errors.PreconditionFailedError(
                "SavepointExists",
                f"{target.uri}/{target_folder} was completed by another process; nothing was overwritten.",
            ) from error
    return Copied(manifest, len(files), total_bytes, len(missing))


def _checked_manifest(source: ObjectStore, folder: str, target: ObjectStore, target_folder: str) -> Manifest:
    manifest = catalog.read_manifest(source, folder)
    source_uri, target_uri = f"{source.uri}/{folder}", f"{target.uri}/{target_folder}"
    if manifest.kind is not SnapshotKind.SAVEPOINT:
        raise errors.SpecRejectedError(
            "NotASavepoint",
            f"{source_uri} is {manifest.label}, whose files are in the job's folder; take a savepoint, and copy that.",
        )
    if f"{target_uri}/".startswith(f"{source_uri}/"):
        raise errors.SpecRejectedError(
            "TargetInsideSource", f"{target_uri} is the savepoint itself, or inside it; name another folder."
        )
    with contextlib.suppress(errors.ObjectNotFoundError):
        try:
            present = catalog.read_manifest(target, target_folder)
        except errors.SnapshotCorruptError as error:
            raise errors.PreconditionFailedError(
                "SavepointExists",
                f"{target_uri} has a {layout.MANIFEST_NAME} already, which is not that of this savepoint and was not "
                f"overwritten; name another folder. {error.message}",
            ) from error
        if present != manifest:
            raise errors.PreconditionFailedError(
                "SavepointExists", f"{target_uri} holds {present.label} of {present.namespace}/{present.job} already."
            )
    report = verify.verify(source, manifest, root=folder)
    if not report.ok:
        raise errors.SnapshotCorruptError(
            "SnapshotBroken",
            f"{manifest.label} at {source_uri} is not complete, so it was not copied: {report.sentence}",
        )
    return manifest


def _different(original: ObjectStore, copy: ObjectStore, files: Mapping[str, ObjectInfo]) -> set[str]:
    """Return the files of equal size that may have another content in a copy."""
    unsure = [key for key in files if not state_files.is_named_once(key.split("/", 2)[-1])]
    different = {key for key in unsure if files[key].size_bytes > _COMPARED_BYTES}
    compared = [key for key in unsure if key not in different]
    for first in range(0, len(compared), _CHUNK):
        chunk = compared[first : first + _CHUNK]
        bodies, copied = original.read_many(chunk), copy.read_many(chunk)
        different |= {key for key in chunk if bodies[key] != copied[key]}
    return different


def _is_complete(info: ObjectInfo | None, original: ObjectInfo) -> bool:
    return info is not None and info.size_bytes == original.size_bytes
