"""Whose fault a failure is: that of the revision, of its surroundings, or of the operator. One table per source of failures.

Only the revision's own failures are a verdict on it: they count in its trial and its budget, and may block it or have it
rolled back. Everything else is outlasted: it is tried again, with a growing delay, for as long as it takes, since an
unchanged revision works once its surroundings do. Two things wait for a person: a snapshot or input that is gone, and state
that cannot be read, which no restart brings back. What is not listed is the revision's. Pure.
"""

from __future__ import annotations

from statefulspark import errors
from statefulspark.contract import faults
from statefulspark.contract.faults import Fault

from statefulspark_operator.api.conditions import LONGEST_MESSAGE
from statefulspark_operator.lifecycle import code
from statefulspark_operator.lifecycle.decision import Reason
from statefulspark_operator.lifecycle.ends import DriverEnd, EndKind
from statefulspark_operator.lifecycle.situation import HARMLESS_WAITS, TLS_SECRET_MISSING, Waiting

_PASSING_WAITS = HARMLESS_WAITS | {"ErrImagePull", TLS_SECRET_MISSING}
"""Reasons that may pass: the first failed pull is repeated before it becomes `ImagePullBackOff`, and a certificate may be
issued a moment after its job is applied."""
RIGHT_MISSING = "RightMissing"
"""The reason of a refusal of the API server because the operator itself has no right."""
_MENDED_BY_A_PERSON = frozenset(
    {
        "AdmissionDenied",
        "LimitRangeExceeded",
        "PodSecurityViolated",
        "QuotaDemandsLimits",
        "QuotaTooSmall",
        RIGHT_MISSING,
    }
)
"""Reasons of refusals of the API server that last until somebody changes the job, a policy, a limit or a right. A quota
has room again when other pods end, unless one pod alone is too large for it. A namespace that is being deleted ends by
itself."""
_STALLS_OF_SURROUNDINGS = frozenset(
    {"CaInvalid", "CaMissing", code.MISSING, Reason.SAVEPOINT_AWAITED.word, Reason.SAVEPOINT_MISSING.word}
)
"""Reasons of `Stalled` for what the job needs and does not have, beside those of refusals and of drivers."""
_PULLS = frozenset({"ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"})
_NO_SUCH_IMAGE = (
    "not found",
    "manifest unknown",
    "does not exist",
    "no match for platform",
    "invalid reference format",
)
"""What registries say of an image that they do not have; some say that a private one does not exist or needs a login."""
_NEEDS_LOGIN = ("may require", "authoriz", "denied")
_NODE_FAILS = (
    "deadline exceeded",
    "deadlineexceeded",
    "is reserved for",
    "no space left on device",
    "cannot allocate memory",
    "too many open files",
    "resource temporarily unavailable",
    "code = unavailable",
)
"""What a node says that is overloaded, full, or whose container runtime is started again; the kubelet tries again."""
_CONFIGURATION = "CreateContainerConfigError"
_AGAINST_ITS_IMAGE = "runAsNonRoot"


_NAMES = {
    Fault.REVISION: "the revision",
    Fault.SURROUNDINGS: "its surroundings",
    Fault.OPERATOR: "the operator",
}


def add_to(message: str, whose: Fault | None) -> str:
    """Return what failed together with whose fault it is, for people; a long message is cut, and the fault is not."""
    if whose is None:
        return message
    name = f" Fault of {_NAMES[whose]}."
    return f"{message[: LONGEST_MESSAGE - len(name)]}{name}"


def of_end(end: DriverEnd) -> Fault:
    """Return whose fault the end of a driver or a standby is."""
    if end.kind not in (EndKind.FAILED, EndKind.REFUSED):
        return Fault.SURROUNDINGS
    return faults.of_exit(end.code, end.reason)


def of_wait(waiting: Waiting) -> Fault:
    """Return whose fault it is that a container does not start.

    A registry that does not answer, a Secret or ConfigMap that is missing, and a node that fails are surroundings: the
    kubelet tries again, and the container starts when they are there.
    """
    text = waiting.message.lower()
    if waiting.reason in _PASSING_WAITS:
        return Fault.SURROUNDINGS
    if waiting.reason in _PULLS:
        is_unknown = any(words in text for words in _NO_SUCH_IMAGE) and not any(words in text for words in _NEEDS_LOGIN)
        return Fault.REVISION if is_unknown else Fault.SURROUNDINGS
    if waiting.reason == _CONFIGURATION:
        return Fault.REVISION if _AGAINST_ITS_IMAGE.lower() in text else Fault.SURROUNDINGS
    return Fault.SURROUNDINGS if any(words in text for words in _NODE_FAILS) else Fault.REVISION


def is_of_image(waiting: Waiting) -> bool:
    """Tell whether a container does not start because its image is not there, whoever is to blame."""
    return waiting.reason in _PULLS | {"ErrImagePull"}


def needs_person(error: errors.StatefulSparkError) -> bool:
    """Tell whether an action fails until a person changes something."""
    return isinstance(error, errors.SpecRejectedError) or outlasts_waiting(error.reason)


def outlasts_waiting(reason: str) -> bool:
    """Tell whether what the API server refuses stays refused, for its reason, until a person changes something."""
    return reason in _MENDED_BY_A_PERSON


def of_stall(reason: str) -> Fault:
    """Return whose fault it is that the operator does not retry, by the reason of `Stalled`."""
    if reason == RIGHT_MISSING:
        return Fault.OPERATOR
    if outlasts_waiting(reason) or reason in _STALLS_OF_SURROUNDINGS:
        return Fault.SURROUNDINGS
    return faults.of_exit(None, reason)


def of_refusal(error: errors.StatefulSparkError) -> Fault:
    """Return whose fault it is that an action failed."""
    match error:
        case errors.SpecRejectedError():
            return Fault.REVISION
        case errors.StateUnknownError() if error.reason == RIGHT_MISSING:
            return Fault.OPERATOR
        case errors.InternalError():
            return Fault.OPERATOR
        case _:
            return Fault.SURROUNDINGS
