"""The API server, as a person's kubeconfig reaches it: the only module of the plugin that imports `kubernetes`.

It exchanges plain JSON, as the operator's gateway does. Nothing but spec changes of jobs is ever written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import yaml
from kubernetes import client, config
from kubernetes.client.rest import urllib3  # type: ignore[attr-defined]  # its HTTP library, which it requires and we do not
from kubernetes.config import kube_config
from statefulspark import errors

from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.kubectl import refusals
from statefulspark_operator.kubectl.refusals import Attempt

FIELD_MANAGER = "kubectl-statefulspark"
REQUEST_TIMEOUT_S = 20
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_JSON, _MERGE = "application/json", "application/merge-patch+json"
_NOT_FOUND = 404
_MALFORMED = (OSError, ValueError, TypeError, LookupError, AttributeError)
"""The library raises these for a file that is no kubeconfig."""


class Cluster(Protocol):
    """What the plugin needs of the API server.

    Every method raises the errors of `refusals.translate`, and TransientError `ApiServerUnavailable` without an answer.
    """

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return an object; None if it does not exist."""
        ...

    def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> tuple[Resource, ...]:
        """Return the objects of a namespace, or of all, that match a label and a field selector."""
        ...

    def patch_job(self, namespace: str, name: str, patch: Resource) -> Resource:
        """Apply a merge patch to a job, and return it."""
        ...

    def create_savepoint(self, namespace: str, manifest: Resource) -> str:
        """Create a savepoint object, and return its name.

        Raises:
            SpecRejectedError: `Exists`: there is one with this name.
        """
        ...

    def log(self, namespace: str, pod: str, *, container: str, follow: bool, tail: int | None) -> Iterator[bytes]:
        """Return a container's log in pieces, as they come."""
        ...


class Connection:
    """Kubernetes over HTTP.

    Attributes:
        namespace: The namespace that commands without `-n` mean.
    """

    def __init__(self, api: client.ApiClient, namespace: str, *, answer_s: int = REQUEST_TIMEOUT_S) -> None:
        """Use a configured client; `connect` creates one."""
        self._api = api
        self._answer_s = answer_s
        self.namespace = namespace

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return an object; None if it does not exist."""
        attempt = Attempt("get", kind, namespace, name)
        answer = self._send("GET", kind.path(namespace, name), attempt)
        if answer.status == _NOT_FOUND:
            return None
        return _decoded(attempt, answer)

    def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> tuple[Resource, ...]:
        """Return the objects of a namespace, or of all, that match a label and a field selector."""
        attempt = Attempt("list", kind, namespace)
        query = {"labelSelector": labels, "fieldSelector": fields}
        answer = self._send(
            "GET", kind.path(namespace), attempt, query={name: value for name, value in query.items() if value}
        )
        return resources.items(_decoded(attempt, answer), "items")

    def patch_job(self, namespace: str, name: str, patch: Resource) -> Resource:
        """Apply a merge patch to a job, and return it."""
        kind = resources.JOB
        attempt = Attempt("patch", kind, namespace, name)
        query = {"fieldManager": FIELD_MANAGER}
        return _decoded(attempt, self._send("PATCH", kind.path(namespace, name), attempt, query=query, body=patch))

    def create_savepoint(self, namespace: str, manifest: Resource) -> str:
        """Create a savepoint object, and return its name."""
        kind = resources.SAVEPOINT
        attempt = Attempt("create", kind, namespace, resources.text(manifest, "metadata", "name") or None)
        query = {"fieldManager": FIELD_MANAGER}
        stored = _decoded(attempt, self._send("POST", kind.path(namespace), attempt, query=query, body=manifest))
        return resources.text(stored, "metadata", "name")

    def log(self, namespace: str, pod: str, *, container: str, follow: bool, tail: int | None) -> Iterator[bytes]:
        """Return a container's log in pieces, as they come."""
        attempt = Attempt("get", resources.POD, namespace, pod, "log")
        query = {"container": container, "follow": str(follow).lower()}
        query |= {"tailLines": str(tail)} if tail is not None else {}
        answer = self._send("GET", resources.POD.path(namespace, pod, "log"), attempt, query=query, is_endless=follow)
        if answer.status >= 300:
            raise refusals.translate(attempt, answer.status, answer.data)
        try:
            yield from answer.stream()
        except urllib3.exceptions.HTTPError as error:
            raise _unavailable(attempt, error) from error

    def _send(
        self,
        method: str,
        path: str,
        attempt: Attempt,
        *,
        query: Mapping[str, str] | None = None,
        body: Resource | None = None,
        is_endless: bool = False,
    ) -> urllib3.HTTPResponse:
        headers = {
            "Accept": _JSON if attempt.subresource is None else "*/*",
            "Content-Type": _MERGE if method == "PATCH" else _JSON,
        }
        timeout = (self._answer_s, None) if is_endless else self._answer_s
        try:
            parameters = self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*parameters, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise _unavailable(attempt, error) from error
        response: urllib3.HTTPResponse = answer.response
        return response


def connect(context: str | None, *, answer_s: int = REQUEST_TIMEOUT_S) -> Connection:
    """Connect as kubectl does: with KUBECONFIG or the user's file, and inside of a pod with its service account.

    Args:
        context: Context of the kubeconfig; the current one when omitted.
        answer_s: How long to wait for each answer.

    Raises:
        SpecRejectedError: `KubeconfigMissing`, or `ContextNotFound`.
    """
    settings = client.Configuration()
    try:
        namespace = _load_kubeconfig(context, settings)
    except (config.ConfigException, yaml.YAMLError, *_MALFORMED) as error:
        if context is not None or not _NAMESPACE_FILE.exists():
            why = " ".join(str(error).split())
            raise errors.SpecRejectedError(
                "KubeconfigMissing", f"There is no usable kubeconfig ({why}); set KUBECONFIG to its path."
            ) from error
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        return Connection(client.ApiClient(settings), _NAMESPACE_FILE.read_text().strip(), answer_s=answer_s)
    settings.retries = False
    return Connection(client.ApiClient(settings), namespace, answer_s=answer_s)


def _load_kubeconfig(context: str | None, settings: client.Configuration) -> str:
    """Apply a context of the kubeconfig to the settings of a client, and return its namespace.

    The functions of the library ask for a current context, also beside one that is named.
    """
    merged = kube_config.KubeConfigMerger(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).config  # type: ignore[no-untyped-call]
    present = [entry["name"] for entry in merged["contexts"]] if merged is not None else []
    if context is not None and present and context not in present:
        raise errors.SpecRejectedError(
            "ContextNotFound", f"The kubeconfig has no context {context!r}; there are: {', '.join(sorted(present))}."
        )
    loader = kube_config.KubeConfigLoader(merged, active_context=context, config_base_path=None)  # type: ignore[no-untyped-call]
    loader.load_and_set(settings)  # type: ignore[no-untyped-call]
    return loader.current_context["context"].get("namespace") or "default"


def _decoded(attempt: Attempt, answer: urllib3.HTTPResponse) -> Resource:
    if answer.status >= 300:
        raise refusals.translate(attempt, answer.status, answer.data)
    try:
        decoded: Resource = json.loads(answer.data)
    except ValueError as error:
        raise _unavailable(attempt, f"{answer.data[:40]!r} is no answer of one") from error
    return decoded


def _unavailable(attempt: Attempt, error: Exception | str) -> errors.TransientError:
    where = os.environ.get("KUBECONFIG", "the default kubeconfig")
    return errors.TransientError(
        "ApiServerUnavailable",
        f"The API server does not answer ({attempt.verb} {attempt.resource}; {where}): {error}.",
    )
