"""Client of a driver's HTTP API: one connection per call, answers as models, every failure as a StatefulSparkError.

It connects to the given address only. It ignores proxies from the environment, since a driver is reached inside the
cluster or through a port-forward on loopback.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from typing import TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import ValidationError

from statefulspark import errors
from statefulspark.contract import api, statistics
from statefulspark.contract.base import WireModel

TIMEOUT_S = 30.0

_Model = TypeVar("_Model", bound=WireModel)


class ApiClient:
    """Client of one driver.

    Every method raises:

    - TransientError `DriverUnreachable`: nothing listens there, or it does not answer in time.
    - SpecRejectedError `DriverNotTrusted`: its certificate is not of the authority, or of another name.
    - SpecRejectedError: the driver refuses the request (`Unauthorized`, `OperationUnknown`, `RequestInvalid`...), or the
      answer is not that of a driver (`AnswerInvalid`).
    - PreconditionFailedError: the driver cannot do it in its current state.
    """

    def __init__(self, url: str, token: str, *, authority: str | None = None, server_name: str | None = None) -> None:
        """Keep the address and the token; no request is sent yet.

        Args:
            url: `http://host:port`, or https.
            token: The job's token.
            authority: File with the authority of the driver's certificate; None for those that this machine trusts.
            server_name: The name that the certificate must have; None for the host in `url`.

        Raises:
            SpecRejectedError: `UrlInvalid`, `TokenMissing` or `CaInvalid`.
        """
        self._parts = _parts(url)
        self.url = url.rstrip("/")
        if not token.isprintable():
            raise errors.SpecRejectedError(
                "TokenMissing",
                "The token has a line break or another character that no token has; set STATEFULSPARK_TOKEN to this job's "
                "token.",
            )
        self._token = token.encode()
        is_tls = self._parts.scheme == "https"
        if not is_tls and (authority or server_name):
            raise errors.SpecRejectedError(
                "UrlInvalid", f"--ca and --server-name need a url with https://, and {url!r} has none; correct --url."
            )
        self._context = _context(authority) if is_tls else None
        self._server_name = server_name

    def status(self) -> api.JobStatus:
        """Return the status of the job."""
        return self._call("GET", "/v1/status", api.JobStatus)

    def checkpoints(self) -> statistics.Checkpoints:
        """Return statistics of the snapshots since this driver started."""
        return self._call("GET", "/v1/checkpoints", statistics.Checkpoints)

    def checkpoint(self, snapshot_id: int) -> statistics.SnapshotDetails:
        """Return one snapshot that is in progress or among the latest."""
        return self._call("GET", f"/v1/checkpoints/{snapshot_id}", statistics.SnapshotDetails)

    def create_checkpoint(self, request: api.CheckpointRequest) -> api.Operation:
        """Start a checkpoint, or return the one that this request id started."""
        return self._call("POST", "/v1/checkpoints", api.Operation, request)

    def create_savepoint(self, request: api.SavepointRequest) -> api.Operation:
        """Start a savepoint, or return the one that this request id started."""
        return self._call("POST", "/v1/savepoints", api.Operation, request)

    def stop(self, request: api.StopRequest) -> api.Operation:
        """Start a stop, or return the one that this request id started."""
        return self._call("POST", "/v1/stop", api.Operation, request)

    def operation(self, request_id: str, *, wait_s: int) -> api.Operation:
        """Return a savepoint or stop by its request id, as soon as it has ended or after `wait_s` seconds."""
        path = f"/v1/operations/{quote(request_id, safe='')}?waitSeconds={wait_s}"
        return self._call("GET", path, api.Operation)

    def _call(self, method: str, path: str, answer: type[_Model], body: WireModel | None = None) -> _Model:
        content = body.to_json() if body is not None else None
        host, port = self._parts.hostname or "", self._parts.port
        if self._context is None:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        else:
            connection = _NamedConnection(host, port, context=self._context, server_name=self._server_name)
        headers: dict[str, str | bytes] = {
            "Authorization": b"Bearer " + self._token,
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
        except ssl.SSLCertVerificationError as error:
            raise errors.SpecRejectedError(
                "DriverNotTrusted",
                f"The certificate of the driver at {self.url} is not trusted: {error.verify_message.rstrip('.')}. Give its "
                "authority with --ca (ca.crt of the Secret that spec.driver.tls names), and through a port-forward its name "
                "with --server-name.",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            why = (
                error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
            )
            raise errors.TransientError(
                "DriverUnreachable",
                f"No driver answers at {self.url}: {why}. Check --url, and that the job runs; from outside the cluster, "
                "run `kubectl port-forward` to the driver's pod first.",
            ) from error
        finally:
            connection.close()
        if status >= 400:
            refused = self._read(api.ApiError, text)
            if status == 401:
                raise errors.SpecRejectedError(
                    refused.reason,
                    f"The driver at {self.url} refuses the token; set STATEFULSPARK_TOKEN to this job's token.",
                )
            if status >= 500:
                raise errors.TransientError(refused.reason, f"The driver at {self.url} failed: {refused.message}")
            if status == 409:
                raise errors.PreconditionFailedError(refused.reason, refused.message)
            raise errors.SpecRejectedError(refused.reason, refused.message)
        return self._read(answer, text)

    def _read(self, model: type[_Model], text: bytes) -> _Model:
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            raise errors.SpecRejectedError(
                "AnswerInvalid",
                f"The server at {self.url} is not a driver of this release; it answered "
                f"{text[:80].decode(errors='replace')!r}; "
                "check --url.",
            ) from error


def _parts(url: str) -> SplitResult:
    """Return the parts of a driver's address.

    Raises:
        SpecRejectedError: `UrlInvalid`.
    """
    with contextlib.suppress(ValueError):  # of brackets, of a port, and of what HTTP and names of hosts cannot say
        parts = urlsplit(url)
        host, _, _ = parts.hostname or "", parts.port, parts.path.encode("ascii")
        if parts.scheme in ("http", "https") and host.encode("idna") and url.isprintable() and " " not in url:
            return parts
    raise errors.SpecRejectedError("UrlInvalid", f"The url {url!r} of the driver must look like http://host:8090.")


class _NamedConnection(http.client.HTTPSConnection):
    """A connection to a server whose certificate has another name than the address that it is reached by."""

    def __init__(self, host: str, port: int | None, *, context: ssl.SSLContext, server_name: str | None) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S, context=context)
        self._context_of_server, self._server_name = context, server_name or host

    def connect(self) -> None:
        """Connect to the address, and verify the name."""
        plain = socket.create_connection((self.host, self.port), TIMEOUT_S)
        try:
            self.sock = self._context_of_server.wrap_socket(plain, server_hostname=self._server_name)
        except BaseException:
            plain.close()
            raise


def _context(authority: str | None) -> ssl.SSLContext:
    """Return what verifies the driver's certificate.

    Raises:
        SpecRejectedError: `CaInvalid`.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        why = (
            f"is no certificate in PEM ({error.reason})"
            if isinstance(error, ssl.SSLError)
            else f"cannot be read: {error.strerror}"
        )
        raise errors.SpecRejectedError(
            "CaInvalid", f"The authority {authority} {why}; give ca.crt of the driver's Secret with --ca."
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
