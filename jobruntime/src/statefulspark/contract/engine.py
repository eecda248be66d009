"""Spark settings that a user cannot set, each with the reason.

The operator refuses them when a resource is applied, the runtime when a job starts; both read this list. Pure data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SNAPSHOT_INTERVAL_S = 20
"""How often snapshots of state are uploaded, unless a job says otherwise. A start applies all batches since the newest; with
Spark's minute that took longer than to load all the state (`bench/history/2026-11.md`)."""


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """A Spark setting that would break a guarantee.

    Attributes:
        key: The setting's name, or its prefix.
        reason: Why it cannot be set, and what to do instead; continues the sentence "<key> cannot be set:".
    """

    key: str
    reason: str


REFUSED_SETTINGS = (
    RefusedSetting(
        "spark.master", "the operator chooses it: with an executor block Kubernetes, and otherwise the driver"
    ),
    RefusedSetting("spark.submit.deployMode", "the driver always runs in the pod that the operator starts"),
    RefusedSetting("spark.driver.host", "executors reach the driver through the job's own Service"),
    RefusedSetting("spark.driver.bindAddress", "executors reach the driver through the job's own Service"),
    RefusedSetting("spark.executor.instances", "use executor.instances"),
    RefusedSetting("spark.dynamicAllocation.enabled", "moving state costs a reload; change executor.instances instead"),
    RefusedSetting(
        "spark.sql.streaming.stateStore.providerClass",
        "snapshots list the files of the RocksDB provider; state of another one would not be in them",
    ),
    RefusedSetting(
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
        "only version 2 names state files uniquely, so that two drivers never write the same file",
    ),
    RefusedSetting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "snapshots are made from changelog files",
    ),
    RefusedSetting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "the product's own manager keeps two drivers from committing the same batch",
    ),
    RefusedSetting(
        "spark.sql.streaming.minBatchesToRetain",
        "Spark would delete files that retained checkpoints need; use checkpoint.retention.count",
    ),
    RefusedSetting(
        "spark.sql.streaming.fileSource.log.deletion", "Spark would delete logs that retained checkpoints need"
    ),
    RefusedSetting(
        "spark.hadoop.fs.s3a.impl", "the product's own file system takes what was read ahead, and is S3A otherwise"
    ),
    RefusedSetting(
        "spark.hadoop.fs.s3a.audit.execution.interceptors",
        "the product's own interceptors doubt a 404 that is not the object store's, and send a checksum with each upload",
    ),
    RefusedSetting(
        "spark.hadoop.fs.s3a.change.detection.mode",
        "files are never replaced, and their ETags change when they are moved",
    ),
    RefusedSetting("spark.hadoop.fs.s3a.path.style.access", "use storage.s3.addressing"),
    RefusedSetting(
        "spark.sql.shuffle.orderIndependentChecksum.enabled",
        "a stage that runs again could give other rows than those that were used already",
    ),
    RefusedSetting(
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
        "a stage that runs again could give other rows than those that were used already",
    ),
    RefusedSetting("spark.sql.streaming.checkpointLocation", "the job's location on storage is chosen by storage.uri"),
    RefusedSetting(
        "spark.sql.streaming.asyncProgressTrackingEnabled",
        "a batch could be reported before it is durable, and be lost",
    ),
    RefusedSetting(
        "spark.sql.streaming.queryEvolution.enableSourceEvolution",
        "it changes the format of the offset log; name sources with ss.named_source(df, uid=...)",
    ),
    RefusedSetting(
        "spark.sql.streaming.queryEvolution.enableSinkEvolution",
        "it changes the format of the commit log; a sink has the uid of ss.write(..., uid=...)",
    ),
    RefusedSetting(
        "spark.sql.streaming.offsetLog.formatVersion",
        "snapshots are made from the first version of the offset log, which every supported release of Spark reads",
    ),
    RefusedSetting(
        "spark.sql.streaming.stateStore.rowChecksum.enabled",
        "an older release of Spark would take the checksums for state; each file of state has a checksum already",
    ),
    RefusedSetting("spark.sql.streaming.forceDeleteTempCheckpointLocation", "it deletes checkpoints when a query ends"),
)
"""Settings refused by their full name."""

REFUSED_PREFIXES = (
    RefusedSetting("spark.kubernetes.driver.", "the operator renders the driver's pod; use driver.podTemplate"),
    RefusedSetting("spark.kubernetes.authenticate.", "the driver uses the service account of its pod"),
    RefusedSetting("spark.hadoop.fs.s3a.access", "credentials come from storage.s3.credentialsSecretRef"),
    RefusedSetting("spark.hadoop.fs.s3a.secret", "credentials come from storage.s3.credentialsSecretRef"),
)
"""Settings that are refused by the prefix of their name."""

FIELDS = (
    RefusedSetting("spark.driver.memory", "use driver.heap"),
    RefusedSetting("spark.executor.memory", "use executor.heap"),
    RefusedSetting("spark.executor.cores", "use executor.cores"),
)
"""Settings that a resource has fields for, which would win without a word."""


SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Names of settings whose values are secret: what `spark.redaction.regex` of Spark 4.2 matches."""
NO_SECRETS = (
    "spark.kubernetes.executor.secrets.",
    "spark.kubernetes.executor.secretKeyRef.",
    "spark.authenticate.secret.file",
)
"""Settings that name a Secret, or a file with one, and have none in them."""
_SHOWN = (
    "everybody who can read the resource would see its value; give it to the job by a Secret, with valueFrom in driver.env "
    "and executor.env, or as a file"
)
ENCRYPTION = "spark.authenticate"
"""The setting by which driver and executors authenticate each other, and encrypt what they send."""


def find_plain(conf: Mapping[str, str]) -> tuple[RefusedSetting, ...]:
    """Return a refusal for each setting of a resource that would show a secret, switch encryption off, or has a field.

    Args:
        conf: Spark settings as a resource has them, where everybody can read them who can read the resource.
    """
    refused = [*find_secret(conf), *(setting for setting in FIELDS if setting.key in conf)]
    if conf.get(ENCRYPTION, "true").strip().lower() != "true":
        refused.append(RefusedSetting(ENCRYPTION, "driver and executors always encrypt what they send"))
    return tuple(refused)


def find_secret(keys: Iterable[str]) -> tuple[RefusedSetting, ...]:
    """Return a refusal for each name of a setting or a parameter that says that its value is secret, in the given order."""
    return tuple(
        RefusedSetting(key, _SHOWN) for key in keys if SECRET.search(key) is not None and not key.startswith(NO_SECRETS)
    )


def find_refused(keys: Iterable[str]) -> tuple[RefusedSetting, ...]:
    """Return a refusal for each setting that cannot be set, in the given order.

    Args:
        keys: Full names of Spark settings.

    Returns:
        One entry per refused key, with its full name; empty when all are allowed.
    """
    by_key = {setting.key: setting for setting in REFUSED_SETTINGS}
    refused = []
    for key in keys:
        match = by_key.get(key) or next((prefix for prefix in REFUSED_PREFIXES if key.startswith(prefix.key)), None)
        if match is not None:
            refused.append(RefusedSetting(key, match.reason))
    return tuple(refused)
