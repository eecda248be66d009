"""What to do about what the enums name: a sentence for each member. A member without one fails the generator."""

from __future__ import annotations

from statefulspark.contract.exit_codes import ExitCode, PlannedEnd
from statefulspark.coordinator.model import AbortReason
from statefulspark_operator.api.conditions import ConditionType
from statefulspark_operator.api.spark_savepoint import SavepointPhase
from statefulspark_operator.api.status import Phase, StandbyState, UpgradeState
from statefulspark_operator.lifecycle.decision import Reason

NOTHING = "Nothing."
DOCTOR = "Run `statefulspark doctor` on the job's folder."
LOG = "Read the last line of the driver's log: `kubectl statefulspark logs JOB --previous`."

PHASE = {
    Phase.PENDING: (
        "Wait. If it stays, the operator does not run, or waits for storage or for a savepoint: read the message."
    ),
    Phase.STARTING: "Wait. If it stays, run `kubectl statefulspark why JOB`: no node, no image, or a long restore.",
    Phase.RUNNING: "Nothing, as long as `Ready` is `True`.",
    Phase.UPGRADING: "Wait. Condition `Upgrading` tells the step.",
    Phase.RESTARTING: "Wait for the next start. If it comes again and again, read how the last driver ended. " + LOG,
    Phase.SUSPENDING: "Wait. The message tells what the stop waits for. With `suspend: false` the job starts after it.",
    Phase.SUSPENDED: "Set `suspend: false`, or run `kubectl statefulspark resume JOB`, to go on.",
    Phase.STALLED: "Read the message, and change what it names: the spec, a Secret, a policy or a right.",
    Phase.STOPPED: "Nothing: the input was bounded. To run it again, change `restartNonce`.",
    Phase.DELETING: "Wait. If it stays, storage does not answer, or a last savepoint is being taken.",
}

SAVEPOINT_PHASE = {
    SavepointPhase.PENDING: "Wait; `status.message` says for what. A job that does not run has to be started first.",
    SavepointPhase.IN_PROGRESS: "Wait. The limit is `upgrade.savepointTimeout` of the job.",
    SavepointPhase.COMPLETED: "Use it: `restore.source.savepointName: NAME`.",
    SavepointPhase.FAILED: "Read `status.message`, mend that, and create another object.",
}

STANDBY = {
    StandbyState.CREATING: "Wait. If it stays, the cluster has no room for a second driver.",
    StandbyState.WARMING: NOTHING,
    StandbyState.READY: NOTHING,
    StandbyState.REFUSED: "Read the reason and correct the job. The running driver is not touched.",
    StandbyState.ENDED: "Nothing; the next one is started. If it ends again, read its log.",
}

UPGRADE = {
    UpgradeState.PREPARE: "Wait, at most `upgrade.standbyTimeout`.",
    UpgradeState.READY: NOTHING,
    UpgradeState.SAVEPOINT_PRE_COPY: "Wait. A long batch makes this long.",
    UpgradeState.SAVEPOINT: "Wait. A long batch makes this long.",
    UpgradeState.STOPPING: NOTHING,
    UpgradeState.ACTIVATING: NOTHING,
    UpgradeState.STARTING: "Wait for its first checkpoint.",
    UpgradeState.FIRST_CHECKPOINT: "Wait for `upgrade.stableAfterCheckpoints` checkpoints.",
    UpgradeState.STABLE: NOTHING,
    UpgradeState.ROLLED_BACK: (
        "Read the message, correct the job, and apply it. See [roll back](../howto/roll-back.md)."
    ),
    UpgradeState.BLOCKED: "Read the message and apply a corrected version, or the old one.",
    UpgradeState.ABORTED: "Mend why the savepoint failed, then change the spec again, for example `restartNonce`.",
}

CONDITION = {
    ConditionType.READY: ("True", "Run `kubectl statefulspark why JOB`, which says why it is not and what to do."),
    ConditionType.RECONCILING: ("False", "Wait; the operator is at work. If it stays `True`, look at the message."),
    ConditionType.STALLED: ("False", "Change what the message names: the spec, a Secret, a policy or a right."),
    ConditionType.AVAILABLE: (
        "True",
        "No driver runs, a batch runs too long, or the driver is silent: the reason says which. Look at the source, the "
        "sinks and the driver's log. After `health.restartAfter` the driver is restarted.",
    ),
    ConditionType.CHECKPOINT_HEALTHY: ("True", "Look up the reason in [snapshots that fail](snapshot-failures.md)."),
    ConditionType.STORAGE_REACHABLE: (
        "True",
        "Check the endpoint, the network and the credentials that the message names. Nothing is started meanwhile.",
    ),
    ConditionType.UPGRADING: ("False", "Wait; the reason is the step of the upgrade."),
    ConditionType.UPGRADE_BLOCKED: ("False", "Apply a corrected version, or make the spec what runs."),
    ConditionType.COMPLETE: ("True", "Wait while `Failed` is `False`, too; the message says for what."),
    ConditionType.FAILED: ("False", "Read the message, and create another `SparkSavepoint`."),
}

