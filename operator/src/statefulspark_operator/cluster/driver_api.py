"""Client of a driver's HTTP API.

A missing answer is a value, never an error: the driver may be busy or the network may fail, and neither shows whether the
driver runs. Timeouts are short, because the caller asks again soon.

A driver with a certificate is asked over TLS only, and only if the certificate is that of its job. If that cannot be
verified, nothing is sent: the token is in the first request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import aiohttp
from pydantic import ValidationError
from statefulspark.contract.api import ActivateRequest, ApiError, JobStatus, Operation, SavepointRequest, StopRequest
from statefulspark.contract.config import CheckpointConfig

from statefulspark_operator.api.spec import AUTHORITY_KEY
from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent

TIMEOUT_S = 3.0
LONGEST_WAIT_S = 2
"""For an operation to end; an answer comes within the timeout all the same."""
MOST_AT_ONCE = 256
"""Drivers that are asked at the same time: so many answers are read in much less than the timeout."""
MOST_SILENT_AT_ONCE = 64
"""Drivers that did not answer in time and are asked again at the same time; they keep nobody else waiting."""
MOST_ANSWER_BYTES = 2 * 2**20
"""Of an answer; a status of thousands of partitions is a tenth of it. A pod runs the user's code: it is not believed."""
KEPT_OPEN_S = 8.0
"""How long a connection waits for the next question: a busy driver is asked every 5 s, an idle one every 30 s."""
_PART_BYTES = 2**16
_TOO_LONG = f"its API answered with more than {MOST_ANSWER_BYTES // 2**20} MiB, which no driver of ours does"
_REMEMBERED_SILENT = 4096
_UNAUTHORIZED, _NOT_FOUND = 401, 404


def address_of(pod: DriverPod) -> str | None:
    """Return the URL of a driver pod's API; None while the pod has no address."""
    if pod.ip is None:
        return None
    host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
    return f"{'http' if pod.tls_secret is None else 'https'}://{host}:{pod.api_port}"


@dataclass(frozen=True, slots=True)
class Trust:
    """How the certificate of a driver is verified.

    Attributes:
        secret: Namespace and name of the Secret with the authority, for messages.
        authority: The authority in PEM.
        server_name: The name that the certificate must have.
    """

    secret: str
    authority: str
    server_name: str


@dataclass(frozen=True, slots=True)
class DriverAccess:
    """What a driver is asked with.

    Attributes:
        token: The job's token.
        previous: The token before it, during a rotation: a driver may not have the new one yet.
        trust: How its certificate is verified; None if it speaks HTTP.
    """

    token: str = field(repr=False)
    trust: Trust | None = None
    previous: str | None = field(default=None, repr=False)


class DriverApi(Protocol):
    """The part of the driver's API that the operator uses."""

    async def status(self, pod: DriverPod, access: DriverAccess) -> JobStatus | DriverSilent:
        """Return the status of the job."""
        ...

    async def operation(
        self, pod: DriverPod, access: DriverAccess, request_id: str, *, wait_s: int = 0
    ) -> Operation | OperationAbsent | None:
        """Return the state of an operation; None if there is no answer.

        Args:
            pod: The driver's pod.
            access: What it is asked with.
            request_id: Of the operation.
            wait_s: How long it may go on before its state is told; at most `LONGEST_WAIT_S`.
        """
        ...

    async def stop(self, pod: DriverPod, access: DriverAccess, request: StopRequest) -> DriverSilent | None:
        """Request a stop; return None if the driver accepted the request."""
        ...

    async def savepoint(self, pod: DriverPod, access: DriverAccess, request: SavepointRequest) -> DriverSilent | None:
        """Request a savepoint; return None if the driver accepted the request."""
        ...

    async def activate(self, pod: DriverPod, access: DriverAccess, request: ActivateRequest) -> DriverSilent | None:
        """Ask a standby to become the driver; return None if it accepted the request."""
        ...

    async def configure(
        self, pod: DriverPod, access: DriverAccess, checkpoint: CheckpointConfig
    ) -> DriverSilent | None:
        """Change how a driver takes and keeps checkpoints; return None if it accepted that."""
        ...


