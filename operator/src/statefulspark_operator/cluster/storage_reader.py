"""Reads the content of a job's folder on storage, and deletes it when the job's state is to be deleted.

It uses the runtime's own readers, so that operator and driver always agree on which snapshots are complete. An unknown
content is returned as unknown, never as empty.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from statefulspark import clock, errors, storage
from statefulspark.checkpoint import catalog, epochs, read_cache, verify
from statefulspark.contract import layout
from statefulspark.contract.config import Addressing
from statefulspark.contract.manifest import Manifest, SnapshotFormat, SnapshotKind, Trigger
from statefulspark.recovery import external_savepoints
from statefulspark.retention import disposal, owners, purging
from statefulspark.storage.authorities import Authority

from statefulspark_operator.api.code import ObjectCode
from statefulspark_operator.api.spec import Checkpoint, Storage
from statefulspark_operator.api.status import SnapshotStatus
from statefulspark_operator.cluster import permits, storage_pruning, storage_threads
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.cluster.open_stores import OpenStores, StoreOpener
from statefulspark_operator.cluster.storage_code import CodeCopies, CodePlace
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder
from statefulspark_operator.lifecycle.storage_facts import (
    CheckpointFact,
    SavepointFact,
    StorageFacts,
    StorageUnreadable,
)

_LOOKED_AT = 3
"""Number of savepoints among which that of a request is looked for: one is made at a time."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StorageTarget:
    """The storage of one job's state, and its credentials.

    Attributes:
        storage: The storage section of the spec.
        namespace: The job's namespace.
        job: The job's name.
        credentials: Values of the credentials Secret; None if the spec names none.
        owner_id: Uid of the job's resource; None if it is gone.
        authority: The authorities that are trusted beside the operator's own; None if the spec names none.
    """

    storage: Storage
    namespace: str
    job: str
    credentials: Mapping[str, str] | None
    owner_id: str | None = None
    authority: Authority | None = None

    @property
    def owner(self) -> str:
        """The name of the job, in the cluster."""
        return f"{self.namespace}/{self.job}"

    @property
    def asker(self) -> owners.Asker:
        """The job, as its documents on storage name it."""
        return owners.Asker(self.namespace, self.job, self.owner_id)


@dataclass(frozen=True, slots=True)
class NoSavepoint:
    """There is no complete savepoint in a folder.

    Attributes:
        why: What is wrong, in one sentence.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Sought:
    """A savepoint that is looked for by the name that its request gave it.

    Attributes:
        name: That name.
        form: Its format.
        location: Folder in which it was asked for; None if nobody said where.
    """

    name: str
    form: SnapshotFormat
    location: str | None = None

    def fits(self, manifest: Manifest, location: str) -> bool:
        """Tell whether a savepoint is the one; those of stops are not, which are named by why they were taken."""
        if (manifest.savepoint_name, manifest.format, manifest.trigger) != (self.name, self.form, Trigger.MANUAL):
            return False
        return self.location is None or location.startswith(f"{self.location.rstrip('/')}/")


class StorageReader(Protocol):
    """The operator's view of storage."""

    async def read(
        self, target: StorageTarget, *, savepoint: str | None, requests: tuple[str, ...] = ()
    ) -> StorageFacts | StorageUnreadable:
        """Read the content of a job's folder.

        Args:
            target: The job's storage.
            savepoint: Folder of a savepoint to check for completeness; None checks none.
            requests: Ids of which one may be that of a savepoint, which is looked for; none looks for none.
        """
        ...

    async def find_savepoint(
        self, target: StorageTarget, location: str
    ) -> SnapshotStatus | NoSavepoint | StorageUnreadable:
        """Read a savepoint's manifest, and check that its files are there.

        Args:
            target: The job's storage, by whose connection the savepoint is read.
            location: Folder of the savepoint, also outside the job's folder.
        """
        ...

    async def find_named(
        self, target: StorageTarget, sought: tuple[Sought, ...]
    ) -> Mapping[str, SnapshotStatus] | StorageUnreadable:
        """Return the newest complete savepoint of the job for each name that there is one for.

        Args:
            target: The job's storage; its folder names also the savepoints that are elsewhere.
            sought: What is looked for.
        """
        ...

    async def dispose(self, target: StorageTarget, location: str) -> None:
        """Delete the files of a savepoint; the call may be repeated.

        Raises:
            SpecRejectedError: `NotASavepoint`: there is something else in the folder; `StateKept`: it is not the job's.
                Nothing was deleted.
            TransientError: Storage did not answer; a part may already be deleted.
            StateUnknownError: Storage refused the request.
        """
        ...

    async def prune(self, target: StorageTarget, checkpoint: Checkpoint, *, epoch: int, now: datetime) -> PrunedFolder:
        """Remove the files of a job's folder that no snapshot needs, and mark what may be removed later.

        Args:
            target: The job's storage.
            checkpoint: How much is kept.
            epoch: Epoch of the driver that has ended.
            now: UTC.

        Raises:
            SpecRejectedError: `StateKept`: the folder is not the job's; nothing was deleted.
            PreconditionFailedError: Another epoch than that is the newest, or somebody else prunes; what was not deleted
                stays.
            TransientError: Storage did not answer; a part may already be deleted.
            StateUnknownError: Storage refused the request.
        """
        ...

    async def purge(self, target: StorageTarget) -> Freed:
        """Delete everything below a job's folder but the proof of it, and return what that was; the call may be repeated.

        Raises:
            SpecRejectedError: `StateKept`: the folder is not the job's; nothing was deleted.
            TransientError: Storage did not answer; a part may already be deleted.
            StateUnknownError: Storage refused the request.
        """
        ...

    async def check_code(self, target: StorageTarget, source: ObjectCode, file: str) -> None:
        """Check that code is there, has its checksum, and has the job's file.

        Args:
            target: The job's storage, by whose connection the code is read.
            source: The code; what is kept of it in the job's folder is taken first.
            file: The path of the job's file in it.

        Raises:
            SpecRejectedError: `CodeMissing`, `CodeChecksumMismatch`, `CodeTooLarge` or `CodeArchiveInvalid`.
            TransientError: Storage did not answer.
            StateUnknownError: Storage refused the request.
        """
        ...

    async def keep_code(self, target: StorageTarget, source: ObjectCode) -> None:
        """Copy code into the job's folder, unless it is there; raises what `check_code` raises."""
        ...

    async def drop_code(self, target: StorageTarget, checksums: frozenset[str]) -> None:
        """Delete kept code that no revision needs any more, unless the folder is another's; absent code is no error.

        Raises:
            TransientError: Storage did not answer.
            StateUnknownError: Storage refused the request.
        """
        ...

    def forget(self, key: JobKey) -> None:
        """Drop the connections of a job that is gone."""
        ...


