"""Client of a driver's HTTP API.

A missing answer is a value, never an error: the driver may be busy or the network may fail, and neither shows whether the
driver runs. Timeouts are short, because the caller asks again soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import aiohttp
from pydantic import ValidationError
from statefulspark.contract.api import ActivateRequest, ApiError, JobStatus, Operation, SavepointRequest, StopRequest

from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent

TIMEOUT_S = 3.0
MOST_AT_ONCE = 256
"""Drivers that are asked at the same time: so many answers are read in much less than the timeout."""
MOST_SILENT_AT_ONCE = 64
"""Drivers that did not answer in time and are asked again at the same time; they keep nobody else waiting."""
_REMEMBERED_SILENT = 4096
_NOT_FOUND = 404


def address_of(pod: DriverPod) -> str | None:
    """Return the URL of a driver pod's API; None while the pod has no address."""
    if pod.ip is None:
        return None
    host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
    return f"http://{host}:{pod.api_port}"


class DriverApi(Protocol):
    """The part of the driver's API that the operator uses."""

    async def status(self, pod: DriverPod, token: str) -> JobStatus | DriverSilent:
        """Return the status of the job."""
        ...

    async def operation(self, pod: DriverPod, token: str, request_id: str) -> Operation | OperationAbsent | None:
        """Return the state of an operation; None if there is no answer."""
        ...

    async def stop(self, pod: DriverPod, token: str, request: StopRequest) -> DriverSilent | None:
        """Request a stop; return None if the driver accepted the request."""
        ...

    async def savepoint(self, pod: DriverPod, token: str, request: SavepointRequest) -> DriverSilent | None:
        """Request a savepoint; return None if the driver accepted the request."""
        ...

    async def activate(self, pod: DriverPod, token: str, request: ActivateRequest) -> DriverSilent | None:
        """Ask a standby to become the driver; return None if it accepted the request."""
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

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def status(self, pod: DriverPod, token: str) -> JobStatus | DriverSilent:
        """Return the status of the job."""
        answer = await self._call(pod, token, "GET", "/v1/status")
        if isinstance(answer, DriverSilent):
            return answer
        code, body = answer
        if code >= 300:
            return DriverSilent(_refusal(code, body))
        try:
            return JobStatus.model_validate_json(body)
        except ValidationError as error:
            return DriverSilent(f"its status cannot be read: {error.errors()[0]['msg']}")

    async def operation(self, pod: DriverPod, token: str, request_id: str) -> Operation | OperationAbsent | None:
        """Return the state of an operation; None if there is no answer."""
        answer = await self._call(pod, token, "GET", f"/v1/operations/{request_id}")
        if isinstance(answer, DriverSilent):
            return None
        code, body = answer
        if code == _NOT_FOUND:
            return OperationAbsent()
        try:
            return Operation.model_validate_json(body) if code < 300 else None
        except ValidationError:
            return None

    async def stop(self, pod: DriverPod, token: str, request: StopRequest) -> DriverSilent | None:
        """Request a stop; return None if the driver accepted the request."""
        return await self._post(pod, token, "/v1/stop", request.to_json())

    async def savepoint(self, pod: DriverPod, token: str, request: SavepointRequest) -> DriverSilent | None:
        """Request a savepoint; return None if the driver accepted the request."""
        return await self._post(pod, token, "/v1/savepoints", request.to_json())

    async def activate(self, pod: DriverPod, token: str, request: ActivateRequest) -> DriverSilent | None:
        """Ask a standby to become the driver; return None if it accepted the request."""
        return await self._post(pod, token, "/v1/activate", request.to_json())

    async def _post(self, pod: DriverPod, token: str, path: str, body: str) -> DriverSilent | None:
        answer = await self._call(pod, token, "POST", path, body)
        if isinstance(answer, DriverSilent):
            return answer
        code, content = answer
        return DriverSilent(_refusal(code, content)) if code >= 300 else None

    async def _call(
        self, pod: DriverPod, token: str, method: str, path: str, body: str | None = None
    ) -> tuple[int, bytes] | DriverSilent:
        address = self._resolve(pod)
        if address is None:
            return DriverSilent("no address yet")
        async with self._silent_lane if pod.uid in self._silent else self._lane:
            if method != "GET":
                self._permit()
            answer = await self._ask(address + path, token, method, body)
        if isinstance(answer, TimeoutError):
            if len(self._silent) > _REMEMBERED_SILENT:
                self._silent.clear()  # Most of these pods are gone by now; those that still hang show it again.
            self._silent.add(pod.uid)
            return DriverSilent(f"its API did not answer within {self._timeout_s:g} s")
        self._silent.discard(pod.uid)
        return answer

    async def _ask(
        self, url: str, token: str, method: str, body: str | None
    ) -> tuple[int, bytes] | DriverSilent | TimeoutError:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with self._open_session().request(
                method, url, data=body, headers=headers, timeout=timeout
            ) as response:
                return response.status, await response.read()
        except (aiohttp.ClientConnectorError, ConnectionError):
            return DriverSilent("its API does not accept connections yet")
        except TimeoutError as error:
            return error
        except aiohttp.ClientError as error:
            return DriverSilent(f"the connection to its API failed: {type(error).__name__}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The lanes are the limit: in the connector's own, of 100, those that hang would keep the others waiting.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session


def _refusal(code: int, body: bytes) -> str:
    try:
        error = ApiError.model_validate_json(body)
    except ValidationError:
        return f"its API answered {code}"
    return f"its API answered {code} {error.reason}: {error.message}"
