"""Addresses that a client must not connect to: those of its own machine and link, where metadata of nodes is served."""

from __future__ import annotations

import ipaddress
import socket

import aiohttp
import aiohttp.abc

_AWS_METADATA_V6 = ipaddress.ip_address("fd00:ec2::254")
"""Where EC2 serves the metadata of a node over IPv6."""


def is_near(address: str) -> bool:
    """Tell whether an address is of this machine or its link; a text that is no address is not."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(parsed, "ipv4_mapped", None) or parsed
    return plain.is_loopback or plain.is_link_local or plain.is_unspecified or plain == _AWS_METADATA_V6


class FarResolver(aiohttp.abc.AbstractResolver):
    """Resolves names for the connection that is made next, and refuses those that are near.

    A name that was checked before may have another address by now.
    """

    def __init__(self) -> None:
        """Resolve as the machine does; to be called where a loop runs."""
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the addresses of a host.

        Raises:
            OSError: It has none, or one of them is near.
        """
        answers = await self._resolver.resolve(host, port, family)
        near = next((answer["host"] for answer in answers if is_near(answer["host"])), None)
        if near is not None:
            raise OSError(None, f"{host} is at {near}, on this process's own machine or link")
        return answers

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()
