"""The flags of `statefulspark run` for the fields of a configuration, and messages in the words of who gave the flags.

Messages name fields as the resource does, since most drivers are started for one. A person at a command line has no
resource: `name_flags` says the same with the flags of the command. Pure.
"""

from __future__ import annotations

import re

BY_FIELD = {
    "name": "--name",
    "namespace": "--namespace",
    "parameters": "--parameter",
    "apiPort": "--api-port",
    "apiTls.certificate": "--api-tls-certificate",
    "apiTls.key": "--api-tls-key",
    "apiTokenFile": "--api-token-file",
    "savepointLocation": "--savepoint-location",
    "storage.uri": "--storage",
    "storage.s3.endpoint": "--endpoint",
    "storage.s3.region": "--region",
    "storage.s3.caFile": "--storage-ca",
    "storage.ownership": "--ownership",
    "storage.allowLocalFiles": "--allow-local-files",
    "checkpoint.interval": "--checkpoint-interval",
    "checkpoint.timeout": "--checkpoint-timeout",
    "checkpoint.minPause": "--checkpoint-min-pause",
    "checkpoint.maxConcurrent": "--checkpoint-max-concurrent",
    "checkpoint.tolerableFailures": "--checkpoint-tolerable-failures",
    "checkpoint.retention.count": "--checkpoint-retention-count",
    "checkpoint.retention.maxAge": "--checkpoint-retention-max-age",
    "checkpoint.pruneDelay": "--checkpoint-prune-delay",
    "checkpoint.historyLimit": "--checkpoint-history-limit",
    "restore.source.uri": "--restore-uri",
    "restore.source.checkpointID": "--restore-checkpoint-id",
    "restore.source.empty": "--restore-empty",
    "restore.nonce": "--restore-nonce",
    "restore.claimMode": "--restore-claim-mode",
    "restore.dropState": "--restore-drop-state",
    "restore.repeatOutputOf": "--restore-repeat-output-of",
    "restore.loseOutputOf": "--restore-lose-output-of",
    "rehearsal": "--rehearsal",
    "engine.master": "--master",
    "engine.conf": "--conf",
}
"""The flag of each field that has one, by the names of the configuration file."""

_SENTENCES = (
    ("restore.source.empty (on the command line --restore-empty)", "--restore-empty"),
    ("restore.source (on the command line --restore-uri)", "--restore-uri"),
    ("--restore-checkpoint-id, or restore.source.checkpointID", "--restore-checkpoint-id"),
    (
        "change restore.nonce (on the command line add --restore-again, or change --restore-nonce)",
        "add --restore-again, or change --restore-nonce",
    ),
    ("--endpoint, storage.s3.endpoint, or ", "--endpoint or "),
    ("--region, storage.s3.region, or ", "--region or "),
    ("--storage-ca, or storage.s3.caFile", "--storage-ca"),
    ("with storage.s3.caSecretRef (on the command line --storage-ca)", "with --storage-ca"),
    ("Set storage.ownership to TakeOver", "Add --ownership TakeOver"),
    ("Set storage.ownership to AdoptOrphaned or to TakeOver", "Add --ownership AdoptOrphaned or --ownership TakeOver"),
    (
        "its storage.ownership: TakeOver counts once. Change restore.nonce to take the state over again (on the command "
        "line --ownership TakeOver --restore-again)",
        "its --ownership TakeOver counts once. Add --ownership TakeOver --restore-again to take the state over again",
    ),
    (
        "Another nonce has restore.source carried out again, too. If it was carried out before, remove it first.",
        "A restore that the command names is carried out again, too. If it was carried out before, leave --restore-uri, "
        "--restore-checkpoint-id or --restore-empty out first.",
    ),
    ("Remove restore.source", "Leave --restore-uri, --restore-checkpoint-id or --restore-empty out"),
    ("another name or storage.uri", "another --name or --storage"),
    ("Set it in job.parameters, or with --parameter", "Set it with --parameter"),
    ("Correct them in job.parameters, or with --parameter", "Correct them with --parameter"),
    ("driver.heap", "--conf spark.driver.memory=2g"),
    ("check job.file, and that the image contains it", "check the path"),
    ("allow local files (--allow-local-files) for development", "add --allow-local-files for development"),
    ("Correct it and apply the job again.", "Correct it and start the job again."),
)
_RIGHTS = (
    (re.compile(r" \(restore\.(?:repeat|lose)OutputOf: \[[^]]*](?:, restore\.loseOutputOf: \[[^]]*])?\)"), ""),
    (re.compile(r"then change restore\.nonce to give it again \(on the command line ([^)]*)\)"), r"then add \1"),
)
_DROP_STATE = re.compile(r"\badd ((?:'[^']+'(?:, )?)+) to restore\.dropState\b")
_FIELD = re.compile(r"\b(?:checkpoint|storage|restore|engine)(?:\.[a-z][A-Za-z0-9]*)+\b")


def name_flags(message: str) -> str:
    """Return a message of the product with the flags of the command instead of the fields of a resource."""
    for of_field, of_flag in _SENTENCES:
        message = message.replace(of_field, of_flag)
    for pattern, of_flag in _RIGHTS:
        message = pattern.sub(of_flag, message)
    return _FIELD.sub(lambda match: BY_FIELD.get(match.group(), match.group()), _DROP_STATE.sub(_uids_named, message))


def flag_of(field: str) -> str:
    """Return the flag of a field, in the words of Python or of the configuration file; the field if it has none."""
    first, *others = field.split("_")
    camel_case = first + "".join(word.capitalize() for word in others)
    return BY_FIELD.get(camel_case, field)


def _uids_named(match: re.Match[str]) -> str:
    uids = (uid.strip("'") for uid in match.group(1).split(", "))
    return f"add {' '.join(f'--restore-drop-state {uid}' for uid in uids)}"