class SnapshotStorageReader:
    """Reads storage with the runtime's readers, in threads."""

    def __init__(
        self,
        open_store: StoreOpener = storage.open_store,
        threads: storage_threads.StorageThreads | None = None,
        *,
        allowed: permits.Permits | None = None,
    ) -> None:
        """Create a reader without connections; they are opened at first use and reused.

        Args:
            open_store: Returns the store at a URI.
            threads: Where the work is done.
            allowed: What the installation allows; without it, the operator's own identity is used nowhere.
        """
        self._threads = threads or storage_threads.StorageThreads()
        self._allowed = allowed or permits.Permits()
        self._stores = OpenStores(open_store)
        self._code = CodeCopies()

    @property
    def open_stores(self) -> int:
        """Number of stores that are open."""
        return len(self._stores)

    def forget(self, key: JobKey) -> None:
        """Drop the connections of a job that is gone."""
        self._stores.forget(str(key))

    async def read(
        self, target: StorageTarget, *, savepoint: str | None, requests: tuple[str, ...] = ()
    ) -> StorageFacts | StorageUnreadable:
        """Read the content of a job's folder."""
        try:
            return await self._run(target, lambda: self._read(target, savepoint, requests))
        except errors.TransientError as error:
            return StorageUnreadable(error.reason, error.message)
        except errors.StatefulSparkError as error:
            return StorageUnreadable(error.reason, error.message, may_pass=False)

    async def find_savepoint(
        self, target: StorageTarget, location: str
    ) -> SnapshotStatus | NoSavepoint | StorageUnreadable:
        """Read a savepoint's manifest, and check that its files are there."""
        try:
            return await self._run(target, lambda: self._find_savepoint(target, location.rstrip("/")))
        except (errors.ObjectNotFoundError, errors.SnapshotCorruptError) as error:
            return NoSavepoint(error.message)
        except errors.TransientError as error:
            return StorageUnreadable(error.reason, error.message)
        except errors.StatefulSparkError as error:
            return StorageUnreadable(error.reason, error.message, may_pass=False)

    async def find_named(
        self, target: StorageTarget, sought: tuple[Sought, ...]
    ) -> Mapping[str, SnapshotStatus] | StorageUnreadable:
        """Return the newest complete savepoint of the job for each name that there is one for."""
        try:
            return await self._run(target, lambda: self._find_named(target, sought))
        except errors.TransientError as error:
            return StorageUnreadable(error.reason, error.message)
        except errors.StatefulSparkError as error:
            return StorageUnreadable(error.reason, error.message, may_pass=False)

    async def dispose(self, target: StorageTarget, location: str) -> None:
        """Delete the files of a savepoint; the call may be repeated."""
        parent, _, folder = location.rstrip("/").rpartition("/")

        def work() -> int:
            # The permit is for the folder, and not for the one above it, in which others may have theirs.
            self._require_permit(location, target)
            store, root = self._opened(parent, target), self._root(target)
            return disposal.dispose(store, folder, root=root, asker=target.asker, now=clock.utc_now())

        await self._threads.delete_beside(_store_of(target), target.owner, work)

    async def prune(self, target: StorageTarget, checkpoint: Checkpoint, *, epoch: int, now: datetime) -> PrunedFolder:
        """Remove the files of a job's folder that no snapshot needs, and mark what may be removed later."""
        return await self._threads.delete(
            _store_of(target),
            target.owner,
            lambda: storage_pruning.prune(self._root(target), checkpoint, asker=target.asker, epoch=epoch, now=now),
        )

    async def purge(self, target: StorageTarget) -> Freed:
        """Delete everything below a job's folder but the proof of it, and return what that was; the call may be repeated."""
        return await self._threads.delete(_store_of(target), target.owner, lambda: self._purge(target))

    async def check_code(self, target: StorageTarget, source: ObjectCode, file: str) -> None:
        """Check that code is there, has its checksum, and has the job's file."""
        await self._run(target, lambda: self._code.check(self._code_place(target), source, file))

    async def keep_code(self, target: StorageTarget, source: ObjectCode) -> None:
        """Copy code into the job's folder, unless it is there."""
        await self._run(target, lambda: self._code.keep(self._code_place(target), source))

    async def drop_code(self, target: StorageTarget, checksums: frozenset[str]) -> None:
        """Delete kept code that no revision needs any more."""
        await self._run(target, lambda: storage_pruning.drop_code(self._root(target), checksums, target.asker))

    def _code_place(self, target: StorageTarget) -> CodePlace:
        return CodePlace(self._root(target), lambda uri: self._open(uri, target))

    async def _run(self, target: StorageTarget, work: Callable[[], Result]) -> Result:
        return await self._threads.run(_store_of(target), target.owner, work)

    def _open(self, uri: str, target: StorageTarget) -> storage.ObjectStore:
        """Return the store at a location that may be opened for a job, wherever the location was named."""
        self._require_permit(uri, target)
        return self._opened(uri, target)

    def _opened(self, uri: str, target: StorageTarget) -> storage.ObjectStore:
        spec, credentials = target.storage.s3, target.credentials
        path_style = spec.addressing is Addressing.PATH
        if credentials is None:  # The pod's own identity.
            own = storage.StorageOptions.from_env(endpoint=spec.endpoint, region=spec.region, path_style=path_style)
            options = dataclasses.replace(own, authority=target.authority or own.authority)
        else:
            options = storage.StorageOptions(
                endpoint=spec.endpoint,
                region=spec.region or "us-east-1",
                path_style=path_style,
                access_key=credentials.get("AWS_ACCESS_KEY_ID"),
                secret_key=credentials.get("AWS_SECRET_ACCESS_KEY"),
                session_token=credentials.get("AWS_SESSION_TOKEN"),
                authority=target.authority,
                refuses_near=self._allowed.refuses_near,
            )
        return self._stores.open(target.owner, uri, options)

    def _require_permit(self, uri: str, target: StorageTarget) -> None:
        endpoint, is_own_identity = target.storage.s3.endpoint, target.credentials is None
        if endpoint is not None:
            self._allowed.require_server(endpoint, is_own_identity=is_own_identity)
        if is_own_identity:
            self._allowed.require_location(target.namespace, uri)

    def _root(self, target: StorageTarget) -> storage.ObjectStore:
        store = self._open(target.storage.uri.rstrip("/"), target)
        return store.child(layout.job_prefix(target.namespace, target.job))

    def _read(self, target: StorageTarget, savepoint: str | None, requests: tuple[str, ...]) -> StorageFacts:
        root = read_cache.ReadCache(self._root(target))
        newest_epoch = epochs.newest(root)
        snapshots = catalog.list_snapshots(root)
        latest, manifest = None, _latest_checkpoint(root, snapshots)
        if manifest is not None:
            snapshot = _as_status(manifest, f"{root.uri}/{layout.checkpoint(manifest.id)}")
            latest = CheckpointFact(snapshot, manifest.epoch, is_recovery=manifest.trigger is Trigger.RECOVERY)
        fact, complete = SavepointFact.NOT_LOOKED, None
        if savepoint is not None and savepoint.startswith("s3://"):
            try:
                manifest = catalog.read_manifest(self._open(savepoint.rstrip("/"), target), "")
                fact, complete = SavepointFact.FOUND, _as_status(manifest, savepoint)
            except errors.ObjectNotFoundError:
                fact = SavepointFact.MISSING
        return StorageFacts(
            newest_epoch=newest_epoch,
            latest_checkpoint=latest,
            savepoint=fact,
            found_savepoint=complete,
            is_empty=not snapshots and purging.is_purged(root),
            standing=owners.root_ownership(root, target.asker),
            requested=self._requested(root, snapshots, target, requests) if requests else None,
        )

    def _requested(
        self,
        root: storage.ObjectStore,
        snapshots: tuple[catalog.SnapshotRef, ...],
        target: StorageTarget,
        requests: tuple[str, ...],
    ) -> SnapshotStatus | None:
        """Return the savepoint of one of the requests, if it is among the newest; an unreadable one is not it."""
        for ref in [ref for ref in snapshots if ref.kind is SnapshotKind.SAVEPOINT][:_LOOKED_AT]:
            with contextlib.suppress(errors.SnapshotCorruptError, errors.ObjectNotFoundError):
                manifest = catalog.read_manifest(root, ref.folder)
                if manifest.request_id in requests:
                    return _as_status(manifest, f"{root.uri}/{ref.folder}")
        elsewhere = external_savepoints.list_all(root, lambda uri: self._open(uri, target))[:_LOOKED_AT]
        for other in elsewhere:
            if isinstance(other.manifest, Manifest) and other.manifest.request_id in requests:
                return _as_status(other.manifest, other.location)
        return None

    def _find_savepoint(self, target: StorageTarget, location: str) -> SnapshotStatus | NoSavepoint:
        store = self._open(location, target)
        manifest = catalog.read_manifest(store, "")
        if manifest.kind is not SnapshotKind.SAVEPOINT:
            return NoSavepoint(f"{location} is a checkpoint, which belongs to its job; take a savepoint of it.")
        author = f"{manifest.namespace}/{manifest.job}"
        if author != target.owner:
            return NoSavepoint(f"{location} is a savepoint of {author}; a job starts from it by restore.source.uri.")
        report = verify.verify(store, manifest)
        return _as_status(manifest, location) if report.ok else NoSavepoint(f"{location}: {report.sentence}")

    def _find_named(self, target: StorageTarget, sought: tuple[Sought, ...]) -> Mapping[str, SnapshotStatus]:
        root = self._root(target)
        located: list[tuple[int, str, Manifest]] = []
        for ref in catalog.list_snapshots(root):
            if ref.kind is SnapshotKind.SAVEPOINT and any(ref.folder.endswith(f"-{asked.name}") for asked in sought):
                with contextlib.suppress(errors.SnapshotCorruptError, errors.ObjectNotFoundError):
                    located.append((ref.id, f"{root.uri}/{ref.folder}", catalog.read_manifest(root, ref.folder)))
        located += [
            (other.id, other.location, other.manifest)
            for other in external_savepoints.list_all(root, lambda uri: self._open(uri, target))
            if isinstance(other.manifest, Manifest)
        ]
        named: dict[str, SnapshotStatus] = {}
        for _, location, manifest in sorted(located, key=lambda entry: entry[0], reverse=True):
            for asked in sought:
                if asked.name in named or not asked.fits(manifest, location):
                    continue
                with contextlib.suppress(errors.SnapshotCorruptError, errors.ObjectNotFoundError):
                    snapshot = self._find_savepoint(target, location)
                    named |= {asked.name: snapshot} if isinstance(snapshot, SnapshotStatus) else {}
        return named

    def _purge(self, target: StorageTarget) -> Freed:
        root = self._root(target)
        deleted = purging.purge(root, asker=target.asker, holder="the operator", now=clock.utc_now())
        return Freed(deleted.objects, deleted.size_bytes)


def _store_of(target: StorageTarget) -> str:
    """Return what work of other jobs may wait for together with this one's: the endpoint; at the cloud's, the bucket."""
    return target.storage.s3.endpoint or target.storage.uri.removeprefix("s3://").partition("/")[0]


def _latest_checkpoint(root: storage.ObjectStore, snapshots: tuple[catalog.SnapshotRef, ...]) -> Manifest | None:
    """Return the newest completed checkpoint whose manifest can be read; the driver verifies its files.

    Raises:
        FormatVersionError: A later release wrote a newer one, which is valid, so an older one must not be used instead.
    """
    for ref in snapshots:
        if ref.kind is not SnapshotKind.CHECKPOINT:
            continue
        try:
            return catalog.read_manifest(root, ref.folder)
        except errors.FormatVersionError:
            raise
        except (errors.SnapshotCorruptError, errors.ObjectNotFoundError):
            continue
    return None


def _as_status(manifest: Manifest, location: str) -> SnapshotStatus:
    return SnapshotStatus(
        id=manifest.id,
        completed_at=manifest.completed_at,
        location=location,
        size_bytes=manifest.size_bytes,
        trigger=manifest.trigger.value.capitalize(),
        batches={query.uid: query.batch_id for query in manifest.queries},
    )