EXIT_CODE = {
    ExitCode.SUCCESS: NOTHING,
    ExitCode.FAILED: (
        "Nothing if it passes: it is started again. If not, the last line of the log has the job's line to mend."
    ),
    ExitCode.USAGE: "Correct the flag or the field that the last line names.",
    ExitCode.FENCED: (
        "Nothing if there is another driver. If there is none, look who claims epochs: two jobs may use one folder."
    ),
    ExitCode.BAD_JOB: "Correct the job file at the line that is named.",
    ExitCode.INCOMPATIBLE_STATE: (
        "Read [changing a job](../upgrading.md): give back what the message names, or permit the loss with its flag."
    ),
    ExitCode.SNAPSHOT_NOT_FOUND: "Check the location or the number: `statefulspark savepoint list`, `checkpoint list`.",
    ExitCode.STORAGE_UNAVAILABLE: (
        "Bring back what the message names, mend the credentials, or end the transaction that it names. It is started again "
        "by itself."
    ),
    ExitCode.STATE_UNKNOWN: f"{DOCTOR} Bring back what is missing, or restore a snapshot by name.",
    ExitCode.INPUT_LOST: (
        "Bring the rows back and start it again, or let the job skip them: `failOnDataLoss=false` of a Kafka source, or no "
        "`ignoreMissingFiles=false` for one of files."
    ),
}

PLANNED_END = {
    PlannedEnd.FINISHED: NOTHING,
    PlannedEnd.DRAINED: "Nothing: this is how a pod that is deleted, or Ctrl-C, ends a job.",
    PlannedEnd.STOPPED: "Nothing: somebody asked for it.",
}

ABORT = {
    AbortReason.TOO_MANY_CHECKPOINT_REQUESTS: "Ask less often.",
    AbortReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS: "Ask later, or lower `checkpoint.minPause`.",
    AbortReason.NOT_ALL_REQUIRED_TASKS_RUNNING: "Ask again once every query runs.",
    AbortReason.IO_EXCEPTION: "Look at the store. It counts towards `checkpoint.tolerableFailures`.",
    AbortReason.TRIGGER_CHECKPOINT_FAILURE: "Read the message.",
    AbortReason.CHECKPOINT_EXPIRED: (
        "The message names who is missing: a slow store or master hook, or, at a stop, a long batch "
        "([tune](../howto/tune.md#checkpoints-time-out))."
    ),
    AbortReason.CHECKPOINT_SUBSUMED: NOTHING,
    AbortReason.CHECKPOINT_DECLINED: "The message begins with who declined, and says why ([who declines](../api.md)).",
    AbortReason.CHECKPOINT_DECLINED_TASK_NOT_READY: "Nothing; the next one succeeds.",
    AbortReason.CHECKPOINT_DECLINED_TASK_CLOSING: NOTHING,
    AbortReason.TASK_FAILURE: "Mend the query; the job restarts from what is committed.",
    AbortReason.CHECKPOINT_COORDINATOR_SUSPEND: "Nothing; the job stopped.",
    AbortReason.CHECKPOINT_COORDINATOR_SHUTDOWN: "Nothing; the driver was ending.",
    AbortReason.FINALIZE_CHECKPOINT_FAILURE: f"Look at the store. {DOCTOR}",
}

