"""One word for one idea: the names of each idea in the resource, in HTTP, in commands, in Python and in metrics."""

from __future__ import annotations

from dataclasses import dataclass

from sitepages import markdown
from statefulspark.contract import flagnames


@dataclass(frozen=True, slots=True)
class Idea:
    """An idea and its names; an empty name means that this surface has none.

    Attributes:
        meaning: The idea.
        resource: Path of a field, after a kind if it is not the job's.
        http: A call, or a schema and its field.
        command: An option, or a command.
        python: A name of `ss`, and an argument behind it.
        metric: A metric, or a label.
    """

    meaning: str
    resource: str = ""
    http: str = ""
    command: str = ""
    python: str = ""
    metric: str = ""


_CHECKPOINT = "CheckpointConfig-Output"
IDEAS = (
    Idea("name of a job", "metadata.name", "JobStatus.job", "--name", "ss.Job(name)", "job_name"),
    Idea("namespace of a job", "metadata.namespace", "JobStatus.namespace", "--namespace", metric="job_namespace"),
    Idea("parameter of the job's code", "spec.job.parameters", "EffectiveConfig.parameters", "--parameter"),
    Idea("which driver may write", "status.driver.epoch", "JobStatus.epoch", metric="statefulspark_epoch"),
    Idea("generation of the state", http="JobStatus.generation", metric="statefulspark_generation"),
    Idea("number of failed checkpoints", http="CheckpointCounts.failed", metric="statefulspark_checkpoints_failed_total"),
    Idea("folder of all jobs", "spec.storage.uri", "EffectiveConfig.storageUri", "--storage"),
    Idea("server of the store", "spec.storage.s3.endpoint", "EffectiveConfig.storageEndpoint", "--endpoint"),
    Idea("region of the store", "spec.storage.s3.region", command="--region"),
    Idea("whose state a job may change", "spec.storage.ownership", command="--ownership"),
    Idea("take a checkpoint", http="POST /v1/checkpoints", command="statefulspark checkpoint create"),
    Idea("time between checkpoints", "spec.checkpoint.interval", f"{_CHECKPOINT}.interval", "--checkpoint-interval"),
    Idea("longest time of a checkpoint", "spec.checkpoint.timeout", f"{_CHECKPOINT}.timeout", "--checkpoint-timeout"),
    Idea("pause after a checkpoint", "spec.checkpoint.minPause", f"{_CHECKPOINT}.minPause", "--checkpoint-min-pause"),
    Idea("checkpoints at the same time", "spec.checkpoint.maxConcurrent", f"{_CHECKPOINT}.maxConcurrent",
         "--checkpoint-max-concurrent"),
    Idea("failures before the job fails", "spec.checkpoint.tolerableFailures", f"{_CHECKPOINT}.tolerableFailures",
         "--checkpoint-tolerable-failures"),
    Idea("number of checkpoints that are kept", "spec.checkpoint.retention.count", "RetentionConfig.count",
         "--checkpoint-retention-count"),
    Idea("age of checkpoints that are kept", "spec.checkpoint.retention.maxAge", "RetentionConfig.maxAge",
         "--checkpoint-retention-max-age"),
    Idea("pause before files are deleted", "spec.checkpoint.pruneDelay", f"{_CHECKPOINT}.pruneDelay",
         "--checkpoint-prune-delay"),
    Idea("snapshots that the API remembers", "spec.checkpoint.historyLimit", f"{_CHECKPOINT}.historyLimit",
         "--checkpoint-history-limit"),
    Idea("take a savepoint", "SparkSavepoint", "POST /v1/savepoints", "statefulspark savepoint create"),
    Idea("folder of a savepoint", "SparkSavepoint spec.location", "SavepointRequest.location", "--location"),
    Idea("folder of all savepoints", "spec.savepoint.location", "EffectiveConfig.savepointLocation",
         "--savepoint-location"),
    Idea("format of a savepoint", "SparkSavepoint spec.format", "SavepointRequest.format", "--format"),
    Idea("identity of a request", http="SavepointRequest.requestId", command="--request-id"),
    Idea("what causes a snapshot", "status.lastCheckpoint.trigger", "SnapshotSummary.trigger"),
    Idea("savepoint to start from", "spec.restore.source.uri", "RestoreSource.uri", "--restore-uri"),
    Idea("checkpoint to start from", "spec.restore.source.checkpointID", "RestoreSource.checkpointID",
         "--restore-checkpoint-id"),
    Idea("start without state", "spec.restore.source.empty", "RestoreSource.empty", "--restore-empty"),
    Idea("name of a restore", "spec.restore.nonce", "RestoreConfig.nonce", "--restore-nonce"),
    Idea("who owns the snapshot after a start", "spec.restore.claimMode", "RestoreConfig.claimMode",
         "--restore-claim-mode"),
    Idea("state to leave behind", "spec.restore.dropState", "RestoreConfig.dropState", "--restore-drop-state"),
    Idea("what a standby runs before it is ready", "spec.upgrade.rehearsal", command="--rehearsal"),
    Idea("what state is found by", http="QueryStatus.uid", command="--uid", python="ss.read_state(uid)"),
    Idea("wait for the end, or not", command="--wait"),
    Idea("longest wait", command="--timeout"),
    Idea("form of a result", command="--output"),
    Idea("development on one machine", command="--dev"),
)  # fmt: skip


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Vocabulary",
        "One idea has one word, in the spelling of each surface: who knows the word of one surface can guess the others. "
        "Tests compare this table with the resource, the HTTP API, the commands and the library.",
    )
    rows = [(idea.meaning, *(markdown.code(name) if name else "" for name in _names(idea))) for idea in IDEAS]
    lines += markdown.table(("idea", "resource", "HTTP", "command", "Python", "metrics"), rows)
    lines += ["## Options of `run` and the configuration file", ""]
    lines += [
        "An option has the words of the field that it overrides. Fields of `storage` and `engine` have short options, "
        "because other commands, and `spark-submit`, have the same ones.",
        "",
    ]
    fields = [(markdown.code(field), markdown.code(flag)) for field, flag in flagnames.BY_FIELD.items()]
    return markdown.finish([*lines, *markdown.table(("field", "option"), fields)])


def _names(idea: Idea) -> tuple[str, ...]:
    return (idea.resource, idea.http, idea.command, idea.python, idea.metric)
