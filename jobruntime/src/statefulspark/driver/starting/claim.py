"""The claim of a job's state: its owner, an epoch and the identity of the root, written before anything else is read.

Each of them is a conditional write, so that of two drivers that claim at once one is told. Nothing of the state itself is
read or changed here.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from dataclasses import replace
from datetime import datetime

from statefulspark import errors, storage
from statefulspark.checkpoint import epochs, lineage_records, read_cache
from statefulspark.contract import config, layout
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.driver.starting.start_parts import JobRoot
from statefulspark.engine import session, settings
from statefulspark.recovery import generations, plan

_log = logging.getLogger(__name__)


def open_root(job_config: config.JobConfig) -> JobRoot:
    """Return the root of the job's state for reading, without a claim."""
    options = settings.storage_options(job_config.storage)
    root = storage.open_store(job_config.storage.uri, options)
    return JobRoot(root.child(layout.job_prefix(job_config.namespace, job_config.name)), options)


def claim(job_config: config.JobConfig, now: datetime, *, epoch: int | None = None) -> JobRoot:
    """Claim the job's state for writing, under a new epoch.

    Args:
        job_config: The job.
        now: UTC.
        epoch: The epoch to claim; None takes the one in the environment, and without one the next free epoch.

    Raises:
        FencedError: A newer driver has claimed it.
        SpecRejectedError: The state belongs to another resource.
        TransientError, StateUnknownError: The object store cannot be reached, or refuses.
    """
    root = open_root(job_config)
    store = root.store
    owner = OwnerRecord(
        namespace=job_config.namespace,
        job=job_config.name,
        owner_id=job_config.owner_id,
        cluster_id=job_config.cluster_id,
        created_at=now,
        word=job_config.restore.word,
    )
    try:
        epochs.ensure_owner(store, owner, ownership=job_config.storage.ownership)
    except errors.SpecRejectedError as error:
        if error.reason != "StateOwnedByAnother" or job_config.restore.once_key is None:
            raise
        records = generations.read_all(store)
        asked = plan.asked_restore(
            job_config.restore, plan.carried_out(records.records), unknown=bool(records.unreadable)
        )
        raise errors.SpecRejectedError(error.reason, f"{error.message} {asked}") from error
    assigned = epoch or assigned_epoch()
    claim_id = uuid.uuid4().hex
    claimed = epochs.claim(store, assigned=assigned, holder=holder(), claim_id=claim_id, now=now)
    _log.info("epoch claimed", extra={"epoch": claimed, "holder": holder(), "root": store.uri})
    cache = read_cache.ReadCache(store)
    lineages = lineage_records.ensure(store, lineage=uuid.uuid4().hex, epoch=claimed, now=now, cache=cache)
    for sentence in lineages.unreadable:
        _log.warning("the lineage of the root cannot be read; the root gets a new one", extra={"why": sentence})
    author = plan.Author(
        job_config.namespace,
        job_config.name,
        claimed,
        now,
        job_config.revision,
        session.versions(),
        owner_id=job_config.owner_id,
        lineages=lineages,
        claim_id=claim_id,
    )
    return replace(root, author=author, seen=cache)


def holder() -> str:
    """Return the name of this process for people: pod name and uid, or host and process id."""
    return os.environ.get(config.ENV_HOLDER) or f"{socket.gethostname()}/{os.getpid()}"


def assigned_epoch() -> int | None:
    """Return the epoch that the operator has assigned; None without an operator."""
    variable = os.environ.get(config.ENV_EPOCH)
    return int(variable) if variable else None
