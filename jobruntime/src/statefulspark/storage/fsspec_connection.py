"""Connections to S3 servers through s3fs: one for each server and set of credentials, shared by all stores of a process.

The first client of a process takes 0.1 s of processor time, nearly all of it to read how S3's requests look. Clients of one
session share that, and so do the processes that are forked from one that has read it (`read_ahead`).

A client asks the server that it was given, and no other: it follows no redirect. A location is a choice of whoever writes
the job, and the process that reads it may reach what that person cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import aiobotocore.httpsession
import aiobotocore.session
import aiohttp
import s3fs

from statefulspark.storage import addresses, fsspec_listing
from statefulspark.storage.authorities import Authority
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.splitting import SplitPoints

_T = TypeVar("_T")
CONCURRENCY = 32
"""Largest number of requests at a time."""
_CONNECT_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 6.0
_LONG_READ_TIMEOUT_S = 300.0  # a server may not answer while it copies or receives gigabytes


async def gather(works: Sequence[Callable[[], Awaitable[_T]]]) -> tuple[_T, ...]:
    """Run tasks, at most `CONCURRENCY` at a time; the first failure cancels the running ones and is raised."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def limited(work: Callable[[], Awaitable[_T]]) -> _T:
        async with gate:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(limited(work)) for work in works]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0]  # noqa: B904 - callers expect a single error, and this one has its own cause
    return tuple(task.result() for task in tasks)


@dataclass(frozen=True, slots=True)
class Connection:
    """One server and one set of credentials, shared by a store and its children.

    Attributes:
        quick: Sends requests that are answered within seconds.
        patient: Sends requests that may take minutes.
        endpoint: The server, for messages.
        authority: Where the authorities come from that are trusted beside the client's own, for messages.
        split_points: Where large folders are split to be listed.
        seen_at_s: Time of each bucket's last answer, which proves that it exists, on the monotonic clock.
    """

    quick: s3fs.S3FileSystem
    patient: s3fs.S3FileSystem
    endpoint: str
    authority: str | None = None
    split_points: SplitPoints = field(default_factory=lambda: SplitPoints(is_sorted=False))
    seen_at_s: dict[str, float] = field(default_factory=dict)


@functools.lru_cache(maxsize=16)
def connect(options: StorageOptions) -> Connection:
    """Return the connection for these options; stores share it, because building a client takes 0.3 s."""
    return Connection(
        quick=_file_system(options, _READ_TIMEOUT_S),
        patient=_file_system(options, _LONG_READ_TIMEOUT_S),
        endpoint=options.endpoint or "AWS S3",
        authority=options.authority.source if options.authority is not None else None,
        split_points=SplitPoints(is_sorted=options.endpoint is None),
    )


def read_ahead() -> None:
    """Read how S3's requests look, for the clients of this process and of those that are forked from it; no request is sent.

    It leaves no thread and no connection behind, so that the process can be forked.
    """

    async def make_client() -> None:
        nobody = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(_session().create_client("s3", region_name="us-east-1", **nobody))

    asyncio.run(make_client())


@functools.cache
def _session() -> aiobotocore.session.AioSession:
    session = aiobotocore.session.get_session()
    session.register("before-call.s3.HeadBucket", _bucket_not_asked)
    session.register_component("response_parser_factory", fsspec_listing.ParserFactory())
    return session


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    """What botocore takes for the answer to a request that was not sent."""

    status_code: int = 400


def _bucket_not_asked(**_: object) -> tuple[_NoAnswer, Mapping[str, Mapping[str, object]]]:
    """Answer botocore's own HEAD of a bucket: after a redirect that names no region it would ask the server for that.

    The redirect of that request would make it ask again, and so on without end. No call of ours is a HEAD of a bucket.
    """
    return _NoAnswer(), {"Error": {"Code": "NotAsked"}, "ResponseMetadata": {"HTTPHeaders": {}}}


class _DirectSession(aiobotocore.httpsession.AIOHTTPSession):  # type: ignore[misc]  # aiobotocore has no types
    """Sends each request to the server that it names, at once and within its time.

    The answer may be a redirect, which is a failure. botocore follows none; aiohttp does, with the body of a PUT, unless
    each request forbids it, and aiobotocore does not forbid.

    botocore asks a server whether it wants a body (`Expect`) before it sends that. aiohttp waits for this answer without a
    limit: its read timeout starts after the body, so that a server without an answer keeps a PUT for good.
    """

    _connector_args: dict[str, object]

    def __init__(
        self,
        *arguments: object,
        authority: Authority | None = None,
        refuses_near: bool = False,
        **options: object,
    ) -> None:
        super().__init__(*arguments, **options)
        self._authority = authority
        if refuses_near:
            self._connector_args = {**self._connector_args, "resolver": addresses.FarResolver()}

    def _get_ssl_context(self) -> ssl.SSLContext:
        context: ssl.SSLContext = super()._get_ssl_context()
        if self._authority is not None:
            context.load_verify_locations(cadata=self._authority.pem)
        return context

    async def _get_session(self, proxy_url: str | None) -> _DirectRequests:
        return _DirectRequests(await super()._get_session(proxy_url))


@dataclass(frozen=True, slots=True)
class _DirectRequests:
    """The one call of a client session that `_DirectSession` makes."""

    session: aiohttp.ClientSession

    async def request(
        self, method: str, *, headers: MutableMapping[str, str], **options: object
    ) -> aiohttp.ClientResponse:
        headers.pop("Expect", None)
        request = functools.partial(self.session.request, allow_redirects=False)
        return await request(method, headers=headers, **options)  # type: ignore[arg-type]  # they are aiobotocore's own


def _file_system(options: StorageOptions, read_timeout_s: float) -> s3fs.S3FileSystem:
    file_system = s3fs.S3FileSystem(
        key=options.access_key,
        secret=options.secret_key,
        token=options.session_token,
        endpoint_url=options.endpoint,
        client_kwargs={"region_name": options.region} if options.region else {},
        config_kwargs={
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "read_timeout": read_timeout_s,
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": CONCURRENCY,
            "http_session_cls": functools.partial(
                _DirectSession, authority=options.authority, refuses_near=options.refuses_near
            ),
            "s3": {"addressing_style": "path" if options.path_style else "auto"},
            # Older S3-compatible servers refuse the trailing checksums that newer SDKs send by default.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
        use_listings_cache=False,
        skip_instance_cache=True,
        session=_session(),
    )
    file_system.retries = 1  # this module retries, because it knows whether an attempt may have taken effect
    return file_system
