"""Pruning of a job's folder in the name of a driver that has ended, by the rules by which drivers prune.

What sinks have staged is left to the next driver, which knows its sinks, and so are claimed snapshots at other locations.
"""

from __future__ import annotations

from datetime import datetime

from statefulspark import errors
from statefulspark.checkpoint import epochs
from statefulspark.contract.config import CheckpointConfig
from statefulspark.retention import pruning, rules
from statefulspark.storage import ObjectStore

from statefulspark_operator.api.spec import Checkpoint
from statefulspark_operator.lifecycle.pruning import Freed, PrunedFolder


def prune(root: ObjectStore, checkpoint: Checkpoint, *, epoch: int, now: datetime) -> PrunedFolder:
    """Remove what no snapshot needs and was marked for the grace time, and mark what else is unused.

    Args:
        root: The job's folder.
        checkpoint: How much is kept.
        epoch: Epoch of the driver that has ended.
        now: UTC.

    Raises:
        PreconditionFailedError: `EpochNotNewest`, `Fenced`: another epoch than that is the newest; or somebody else has
            pruned meanwhile. Nothing was deleted that a driver may need.
    """
    newest = epochs.newest(root)
    if newest != epoch:
        raise errors.PreconditionFailedError(
            "EpochNotNewest", f"The newest epoch of {root.uri} is {newest} and not {epoch}, so nothing is pruned there."
        )
    policy = _policy(checkpoint)
    done = pruning.run(root, policy, now, epoch=epoch)
    freed = Freed(len(done.delete_files), done.freed_bytes)
    return PrunedFolder(freed, Freed(len(done.marks), done.marked_bytes), policy.grace)


def _policy(checkpoint: Checkpoint) -> rules.PrunePolicy:
    """Return what the job's drivers go by: the settings of the spec, and their defaults."""
    own = CheckpointConfig()
    return rules.PrunePolicy(
        retained=checkpoint.retained or own.retained,
        grace=checkpoint.prune_grace if checkpoint.prune_grace is not None else own.prune_grace,
        max_age=checkpoint.max_age,
    )
