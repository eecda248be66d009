"""What the API server refuses, as sentences with what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from statefulspark import errors

from statefulspark_operator.api import base
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind
from statefulspark_operator.kubectl import codes

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
_INVALID = (400, 422)
_USER = re.compile(r'User "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was attempted.

    Attributes:
        verb: Kubernetes' verb: get, list, patch, create.
        kind: Kind of the object.
        namespace: Its namespace; None for all namespaces.
        name: Its name, if one was named.
        subresource: For example `log`.
    """

    verb: str
    kind: Kind
    namespace: str | None
    name: str | None = None
    subresource: str | None = None

    @property
    def resource(self) -> str:
        """The resource as roles name it: `pods/log`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"in namespace {self.namespace}" if self.namespace is not None else "in all namespaces"


def translate(attempt: Attempt, status: int, content: bytes) -> errors.StatefulSparkError:
    """Return the error for an answer of the API server that is none of success.

    Args:
        attempt: What was attempted.
        status: HTTP status.
        content: Body of the answer.
    """
    said = resources.server_message(content)
    if status == _FORBIDDEN:
        return errors.SpecRejectedError("Forbidden", _forbidden(attempt, said))
    if status == _UNAUTHORIZED:
        return errors.SpecRejectedError(
            "Unauthorized",
            f"The API server does not accept your credentials ({said}); log in again, or choose another --context.",
        )
    if status == _NOT_FOUND and (attempt.verb == "create" or (attempt.kind == resources.JOB and attempt.name is None)):
        crd = f"{attempt.kind.plural}.{base.GROUP}"
        return errors.SpecRejectedError(
            "CrdNotFound",
            f"The cluster knows no {crd}: the operator's CRD is not installed, or this is another cluster. Choose "
            "one with --context, or install the chart.",
        )
    if status == _NOT_FOUND:
        what = f"{attempt.kind.name} {attempt.name}" if attempt.name else attempt.resource
        return errors.SpecRejectedError(f"{attempt.kind.name}NotFound", f"There is no {what} {attempt.place}: {said}")
    if status == _CONFLICT and attempt.verb == "create":
        return errors.SpecRejectedError(
            "Exists", f"There is a {attempt.kind.name} {attempt.name} already {attempt.place}; choose another --name."
        )
    if status == _CONFLICT:
        return errors.PreconditionFailedError(
            "Conflict", "Somebody has changed the job since it was read; nothing was changed. Run the command again."
        )
    if status in _INVALID and attempt.verb in ("patch", "create"):
        return errors.SpecRejectedError("Rejected", f"The API server refuses it, and nothing was changed: {said}")
    if status in _INVALID:
        return errors.SpecRejectedError(
            "Rejected", f"The API server cannot {attempt.verb} {attempt.resource} now: {said}"
        )
    return errors.TransientError("ApiServerUnavailable", f"The API server answers {status}: {said}")


def _forbidden(attempt: Attempt, said: str) -> str:
    user_named = _USER.search(said)
    user = f"{user_named[1]} has" if user_named else "You have"
    where = f"-n {attempt.namespace} " if attempt.namespace is not None else ""
    role = "role" if attempt.namespace is not None else "clusterrole"
    group = attempt.kind.api_version.rpartition("/")[0]
    resource = f"{attempt.kind.plural}.{group}" if group else attempt.kind.plural
    granted = f"{resource}/{attempt.subresource}" if attempt.subresource else resource
    return (
        f"{user} no right to {attempt.verb} {attempt.resource} {attempt.place}. To grant it, bind this {role}: kubectl "
        f"{where}create {role} statefulspark-user --verb={attempt.verb} --resource={granted}"
    )


def no_such_job(
    namespace: str, name: str, present: Sequence[str], elsewhere: Sequence[str]
) -> errors.SpecRejectedError:
    """Return the error for a job that does not exist.

    Args:
        namespace: The namespace.
        name: The job that was asked for.
        present: Jobs in the namespace.
        elsewhere: Jobs in other namespaces as `namespace/name`, if they could be listed.
    """
    if present:
        what_exists = f"there are: {', '.join(sorted(present))}."
    elif elsewhere:
        what_exists = f"the namespace has none. Jobs of other namespaces (-n): {', '.join(sorted(elsewhere))}."
    else:
        what_exists = "the namespace has none."
    return errors.SpecRejectedError(
        codes.JOB_NOT_FOUND, f"There is no job {name!r} in namespace {namespace}; {what_exists}"
    )


def which_job(namespace: str, present: Sequence[str]) -> errors.SpecRejectedError:
    """Return the error for a job that has to be named."""
    if not present:
        return errors.SpecRejectedError(
            codes.JOB_NOT_FOUND, f"There is no job in namespace {namespace}; name one with -n."
        )
    listed = ", ".join(sorted(present))
    return errors.SpecRejectedError("NameMissing", f"Namespace {namespace} has several jobs; name one: {listed}.")
