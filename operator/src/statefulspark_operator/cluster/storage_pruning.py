"""Pruning of a job's folder in the name of a driver that has ended, by the rules by which drivers prune.

What sinks have staged is left to the next driver, which knows its sinks, and so are claimed snapshots at other locations.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors, jobcode
from statefulspark.checkpoint import epochs
from statefulspark.retention import owners, ownership, pruning, rules
from statefulspark.storage import ObjectStore

from statefulspark_operator.api.spec import Checkpoint
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder


def prune(root: ObjectStore, checkpoint: Checkpoint, *, asker: owners.Asker, epoch: int, now: datetime) -> PrunedFolder:
    """Remove what no snapshot needs and was marked for the grace time, and mark what else is unused.

    Args:
        root: The job's folder.
        checkpoint: How much is kept.
        asker: The job.
        epoch: Epoch of the driver that has ended.
        now: UTC.

    Raises:
        SpecRejectedError: `StateKept`: the folder is not the job's; nothing was deleted.
        PreconditionFailedError: `EpochNotNewest`, `Fenced`: another epoch than that is the newest; or somebody else has
            pruned meanwhile. Nothing was deleted that a driver may need.
    """
    ownership.require(owners.root_ownership(root, asker), ownership.Deletion.PRUNE, root.uri)
    newest = epochs.newest(root)
    if newest != epoch:
        raise errors.PreconditionFailedError(
            "EpochNotNewest", f"The newest epoch of {root.uri} is {newest} and not {epoch}, so nothing is pruned there."
        )
    settings = checkpoint.config()  # By which the job's drivers prune.
    policy = rules.PrunePolicy(settings.retention.count, settings.prune_delay, settings.retention.max_age)
    done = pruning.run(root, policy, now, epoch=epoch)
    freed = Freed(len(done.delete_files), done.freed_bytes)
    return PrunedFolder(freed, Freed(len(done.marks), done.marked_bytes), policy.grace)


def drop_code(root: ObjectStore, checksums: frozenset[str], asker: owners.Asker) -> None:
    """Delete kept code that no revision needs any more; in a folder that is another's it stays.

    Args:
        root: The job's folder.
        checksums: Of the code.
        asker: The job.
    """
    if ownership.may_delete(owners.root_ownership(root, asker).whose, ownership.Deletion.PRUNE):
        jobcode.drop(root, checksums)