class HttpDriverApi:
    """The API over HTTP, at the pod's own address."""

    def __init__(
        self,
        resolve: Callable[[DriverPod], str | None] = address_of,
        *,
        permit: Callable[[], None] = lambda: None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Create a client.

        Args:
            resolve: Returns the URL of a pod's API.
            permit: Called at the moment a driver is asked to do something; raises if it must not be.
            timeout_s: How long an answer is waited for.
        """
        self._resolve, self._permit, self._timeout_s = resolve, permit, timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._lane, self._silent_lane = asyncio.Semaphore(MOST_AT_ONCE), asyncio.Semaphore(MOST_SILENT_AT_ONCE)
        self._silent: set[str] = set()
        self._contexts: dict[Trust, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def status(self, pod: DriverPod, access: DriverAccess) -> JobStatus | DriverSilent:
        """Return the status of the job."""
        answer = await self._call(pod, access, "GET", "/v1/status")
        if isinstance(answer, DriverSilent):
            return answer
        code, body = answer
        if code >= 300:
            return DriverSilent(_refusal(code, body))
        try:
            return JobStatus.model_validate_json(body)
        except ValidationError as error:
            return DriverSilent(f"its status cannot be read: {error.errors()[0]['msg']}")

    async def operation(
        self, pod: DriverPod, access: DriverAccess, request_id: str, *, wait_s: int = 0
    ) -> Operation | OperationAbsent | None:
        """Return the state of an operation; None if there is no answer.

        Args:
            pod: The driver's pod.
            access: What it is asked with.
            request_id: Of the operation.
            wait_s: How long it may go on before its state is told; at most `LONGEST_WAIT_S`.
        """
        answer = await self._call(pod, access, "GET", f"/v1/operations/{request_id}?waitSeconds={wait_s}")
        if isinstance(answer, DriverSilent):
            return None
        code, body = answer
        if code == _NOT_FOUND:
            return OperationAbsent()
        try:
            return Operation.model_validate_json(body) if code < 300 else None
        except ValidationError:
            return None

    async def stop(self, pod: DriverPod, access: DriverAccess, request: StopRequest) -> DriverSilent | None:
        """Request a stop; return None if the driver accepted the request."""
        return await self._send(pod, access, "POST", "/v1/stop", request.to_json())

    async def savepoint(self, pod: DriverPod, access: DriverAccess, request: SavepointRequest) -> DriverSilent | None:
        """Request a savepoint; return None if the driver accepted the request."""
        return await self._send(pod, access, "POST", "/v1/savepoints", request.to_json())

    async def activate(self, pod: DriverPod, access: DriverAccess, request: ActivateRequest) -> DriverSilent | None:
        """Ask a standby to become the driver; return None if it accepted the request."""
        return await self._send(pod, access, "POST", "/v1/activate", request.to_json())

    async def configure(
        self, pod: DriverPod, access: DriverAccess, checkpoint: CheckpointConfig
    ) -> DriverSilent | None:
        """Change how a driver takes and keeps checkpoints; return None if it accepted that."""
        return await self._send(pod, access, "PUT", "/v1/config/checkpoint", checkpoint.to_json())

    async def _send(
        self, pod: DriverPod, access: DriverAccess, method: str, path: str, body: str
    ) -> DriverSilent | None:
        answer = await self._call(pod, access, method, path, body)
        if isinstance(answer, DriverSilent):
            return answer
        code, content = answer
        return DriverSilent(_refusal(code, content)) if code >= 300 else None

    async def _call(
        self, pod: DriverPod, access: DriverAccess, method: str, path: str, body: str | None = None
    ) -> tuple[int, bytes] | DriverSilent:
        address = self._resolve(pod)
        if address is None:
            return DriverSilent("no address yet")
        context = self._context(access.trust) if access.trust is not None else None
        if isinstance(context, DriverSilent):
            return context
        if (context is None) is not (pod.tls_secret is None):
            return DriverSilent("it is not known how to verify its certificate", is_untrusted=True)
        async with self._silent_lane if pod.uid in self._silent else self._lane:
            if method != "GET":
                self._permit()
            answer = await self._ask(method, address + path, body, access, context)
            if access.previous is not None and isinstance(answer, tuple) and answer[0] == _UNAUTHORIZED:
                before = replace(access, token=access.previous, previous=None)
                answer = await self._ask(method, address + path, body, before, context)
        if isinstance(answer, TimeoutError):
            if len(self._silent) > _REMEMBERED_SILENT:
                self._silent.clear()  # Most of these pods are gone by now; those that still hang show it again.
            self._silent.add(pod.uid)
            return DriverSilent(f"its API did not answer within {self._timeout_s:g} s")
        self._silent.discard(pod.uid)
        return answer

    async def _ask(
        self, method: str, url: str, body: str | None, access: DriverAccess, context: ssl.SSLContext | None
    ) -> tuple[int, bytes] | DriverSilent | TimeoutError:
        headers = {"Authorization": f"Bearer {access.token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        name = access.trust.server_name if access.trust is not None else None
        try:
            # A redirect would lead to wherever the pod says, with the operator's reach into the cluster.
            if self._session is None:
                # The lanes are the limit: in the connector's own, of 100, those that hang would keep the others waiting.
                connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN_S)
                self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
            async with self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=timeout,
                ssl=context or True,
                server_hostname=name,
                allow_redirects=False,
            ) as response:
                content = await _content(response)
                return DriverSilent(_TOO_LONG) if content is None else (response.status, content)
        except aiohttp.ClientConnectorCertificateError as error:
            return _untrusted(access.trust, error.certificate_error)
        except aiohttp.ClientConnectorSSLError as error:
            return DriverSilent(f"the TLS handshake with its API failed: {error.os_error}")
        except (aiohttp.ClientConnectorError, ConnectionError):
            return DriverSilent("its API does not accept connections yet")
        except TimeoutError as error:
            return error
        except aiohttp.ClientError as error:
            return DriverSilent(f"the connection to its API failed: {type(error).__name__}")

    def _context(self, trust: Trust) -> ssl.SSLContext | DriverSilent:
        """Return what verifies a certificate; made once for each job and authority, so that connections are kept."""
        kept = self._contexts.get(trust)
        if kept is not None:
            return kept
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cadata=trust.authority)
        except (ssl.SSLError, ValueError):
            return DriverSilent(
                f"{AUTHORITY_KEY} of Secret {trust.secret} is no certificate in PEM; replace it", is_untrusted=True
            )
        if len(self._contexts) >= _REMEMBERED_SILENT:
            self._contexts.clear()
        self._contexts[trust] = context
        return context


async def _content(response: aiohttp.ClientResponse) -> bytes | None:
    """Return the body of an answer; None if it is longer than any of ours, and the rest is not read."""
    content = bytearray()
    async for part in response.content.iter_chunked(_PART_BYTES):
        content += part
        if len(content) > MOST_ANSWER_BYTES:
            response.close()
            return None
    return bytes(content)


def _untrusted(trust: Trust | None, error: Exception) -> DriverSilent:
    name, secret = (trust.server_name, trust.secret) if trust is not None else ("the driver", "?")
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
    return DriverSilent(
        f"its certificate is not trusted: {why.rstrip('.')}. Secret {secret} must have the authority that issued tls.crt as "
        f"{AUTHORITY_KEY}, and a certificate for {name}",
        is_untrusted=True,
    )


def _refusal(code: int, body: bytes) -> str:
    try:
        error = ApiError.model_validate_json(body)
    except ValidationError:
        return f"its API answered {code}"
    return f"its API answered {code} {error.reason}: {error.message}"