_WAIT = "Wait."
REASON = {
    Reason.FINALIZERS_SET: NOTHING,
    Reason.CODE_IGNORED: "If the ConfigMap's code is to run, take `configMap.sha256` out with the command of the message.",
    Reason.DELETED: NOTHING,
    Reason.DELETION_SAVEPOINT: _WAIT,
    Reason.DELETION_STOPPING: _WAIT,
    Reason.DELETION_PURGING: _WAIT,
    Reason.DELETION_WAITING: "Bring the store back. After a limited time the resource goes and the state stays.",
    Reason.DELETION_FINISHED: NOTHING,
    Reason.DELETION_STATE_KEPT: "Delete the folder by hand, if you want it gone and its owner does, too.",
    Reason.SPEC_REJECTED: "Correct the field that the message names, and apply.",
    Reason.STRAY_DRIVER: "Nothing; it cannot write.",
    Reason.DRIVER_STOPPED: NOTHING,
    Reason.DRIVER_DRAINED: "Nothing; the next driver goes on.",
    Reason.DRIVER_FINISHED: NOTHING,
    Reason.DRIVER_FAILED: f"Nothing if it passes. If it comes again: {LOG}",
    Reason.DRIVER_REFUSED: f"{LOG} Then change what it names.",
    Reason.BUDGET_EXHAUSTED: f"{LOG} Mend that, then change the spec, for example `restartNonce`.",
    Reason.SUPERSEDED: NOTHING,
    Reason.OPERATION_REPEATED: NOTHING,
    Reason.OPERATION_IN_PROGRESS: _WAIT,
    Reason.OPERATION_TIMED_OUT: "A batch takes longer than `upgrade.savepointTimeout`: raise it, or make batches smaller.",
    Reason.STOPPING: _WAIT,
    Reason.STOP_ENFORCED: "Nothing; its savepoint is complete.",
    Reason.SUSPENDING: _WAIT,
    Reason.SUSPENDED: "Set `suspend: false` to go on.",
    Reason.UPGRADE_REQUESTED: _WAIT,
    Reason.UPGRADE_RETRY_LATER: "Look why the savepoint fails: [snapshots that fail](snapshot-failures.md).",
    Reason.UPGRADE_FROM_CHECKPOINT: "Nothing; input after that checkpoint is read again.",
    Reason.UPGRADE_ABORTED: "Mend why the savepoint failed, then change the spec again, for example `restartNonce`.",
    Reason.UPGRADE_PREPARING: _WAIT,
    Reason.UPGRADE_READY: NOTHING,
    Reason.UPGRADE_WAITS: "Remove what the message names; the operator tries again. Without room for a second driver, set "
    "`upgrade.strategy` to `Cold`.",
    Reason.UPGRADE_QUEUED: "Wait. See [upgrade many jobs](../howto/upgrade-many.md).",
    Reason.UPGRADE_HALTED: "Apply another image, or correct the job that the message names. See "
    "[upgrade many jobs](../howto/upgrade-many.md#if-an-image-fails).",
    Reason.UPGRADE_BLOCKED: "Apply a corrected version, or run `kubectl statefulspark rollback JOB`.",
    Reason.UPGRADE_HANDED_OVER: NOTHING,
    Reason.STANDBY_CREATED: NOTHING,
    Reason.STANDBY_REMOVED: NOTHING,
    Reason.STANDBY_LOST: NOTHING,
    Reason.ACTIVATION_REPEATED: NOTHING,
    Reason.ACTIVATION_REFUSED: NOTHING,
    Reason.ROLLED_BACK: "Read the message, correct the job and apply it. See [roll back](../howto/roll-back.md).",
    Reason.ROLLBACK_NEEDED: "Run `kubectl statefulspark rollback JOB`, or apply a corrected version.",
    Reason.ROLLBACK_TO_SAVEPOINT: NOTHING,
    Reason.ROLLBACK_NEEDS_DECISION: (
        "Apply a version that the newest state fits; or go back with the command in the message, which repeats output. "
        "See [roll back](../howto/roll-back.md)."
    ),
    Reason.STALLED: "Change what the message names.",
    Reason.FINISHED: "To run the job again, change `restartNonce`.",
    Reason.BACKING_OFF: f"{LOG} The message has the time of the next start.",
    Reason.STORAGE_UNREADABLE: "Check the endpoint, the network and the credentials that the message names.",
    Reason.SAVEPOINT_MISSING: "Check `restore.source`, or bring the folder back.",
    Reason.SAVEPOINT_AWAITED: "Wait, or look at the object: `kubectl get ssp -o wide`.",
    Reason.START_QUEUED: "Wait. See [many starts at once](../howto/outages.md#many-jobs-at-once).",
    Reason.STARTING: _WAIT,
    Reason.RESUMING_START: _WAIT,
    Reason.EXECUTORS_REMOVED: NOTHING,
    Reason.EXECUTORS_MISSING: "Look at `status.executors.message`: no room, no image, or killed for its memory.",
    Reason.DRIVER_ENDING: _WAIT,
    Reason.IMAGE_UNAVAILABLE: "Check `image` and `imagePullSecrets`.",
    Reason.CONTAINER_WAITING: "Look at the message: a Secret, a ConfigMap or a volume that is not there.",
    Reason.UNSCHEDULABLE: "Ask for less in `driver.resources`, or add nodes.",
    Reason.DRIVER_NOT_TRUSTED: "Correct the Secret that the message names. See "
    "[TLS of the driver's API](../howto/secure.md#tls-of-the-drivers-api).",
    Reason.DRIVER_STARTING: _WAIT,
    Reason.STALL_ENDED: "Look why a batch hangs; or raise `health.restartAfter` above your longest batch.",
    Reason.SAVEPOINT_REQUESTED: _WAIT,
    Reason.RUNNING: NOTHING,
}
