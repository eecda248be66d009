"""What the operator may open for a tenant: with its own cloud identity, and at which servers.

Whoever writes a resource names locations and servers freely, and the operator reads, copies and deletes there. So its own
identity is lent only for the locations that the installation gives to a namespace; and without a list of servers, none on
the operator's own machine or link is opened. Every store is opened by way of here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from statefulspark import errors, storage
from statefulspark.storage import addresses

_PLAIN_URL = re.compile(r"[A-Za-z0-9.:/\[\]_~%-]+")
"""A URL without a user, a query, and characters that libraries read in different ways."""
_PORTS = {"http": 80, "https": 443}
Location = tuple[str, str]
"""Bucket and folder."""
Server = tuple[str, str, int]
"""Scheme, host and port."""
Resolver = Callable[[str, int], tuple[str, ...]]
"""Returns the addresses of a host."""


def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of a host; none if it has none."""
    try:
        return tuple(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return ()


@dataclass(frozen=True, slots=True)
class Permits:
    """What the installation allows.

    Attributes:
        own_identity: By namespace, the locations at which the operator may use its own identity.
        servers: The servers that `storage.s3.endpoint` may name; none means all but those on its machine and link.
        resolver: Returns the addresses of a host.
    """

    own_identity: Mapping[str, tuple[Location, ...]] = field(default_factory=dict)
    servers: frozenset[Server] = frozenset()
    resolver: Resolver = resolve

    @property
    def refuses_near(self) -> bool:
        """Whether a connection looks again at the address that it is made to: a list of servers may name near ones."""
        return not self.servers

    def require_location(self, namespace: str, uri: str) -> None:
        """Refuse the operator's own identity for a location that its namespace was not given.

        Args:
            namespace: Namespace of the resource that names the location.
            uri: The location.

        Raises:
            SpecRejectedError: `IdentityNotPermitted`, or that it is no location.
        """
        bucket, folder = storage.bucket_and_folder(uri)
        # A folder is permitted with all that is below it; the boundary is a slash.
        if any(
            bucket == given and (not above or f"{folder}/".startswith(f"{above}/"))
            for given, above in self.own_identity.get(namespace, ())
        ):
            return
        raise errors.SpecRejectedError(
            "IdentityNotPermitted",
            f"The operator does not use its own cloud identity at {uri} for the namespace {namespace}. Name a "
            "credentialsSecretRef, or have the location listed for the namespace in jobs.storage.ownIdentity of the "
            "operator's chart.",
        )

    def require_server(self, endpoint: str, *, is_own_identity: bool) -> None:
        """Refuse a server that the operator must not connect to, and its own identity for any that a resource names.

        Args:
            endpoint: URL of the server.
            is_own_identity: Whether the resource names no credentials.

        Raises:
            SpecRejectedError: `EndpointNotPermitted`, or `IdentityNotPermitted`.
            TransientError: `StorageUnreachable`: the server has no address.
        """
        server = server_of(endpoint)
        if self.servers and server not in self.servers:
            raise _refused(endpoint, "is not in jobs.storage.endpoints of the operator's chart; have it listed there")
        if is_own_identity:
            raise errors.SpecRejectedError(
                "IdentityNotPermitted",
                f"The operator does not use its own cloud identity at {endpoint}, which the resource names. Name a "
                "credentialsSecretRef with the keys of that server.",
            )
        if self.servers:
            return
        resolved = self.resolver(server[1], server[2])
        if not resolved:
            raise errors.TransientError("StorageUnreachable", f"The server {endpoint} has no address now.")
        near = next(filter(addresses.is_near, resolved), None)
        if near is not None:
            raise _refused(
                endpoint,
                f"is at {near}, on the operator's own machine or link. Name another one, or have it listed in "
                "jobs.storage.endpoints of the operator's chart",
            )


def parse(own_identity: Mapping[str, Sequence[str]], endpoints: Sequence[str]) -> Permits:
    """Return the permits of an installation, as it writes them.

    Args:
        own_identity: Locations by namespace.
        endpoints: URLs of servers.

    Raises:
        SpecRejectedError: A location or a URL is none.
    """
    locations = {
        namespace: tuple(storage.bucket_and_folder(uri) for uri in uris) for namespace, uris in own_identity.items()
    }
    return Permits(locations, frozenset(server_of(url) for url in endpoints))


def server_of(endpoint: str) -> Server:
    """Return the server of a URL.

    Raises:
        SpecRejectedError: `EndpointInvalid`: it is none, or has more than a server and a path.
    """
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        host, port = None, 0
    if not host or not port or parts.scheme not in _PORTS or _PLAIN_URL.fullmatch(endpoint) is None:
        raise errors.SpecRejectedError(
            "EndpointInvalid",
            "The endpoint is no server URL without a user; write http://minio:9000 or https://s3.example.com.",
        )
    return parts.scheme, host.lower().rstrip("."), port


def _refused(endpoint: str, why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError("EndpointNotPermitted", f"The server {endpoint} {why}.")
