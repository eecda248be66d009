"""Finds out whose something on storage is, by the documents beside it; `ownership` says what may be deleted then.

A job's folder has `owner.json`, of its first driver. A savepoint has its manifest, and `_claim.json` if a job has claimed
it, which counts first.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark import errors
from statefulspark.checkpoint import catalog, epochs
from statefulspark.contract import layout
from statefulspark.recovery import claims
from statefulspark.retention.ownership import Ownership, Whose
from statefulspark.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Asker:
    """A job in whose name something is to be deleted.

    Attributes:
        namespace: Its namespace.
        job: Its name.
        owner_id: Uid of its resource; None if the resource is gone, and any that had the name counts.
    """

    namespace: str
    job: str
    owner_id: str | None


def root_ownership(store: ObjectStore, asker: Asker) -> Ownership:
    """Tell whose the state in a job's folder is. Cost: a GET, and a listing if there is no document.

    A folder without a document in which there is nothing but kept code and epochs is the asker's: no driver has state there.

    Args:
        store: The job's root.
        asker: Who asks.

    Raises:
        TransientError: Storage did not answer.
    """
    try:
        record = epochs.read_owner(store)
    except errors.ObjectNotFoundError:
        is_stateless = set(store.list_names("")) <= {f"{layout.CODE}/", f"{layout.EPOCHS}/"}
        return Ownership(Whose.OWN if is_stateless else Whose.NOBODYS)
    except errors.SnapshotCorruptError:
        return Ownership(Whose.UNREADABLE)
    is_own = (record.namespace, record.job) == (asker.namespace, asker.job)
    if asker.owner_id is not None:
        is_own = record.owner_id == asker.owner_id
    owner = f"{record.namespace}/{record.job} with uid {record.owner_id}"
    return Ownership(Whose.OWN) if is_own else Ownership(Whose.ANOTHERS, owner)


def savepoint_ownership(store: ObjectStore, folder: str, *, root: ObjectStore, asker: Asker) -> Ownership:
    """Tell whose a savepoint is. Cost: two GETs, and one more in the job's folder.

    In the job's folder the state has to be the asker's, too.

    Args:
        store: Any store.
        folder: The savepoint's folder below it.
        root: The root of the job that asks.
        asker: Who asks.

    Raises:
        TransientError: Storage did not answer.
    """
    own = f"{asker.namespace}/{asker.job}"
    standing = _files_ownership(store, folder, own=own, root=root.uri)
    if not f"{store.uri}/{folder}".startswith(f"{root.uri}/"):
        return standing
    in_root = root_ownership(root, asker)
    is_left = in_root.whose is Whose.OWN and standing.whose is Whose.NOBODYS
    return in_root if is_left or standing.whose is Whose.OWN else standing


def named_savepoint_ownership(store: ObjectStore, folder: str) -> Ownership:
    """Tell whose a savepoint is that a person has named: theirs, unless a job has claimed it. Cost: two GETs.

    Args:
        store: Any store.
        folder: The savepoint's folder below it.

    Raises:
        TransientError: Storage did not answer.
    """
    return _files_ownership(store, folder, own=None, root=None)


def _files_ownership(store: ObjectStore, folder: str, *, own: str | None, root: str | None) -> Ownership:
    """Tell whose a snapshot's files are: of who has claimed it, else of the job that its manifest names."""
    try:
        claimed_by = claims.holder(store, folder)
        if claimed_by is not None:
            is_own = claimed_by == root or (root is None and f"{store.uri}/{folder}".startswith(f"{claimed_by}/"))
            return Ownership(Whose.OWN) if is_own else Ownership(Whose.ANOTHERS, f"the job at {claimed_by}")
        manifest = catalog.read_manifest(store, folder)
    except errors.ObjectNotFoundError:
        return Ownership(Whose.NOBODYS)
    except errors.SnapshotCorruptError:
        return Ownership(Whose.UNREADABLE)
    author = f"{manifest.namespace}/{manifest.job}"
    return Ownership(Whose.OWN) if own in (None, author) else Ownership(Whose.ANOTHERS, author)
