"""Talks to a driver over its HTTP API.

Not answering is a value, never an error: the driver may be busy or the network may be in the way, and neither says
anything about whether it runs. Timeouts are short, because the caller looks again soon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import aiohttp
from pydantic import ValidationError
from statefulspark.contract.api import ApiError, JobStatus, Operation, SavepointRequest, StopRequest

from statefulspark_operator.lifecycle.situation import DriverPod, DriverSilent, OperationAbsent

TIMEOUT_S = 3.0
_NOT_FOUND = 404


def address_of(pod: DriverPod) -> str | None:
    """Return the URL of a driver pod's API, None while it has no address."""
    if pod.ip is None:
        return None
    host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
    return f"http://{host}:{pod.api_port}"


class DriverApi(Protocol):
    """The driver's API, as far as the operator uses it."""

    async def status(self, pod: DriverPod, token: str) -> JobStatus | DriverSilent:
        """Ask how the job is."""
        ...

    async def operation(self, pod: DriverPod, token: str, request_id: str) -> Operation | OperationAbsent | None:
        """Ask how far an operation is; None if there is no answer."""
        ...

    async def stop(self, pod: DriverPod, token: str, request: StopRequest) -> DriverSilent | None:
        """Ask it to stop; the answer tells only whether it was heard."""
        ...

    async def savepoint(self, pod: DriverPod, token: str, request: SavepointRequest) -> DriverSilent | None:
        """Ask for a savepoint; the answer tells only whether it was heard."""
        ...


class HttpDriverApi:
    """The API over HTTP, by the pod's own address."""

    def __init__(self, resolve: Callable[[DriverPod], str | None] = address_of) -> None:
        """Reach drivers.

        Args:
            resolve: Where a pod's API is.
        """
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def status(self, pod: DriverPod, token: str) -> JobStatus | DriverSilent:
        """Ask how the job is."""
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
        """Ask how far an operation is; None if there is no answer."""
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
        """Ask it to stop; the answer tells only whether it was heard."""
        return await self._post(pod, token, "/v1/stop", request.to_json())

    async def savepoint(self, pod: DriverPod, token: str, request: SavepointRequest) -> DriverSilent | None:
        """Ask for a savepoint; the answer tells only whether it was heard."""
        return await self._post(pod, token, "/v1/savepoints", request.to_json())

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
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with self._open_session().request(
                method, address + path, data=body, headers=headers, timeout=timeout
            ) as response:
                return response.status, await response.read()
        except (aiohttp.ClientConnectorError, ConnectionError):
            return DriverSilent("its API does not accept connections yet")
        except TimeoutError:
            return DriverSilent(f"its API did not answer within {TIMEOUT_S:g} s")
        except aiohttp.ClientError as error:
            return DriverSilent(f"its API broke off: {type(error).__name__}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


def _refusal(code: int, body: bytes) -> str:
    try:
        error = ApiError.model_validate_json(body)
    except ValidationError:
        return f"its API answered {code}"
    return f"its API answered {code} {error.reason}: {error.message}"
