"""The gateway over the real API server: the only module that imports the `kubernetes` package.

It uses the package for configuration, credentials and connections, and exchanges plain JSON: the typed models would have to
follow every Kubernetes release, and drop unknown fields. Some functions of the package have no type annotations, hence the
`no-untyped-call` comments.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import urllib.request
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, assert_never

import aiohttp
from kubernetes.aio import client, config
from statefulspark import errors
from statefulspark.judgement import Remedy

import statefulspark_operator
from statefulspark_operator.api import names
from statefulspark_operator.cluster import answers, judgements, resources
from statefulspark_operator.cluster.gateway import EventNote, JobKey
from statefulspark_operator.cluster.resources import Kind, Resource
from statefulspark_operator.cluster.shares import Holder, Limits, Places

REQUEST_TIMEOUT_S = 20
AT_ONCE = Limits(most=16, most_at_store=16, leaves_half=False)
"""Requests that are sent to the API server at the same time. Namespaces share them, so a namespace with hundreds of objects
that change without pause does not keep the requests of another one waiting behind its own."""
_LOG = logging.getLogger("statefulspark.gateway")
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WATCH_S = 300
"""After this time the API server ends a watch, so that one which has fallen silent is not relied on for longer."""
_PAGE = 500
"""Objects that are listed with one request."""
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_NOT_FOUND = 404
CLUSTER_EVENTS = "default"
"""The namespace of events about objects that are in none."""


class KubernetesGateway:
    """Kubernetes over HTTP."""

    def __init__(
        self,
        api: client.ApiClient,
        written: Callable[[Resource], None] = lambda _object: None,
        *,
        permit: Callable[[], None] = lambda: None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Use a configured client; `connect` creates one.

        Args:
            api: The client.
            written: Receives every object as it is after a write.
            permit: Called at the moment a write is sent; raises if it must not be.
            timeout_s: How long an answer is waited for.
        """
        self._api, self._written, self._permit, self._timeout_s = api, written, permit, timeout_s
        self._places = Places(AT_ONCE)

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        written: Callable[[Resource], None] = lambda _object: None,
        *,
        permit: Callable[[], None] = lambda: None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Self:
        """Connect with the pod's service account, or outside a cluster with a kubeconfig.

        Args:
            kubeconfig: The file to use outside a cluster; KUBECONFIG or the user's default file when omitted.
            written: Receives every object as it is after a write.
            permit: Called at the moment a write is sent; raises if it must not be.
            timeout_s: How long an answer is waited for.

        Raises:
            SpecRejectedError: `KubeconfigMissing`: there is neither of them.
        """
        settings = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            try:
                await config.load_kube_config(str(kubeconfig) if kubeconfig else None, client_configuration=settings)  # type: ignore[no-untyped-call]
            except config.ConfigException as error:
                raise errors.SpecRejectedError(
                    "KubeconfigMissing", f"There is neither a service account nor a usable kubeconfig: {error}"
                ) from error
        if not urllib.request.getproxies():
            # Otherwise each request looks for ~/.netrc, in a thread: a tenth of the processor in a mass upgrade.
            settings.client_session_kwargs = {"trust_env": False}
        api = client.ApiClient(settings)
        api.user_agent = f"{names.FIELD_MANAGER}/{statefulspark_operator.__version__}"
        return cls(api, written, permit=permit, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """Return an object, or None if it is proven absent, as one is whose name no object can have."""
        if not resources.may_be_name(name):
            return None
        return await self._call("GET", kind.path(namespace, name), absent_is_none=True)

    async def read_cluster_id(self) -> str | None:
        """Return the uid of the namespace kube-system, which stands for the cluster; None if it may not be read."""
        try:
            system = await self._call("GET", resources.NAMESPACE.path(None, "kube-system"), absent_is_none=True)
        except errors.StateUnknownError as error:
            _LOG.warning("cluster not identified", extra={"error": error.message})
            return None
        return resources.text(system or {}, "metadata", "uid") or None

    async def is_ending(self, namespace: str) -> bool:
        """Tell whether a namespace is being deleted; false, too, if the operator may not read it."""
        try:
            read = await self._call("GET", resources.NAMESPACE.path(None, namespace), absent_is_none=True)
        except errors.StateUnknownError:
            return False
        return read is None or bool(resources.text(read, "metadata", "deletionTimestamp"))

    async def watch(self, kind: Kind, namespace: str, name: str) -> AsyncGenerator[str, None]:
        """Watch one object without what it contains: an empty text when the watch is open, then each version."""
        request = f"WATCH {kind.path(namespace)} {name}"
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(WATCH_S)}
        patience = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=WATCH_S + self._timeout_s)
        try:
            parameters = await self._api.param_serialize(
                "GET",
                kind.path(namespace),
                query_params=list(query.items()),
                header_params={"Accept": _METADATA},
                auth_settings=["BearerToken"],
            )
            response = await self._api.call_api(*parameters, _request_timeout=patience)
            if response.status >= 300:
                content: bytes = await response.read()  # type: ignore[no-untyped-call]
                raise _error(response.status, request, content)
            async with contextlib.aclosing(_versions(response.response)) as versions:
                async for version in versions:
                    yield version
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise errors.TransientError(
                "ApiServerUnavailable", f"{request} has ended: {str(error) or type(error).__name__}."
            ) from error

    async def list_pods(self, namespace: str, selector: str) -> tuple[Resource, ...]:
        """Return the pods that match a label selector."""
        answer = await self._call("GET", resources.POD.path(namespace), query={"labelSelector": selector})
        return _named(resources.POD, answer)

    async def list_all(
        self, kind: Kind, namespace: str | None, *, selector: str | None = None
    ) -> tuple[Resource, ...] | None:
        """Return all objects of a kind in a namespace; None if the cluster does not know the kind."""
        query = {"labelSelector": selector} if selector is not None else None
        answer = await self._call("GET", kind.path(namespace), query=query, absent_is_none=True)
        if answer is None:
            return None
        return _named(kind, answer)

    async def list_uids(self, kind: Kind, namespace: str | None, selector: str = "") -> frozenset[str]:
        """Return the identities of all objects of a kind, read in pages and without what they contain."""
        uids: set[str] = set()
        query = {"limit": str(_PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            answer = await self._call("GET", kind.path(namespace), query=query, accept=_METADATA_LIST)
            uids |= {resources.text(item, "metadata", "uid") for item in resources.items(answer, "items")}
            following = resources.text(answer, "metadata", "continue")
            if not following:
                return frozenset(uids)
            query = {**query, "continue": following}

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return a Secret's values that are text, decoded, or None if it is proven absent."""
        secret = await self.get(resources.SECRET, namespace, name)
        if secret is None:
            return None
        texts: dict[str, str] = {}
        for key, value in resources.section(secret, "data").items():
            # A keystore may be beside the certificate that is asked for, as cert-manager writes one.
            with contextlib.suppress(ValueError):
                texts[key] = base64.b64decode(str(value)).decode()
        return texts

    async def create(self, manifest: Resource) -> bool:
        """Create an object; False if one with that name exists, which is not changed."""
        kind, namespace, _ = _identity(manifest)
        try:
            await self._call("POST", kind.path(namespace), body=manifest)
        except errors.PreconditionFailedError:
            return False
        return True

    async def dry_run(self, manifest: Resource) -> errors.StatefulSparkError | None:
        """Return how the API server would refuse to create an object, also for an unknown field; None if it would not."""
        kind, namespace, _ = _identity(manifest)
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        try:
            await self._call("POST", kind.path(namespace), body=manifest, query=query)
        except errors.PreconditionFailedError:
            return None
        except (errors.SpecRejectedError, errors.StateUnknownError) as error:
            return None if judgements.NO_DRY_RUN in error.message else error
        return None

    async def replace(self, manifest: Resource) -> Resource:
        """Replace an object if it still has the version in the manifest, and return it as it is then."""
        kind, namespace, name = _identity(manifest)
        return await self._call("PUT", kind.path(namespace, name), body=manifest) or {}

    async def apply(self, manifest: Resource, *, resource_version: str | None = None) -> str:
        """Apply a manifest by server-side apply with the operator's field manager, and return the object's version."""
        kind, namespace, name = _identity(manifest)
        query, body = {"force": "false"}, manifest
        if resource_version is not None:
            metadata = {**resources.section(manifest, "metadata"), "resourceVersion": resource_version}
            query, body = {"force": "true"}, {**manifest, "metadata": metadata}
        applied = await self._call("PATCH", kind.path(namespace, name), body=body, query=query, content_type=_APPLY)
        return resources.text(applied, "metadata", "resourceVersion")

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> bool:
        """Delete an object; False if it does not exist."""
        options: Resource = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            answer = await self._call("DELETE", kind.path(namespace, name), body=options, absent_is_none=True)
        except errors.PreconditionFailedError:
            return False
        return answer is not None

    async def label_pod(
        self,
        namespace: str,
        name: str,
        labels: Mapping[str, str | None],
        *,
        annotations: Mapping[str, str | None] | None = None,
        uid: str,
    ) -> None:
        """Add, change and remove labels and annotations of a pod."""
        body: Resource = {"metadata": {"uid": uid, "labels": dict(labels), "annotations": dict(annotations or {})}}
        try:
            await self._call("PATCH", resources.POD.path(namespace, name), body=body, content_type=_MERGE)
        except errors.SpecRejectedError as error:
            # Kubernetes answers a wrong uid with 422 "field is immutable", and nothing else of this patch can be wrong.
            raise errors.PreconditionFailedError("Conflict", f"Pod {name} is another one: {error.message}") from error

    async def patch_status(
        self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB
    ) -> str:
        """Patch the status of an object if it has not changed since it was read, and return its new version."""
        body: Resource = {"metadata": {"resourceVersion": resource_version}, "status": patch}
        path = kind.path(key.namespace, key.name, "status")
        patched = await self._call("PATCH", path, body=body, content_type=_MERGE)
        return resources.text(patched, "metadata", "resourceVersion")

    async def patch(self, key: JobKey, patch: Resource, *, resource_version: str, kind: Kind = resources.JOB) -> None:
        """Patch metadata and spec of an object if it has not changed since it was read; nothing is made anew."""
        metadata = {**resources.section(patch, "metadata"), "resourceVersion": resource_version}
        body: Resource = {**patch, "metadata": metadata}
        path = kind.path(key.namespace, key.name)
        await self._call("PATCH", path, body=body, content_type=_MERGE, absent_is_none=True)

    async def post_event(self, key: JobKey, uid: str, note: EventNote, *, kind: Kind = resources.JOB) -> None:
        """Post an event about a job or a savepoint."""
        about: Resource = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
        }
        try:
            await self._call("POST", resources.EVENT.path(key.namespace), body=event(about, note, datetime.now(UTC)))
        except errors.StateUnknownError as error:
            if error.reason != judgements.NAMESPACE_TERMINATING or not note.is_warning:
                raise
            # Nothing is created in a namespace that is being deleted, so the event is about the namespace.
            whole: Resource = {"apiVersion": "v1", "kind": resources.NAMESPACE.name, "name": key.namespace}
            note = EventNote(note.reason, f"{kind.name} {key.name}: {note.message}", note.is_warning)
            path = resources.EVENT.path(CLUSTER_EVENTS)
            await self._call("POST", path, body=event(whole, note, datetime.now(UTC)))

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Resource | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        absent_is_none: bool = False,
    ) -> Resource | None:
        request = f"{method} {path}"
        # Without it managedFields would name the library that made the request.
        manager = {"fieldManager": names.FIELD_MANAGER} if method in _WRITES else {}
        try:
            parameters = await self._api.param_serialize(
                method,
                path,
                query_params=list({**manager, **(query or {})}.items()),
                header_params={"Accept": accept, "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            async with self._places.held(Holder(_namespace_of(path), "")):
                if method != "GET":
                    self._permit()  # Not earlier: it may have waited for its turn, or the process may have been frozen.
                response = await self._api.call_api(*parameters, _request_timeout=self._timeout_s)
                content: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.TransientError(
                "ApiServerUnavailable",
                f"The API server did not answer {request}: {str(error) or type(error).__name__}.",
            ) from error
        status: int = response.status
        if status < 300:
            decoded = _decoded(request, content)
            if method != "GET":
                self._written(decoded)
            return decoded
        if status == _NOT_FOUND and absent_is_none:
            return None
        raise _error(status, request, content)


def _decoded(request: str, content: bytes) -> Resource:
    """Return the object of an answer; empty if there is none."""
    try:
        decoded = answers.read(content) if content else {}
    except ValueError as error:
        raise errors.TransientError(
            "ApiServerUnavailable", f"The answer to {request} cannot be read: {error}."
        ) from error
    return decoded if isinstance(decoded, dict) else {}


def _namespace_of(path: str) -> str:
    """Return the namespace of a request; empty for one about the whole cluster."""
    return path.partition("/namespaces/")[2].partition("/")[0]


async def _versions(response: aiohttp.ClientResponse) -> AsyncGenerator[str, None]:
    """Yield an empty text, and then the version of the object in each event of an open watch."""
    try:
        yield ""
        async for line in response.content:
            event = answers.read(line)
            if resources.text(event, "type") == "ERROR":
                return  # What the watch began with is too old; the next one begins anew.
            yield resources.text(event, "object", "metadata", "resourceVersion")
    finally:
        response.close()


def _named(kind: Kind, answer: Resource | None) -> tuple[Resource, ...]:
    """Return the items of a list, which do not say what they are, with that."""
    named: Resource = {"apiVersion": kind.api_version, "kind": kind.name}
    return tuple({**named, **item} for item in resources.items(answer, "items"))


def _identity(manifest: Resource) -> tuple[Kind, str, str]:
    """Return kind, namespace and name of a manifest."""
    return (
        resources.kind_of(manifest),
        resources.text(manifest, "metadata", "namespace"),
        resources.text(manifest, "metadata", "name"),
    )


def _error(status: int, request: str, content: bytes) -> errors.StatefulSparkError:
    """Translate an error answer by what it means."""
    judgement, said = judgements.judge(status), resources.server_message(content)
    refusal = judgements.refusal(judgement, said)
    advice = judgement.advice if refusal is None else refusal.advice
    message = f"The API server answers {request} with {status} ({said}); {advice}."
    if refusal is not None:
        return errors.StateUnknownError(refusal.reason, message)
    match judgement.remedy:
        case Remedy.WAIT:
            return errors.TransientError("ApiServerUnavailable", message)
        case Remedy.LOST_RACE:
            reason = "NotFound" if judgement is judgements.ABSENT else "Conflict"
            return errors.PreconditionFailedError(reason, message)
        case Remedy.CREDENTIALS | Remedy.RIGHTS:
            return errors.StateUnknownError("ApiServerRefused", message)
        case Remedy.PERSON:
            return errors.SpecRejectedError("ManifestRejected", message)
        case _ as never:
            assert_never(never)


def event(about: Resource, note: EventNote, now: datetime) -> Resource:
    """Return the Event object for a note about an object."""
    name, namespace = resources.text(about, "name"), resources.text(about, "namespace") or CLUSTER_EVENTS
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
        "involvedObject": about,
        "reason": note.reason,
        "message": note.message[:1024],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": names.FIELD_MANAGER},
        "reportingComponent": names.FIELD_MANAGER,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
