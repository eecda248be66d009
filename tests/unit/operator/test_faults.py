"""Whose fault each failure is: one row per kind of failure that the operator sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jobworld import KEY, JobWorld
from obstacles import ask_for_too_much, forbid_pods, leave_the_code_out
from situations import a_pod
from statefulspark import errors
from statefulspark.contract.api import ExitReport
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.contract.faults import Fault
from statefulspark_operator.api.conditions import LONGEST_MESSAGE
from statefulspark_operator.api.status import Phase
from statefulspark_operator.lifecycle import ends, fault
from statefulspark_operator.lifecycle.situation import ContainerExit, PodPhase, Waiting

REVISION, SURROUNDINGS, OPERATOR = Fault.REVISION, Fault.SURROUNDINGS, Fault.OPERATOR
ENDS = {
    (ExitCode.FAILED, "QueryFailed"): REVISION,
    (ExitCode.FAILED, "DriverFailed"): REVISION,
    (ExitCode.FAILED, "StateDamaged"): SURROUNDINGS,
    (ExitCode.FAILED, "ConcurrentDriver"): SURROUNDINGS,
    (ExitCode.FAILED, "PortUnavailable"): SURROUNDINGS,
    (ExitCode.USAGE, "ConfigInvalid"): REVISION,
    (ExitCode.BAD_JOB, "JobFileRaised"): REVISION,
    (ExitCode.INCOMPATIBLE_STATE, "StateTypeIncompatible"): REVISION,
    (ExitCode.FENCED, "Fenced"): SURROUNDINGS,
    (ExitCode.SNAPSHOT_NOT_FOUND, "SnapshotNotFound"): SURROUNDINGS,
    (ExitCode.STORAGE_UNAVAILABLE, "AccessDenied"): SURROUNDINGS,
    (ExitCode.STORAGE_UNAVAILABLE, "CredentialsMissing"): SURROUNDINGS,
    (ExitCode.STORAGE_UNAVAILABLE, "NoSuchBucket"): SURROUNDINGS,
    (ExitCode.STORAGE_UNAVAILABLE, "SinkUnavailable"): SURROUNDINGS,
    (ExitCode.STATE_UNKNOWN, "NoCheckpointUsable"): SURROUNDINGS,
    (ExitCode.STATE_UNKNOWN, "BatchSkipped"): SURROUNDINGS,
    (ExitCode.STATE_UNKNOWN, "FormatVersionUnknown"): REVISION,
    (ExitCode.INPUT_LOST, "InputLost"): SURROUNDINGS,
    (137, "OOMKilled"): REVISION,
    (137, "Error"): REVISION,
}
CODES = set(ExitCode)
BACK_OFF = 'Back-off pulling image "i:2": ErrImagePull: failed to pull and unpack image "i:2": '
WAITS = {
    ("ContainerCreating", ""): SURROUNDINGS,
    ("ErrImagePull", "i:2: not found"): SURROUNDINGS,
    ("ImagePullBackOff", f"{BACK_OFF}i:2: not found"): REVISION,
    ("ImagePullBackOff", f"{BACK_OFF}manifest unknown"): REVISION,
    ("ImagePullBackOff", f"{BACK_OFF}dial tcp 10.0.0.9:443: connect: connection refused"): SURROUNDINGS,
    ("ImagePullBackOff", f"{BACK_OFF}unexpected status code 503 Service Unavailable"): SURROUNDINGS,
    ("ImagePullBackOff", f"{BACK_OFF}429 Too Many Requests: toomanyrequests"): SURROUNDINGS,
    ("ImagePullBackOff", f"{BACK_OFF}pull access denied, repository does not exist or may require login"): SURROUNDINGS,
    ("ImagePullBackOff", f"{BACK_OFF}401 Unauthorized"): SURROUNDINGS,
    ("ImagePullBackOff", 'Back-off pulling image "i:2"'): SURROUNDINGS,
    ("InvalidImageName", 'couldn\'t parse image name "i:"'): REVISION,
    ("ErrImageNeverPull", "Container image is not present with pull policy of Never"): REVISION,
    ("CreateContainerConfigError", 'secret "keys" not found'): SURROUNDINGS,
    ("CreateContainerConfigError", "couldn't find key token in ConfigMap shop/settings"): SURROUNDINGS,
    ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"): REVISION,
    ("CreateContainerError", "no such file or directory"): REVISION,
    ("CreateContainerError", "context deadline exceeded"): SURROUNDINGS,
    ("CreateContainerError", 'failed to reserve container name "driver_0": it is reserved for "9f3c"'): SURROUNDINGS,
    ("CreateContainerError", "write /var/lib/containerd/x: no space left on device"): SURROUNDINGS,
    ("RunContainerError", "rpc error: code = Unavailable desc = connection error"): SURROUNDINGS,
    ("RunContainerError", "fork/exec /proc/self/exe: cannot allocate memory"): SURROUNDINGS,
    ("RunContainerError", 'exec: "statefulspark": executable file not found in $PATH'): REVISION,
}
REFUSALS = {
    errors.SpecRejectedError("ManifestRejected", "m"): REVISION,
    errors.StateUnknownError("QuotaExceeded", "m"): SURROUNDINGS,
    errors.StateUnknownError("QuotaTooSmall", "m"): SURROUNDINGS,
    errors.StateUnknownError("LimitRangeExceeded", "m"): SURROUNDINGS,
    errors.StateUnknownError("PodSecurityViolated", "m"): SURROUNDINGS,
    errors.StateUnknownError("AdmissionDenied", "m"): SURROUNDINGS,
    errors.StateUnknownError("NamespaceTerminating", "m"): SURROUNDINGS,
    errors.StateUnknownError("ApiServerRefused", "m"): SURROUNDINGS,
    errors.StateUnknownError("RightMissing", "m"): OPERATOR,
    errors.TransientError("ApiServerUnavailable", "m"): SURROUNDINGS,
    errors.InternalError("SpecMissing", "m"): OPERATOR,
}


@pytest.mark.parametrize(("code", "reason"), ENDS)
def test_the_end_of_a_driver_is_the_fault_of(code: int, reason: str) -> None:
    report = ExitReport(exit_code=code, reason=reason, message="m") if code in CODES else None
    ended = a_pod(phase=PodPhase.FAILED, exit=ContainerExit(code, reason=reason, report=report))

    assert fault.of_end(ends.driver_end(ended)) is ENDS[code, reason]


def test_every_exit_code_has_a_row() -> None:
    assert {code for code, _ in ENDS if code in CODES} == CODES - {ExitCode.SUCCESS}


@pytest.mark.parametrize("why", ["NodeLost", "Evicted", "Preempting", ""])
def test_a_driver_that_kubernetes_removed_is_the_fault_of_its_surroundings(why: str) -> None:
    removed = a_pod(phase=PodPhase.FAILED, status_reason=why)

    assert fault.of_end(ends.driver_end(removed)) is SURROUNDINGS


@pytest.mark.parametrize(("reason", "message"), WAITS)
def test_a_container_that_does_not_start_is_the_fault_of(reason: str, message: str) -> None:
    assert fault.of_wait(Waiting(reason, message)) is WAITS[reason, message]


STALLS = {
    "SpecInvalid": REVISION,
    "BudgetExhausted": REVISION,
    "RollbackNeeded": REVISION,
    "CodeChecksumMismatch": REVISION,
    "CodeMissing": SURROUNDINGS,
    "CredentialsMissing": SURROUNDINGS,
    "CaMissing": SURROUNDINGS,
    "AccessDenied": SURROUNDINGS,
    "NoSuchBucket": SURROUNDINGS,
    "SavepointMissing": SURROUNDINGS,
    "SavepointAwaited": SURROUNDINGS,
    "PodSecurityViolated": SURROUNDINGS,
    "QuotaDemandsLimits": SURROUNDINGS,
    "RightMissing": OPERATOR,
}


@pytest.mark.parametrize("reason", STALLS)
def test_a_stall_is_the_fault_of(reason: str) -> None:
    assert fault.of_stall(reason) is STALLS[reason]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.reason)
def test_a_refusal_of_the_api_server_is_the_fault_of(error: errors.StatefulSparkError) -> None:
    assert fault.of_refusal(error) is REFUSALS[error]


@pytest.mark.parametrize("whose", Fault)
def test_a_fault_is_named_after_a_message_of_any_length(whose: Fault) -> None:
    short, long = (fault.add_to(message, whose) for message in ("No key.", "x" * 5000))

    assert short.startswith("No key. Fault of ")
    assert (len(long), long[-20:]) == (LONGEST_MESSAGE, short[-20:])


def test_a_message_without_a_fault_stays_as_it_is() -> None:
    assert fault.add_to("Running.", None) == "Running."


def _lose_a_hot_standby(world: JobWorld) -> None:
    world.change({"driver": {"standby": True}})
    world.run_until(lambda: "StandbyReady" in world.reasons)
    world.cluster.remove(("Pod", KEY.namespace, "flights-standby-1"))


EVENTS: dict[str, tuple[Callable[[JobWorld], object], Fault]] = {
    "QueryFailed": (lambda world: world.fail_driver(1, "QueryFailed", "ValueError."), REVISION),
    "AccessDenied": (lambda world: world.fail_driver(16, "AccessDenied", "No key."), SURROUNDINGS),
    "RightMissing": (lambda world: (forbid_pods("RightMissing")(world), world.kill_driver()), OPERATOR),
    "CodeMissing": (leave_the_code_out, SURROUNDINGS),
    "SpecInvalid": (ask_for_too_much, REVISION),
    "StandbyEnded": (_lose_a_hot_standby, SURROUNDINGS),
}


@pytest.mark.parametrize("reason", EVENTS)
def test_the_event_of_a_failure_names_whose_fault_it_is(reason: str) -> None:
    begin, whose = EVENTS[reason]
    world = JobWorld()
    world.run_until(lambda: world.status.phase is Phase.RUNNING)
    begin(world)

    world.run_until(lambda: reason in world.reasons)

    event = next(event for event in world.cluster.events if event.reason == reason)
    assert event.message == fault.add_to(event.message.partition(" Fault of ")[0], whose)
