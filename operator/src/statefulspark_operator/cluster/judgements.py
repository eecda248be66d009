"""What each answer of the API server means for the operator's request. Pure.

What has no answer, such as a connection that is refused or a proxy that ends it, is waited for: see the gateway.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from statefulspark.judgement import Judgement, Remedy, table

from statefulspark_operator.api import quantities
from statefulspark_operator.lifecycle import fault

BUSY = Judgement(Remedy.WAIT, "waits, since the API server limits how often it is asked")
_OUTAGE = Judgement(Remedy.WAIT, "waits until the API server works again")
_ON_THE_WAY = Judgement(
    Remedy.WAIT, "something between the operator and the API server answers; check the proxies and webhooks before it"
)
_ANEW = Judgement(Remedy.WAIT, "what was asked for is too old; the operator reads anew")
_CHANGED = Judgement(Remedy.LOST_RACE, "somebody else has changed the object; the operator reads it again")
ABSENT = Judgement(Remedy.LOST_RACE, "the object does not exist any more; the operator reads again")
_TOKEN = Judgement(Remedy.CREDENTIALS, "check the operator's service account, and that its token is mounted")
_RIGHTS = Judgement(Remedy.RIGHTS, "ask who may admit this request in the namespace")
_MANIFEST = Judgement(
    Remedy.PERSON, "change the job so that the API server and its admission webhooks take what it needs"
)

STATUSES = table(
    (BUSY, "429"),
    (_OUTAGE, "408 425 500 503 504 506 507 508"),
    (_ON_THE_WAY, "300 301 302 303 304 305 307 308 402 407 421 426 431 451 502 510 511"),
    (_ANEW, "410"),
    (_CHANGED, "409 412 423 428"),
    (ABSENT, "404"),
    (_TOKEN, "401"),
    (_RIGHTS, "403"),
    (_MANIFEST, "400 405 406 411 413 414 415 416 417 418 422 424 501 505"),
)
"""The judgement of each status of an answer that is no success."""


def judge(status: int) -> Judgement:
    """Return what an answer means; a status that HTTP does not have is waited for."""
    return STATUSES.get(str(status), _ON_THE_WAY)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of refusal by the API server, and the team to ask.

    Attributes:
        reason: PascalCase, for conditions and events.
        markers: Texts of the API server's own message; one of them is in it.
        advice: What a person may do. No capital letter, no full stop.
        chooses_status: Whether its answers may have another status than 403.
        besides: What has to be so in addition, for people; empty if the text is enough.
    """

    reason: str
    markers: tuple[str, ...]
    advice: str
    chooses_status: bool = False
    besides: str = ""


NO_DRY_RUN = "does not support dry run"
"""What the API server says of a webhook that may do more than look, so that nothing can be tried."""
NAMESPACE_TERMINATING = "NamespaceTerminating"
_QUOTA_TOO_SMALL = Refusal(
    "QuotaTooSmall",
    ("exceeded quota",),
    "raise the ResourceQuota of the namespace, or ask for less in the job's resources: one pod alone is larger than it",
    besides="a requested amount is larger than the limited one",
)
_QUOTA = re.compile(r"requested: (\S+), used: \S+, limited: (\S+)")
"""The admission plugin for quotas lists amounts like `cpu=2,memory=1Gi`."""
REFUSALS = (
    Refusal(
        NAMESPACE_TERMINATING,
        ("because it is being terminated",),
        "the namespace is being deleted, so nothing starts in it; create the job in another namespace",
    ),
    Refusal(
        "QuotaDemandsLimits",
        ("failed quota",),
        "name what the message asks for in the job's resources, or give the namespace a LimitRange with defaults",
    ),
    _QUOTA_TOO_SMALL,
    Refusal(
        "QuotaExceeded",
        ("exceeded quota",),
        "raise the ResourceQuota of the namespace, end other pods in it, or ask for less in the job's resources",
    ),
    Refusal(
        "LimitRangeExceeded",
        ("usage per Container", "usage per Pod", "limit to request ratio per"),
        "change the LimitRange of the namespace, or the job's resources",
    ),
    Refusal(
        "PodSecurityViolated",
        ("violates PodSecurity",),
        "take what the message names out of the job's pod templates, or change the namespace's Pod Security level",
    ),
    Refusal(
        "AdmissionDenied",
        ("admission webhook", "ValidatingAdmissionPolicy"),
        "ask the owner of that webhook or policy, or change the job so that it agrees",
        chooses_status=True,
    ),
    Refusal(
        fault.RIGHT_MISSING,
        (" cannot ",),
        "bind the rules of the operator's chart for this namespace: see its values watchNamespaces and rbac",
    ),
)
"""Kinds of refusals, told apart by the text of the answer; the first one that fits counts."""


def refusal(judgement: Judgement, message: str) -> Refusal | None:
    """Return who refuses, by what the status of an answer means and by its message; None if the message does not say."""
    if judgement.remedy not in (Remedy.RIGHTS, Remedy.PERSON):
        return None
    candidates = (each for each in REFUSALS if judgement.remedy is Remedy.RIGHTS or each.chooses_status)
    fitting = [each for each in candidates if any(marker in message for marker in each.markers)]
    if _QUOTA_TOO_SMALL in fitting and not _is_larger_than_its_quota(message):
        fitting.remove(_QUOTA_TOO_SMALL)
    return fitting[0] if fitting else None


def _is_larger_than_its_quota(message: str) -> bool:
    """Tell whether what is requested has no room in a quota, however many pods end."""
    amounts = _QUOTA.search(message)
    if amounts is None:
        return False
    requested, limited = (dict(each.split("=", 1) for each in part.split(",")) for part in amounts.groups())
    try:
        return any(
            quantities.amount(size) > quantities.amount(limited[name])
            for name, size in requested.items()
            if name in limited
        )
    except ValueError:  # An amount that no container can have.
        return False
