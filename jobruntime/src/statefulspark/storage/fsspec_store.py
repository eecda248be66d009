"""S3 behind the object store port, through s3fs.

It uses the connection of s3fs, its event loop in a separate thread, and its multipart copy. It sends single requests with
`_call_s3`, because the file system calls of s3fs answer from cached listings, treat the 404 of a bucket as an absent file,
and do not report on a retry whether the request or only its answer was lost.

Retries are limited by time, so that a dead server is reported within about 15 seconds.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import functools
import hashlib
import itertools
import math
import random
import time
import uuid
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import fsspec.asyn

from statefulspark import errors
from statefulspark.storage import (
    allowance,
    fsspec_answers,
    fsspec_connection,
    fsspec_errors,
    fsspec_folders,
    port,
    requests,
)
from statefulspark.storage.fsspec_answers import S3Answer
from statefulspark.storage.options import StorageOptions
from statefulspark.storage.port import (
    MOST_BYTES,
    PAGE,
    DeletedObjects,
    ObjectInfo,
    ObjectStore,
    stores_apart,
)

_T = TypeVar("_T")
_LARGE_BODY_BYTES = 8 * 2**20
_ATTEMPTS = 4
_LAST_ATTEMPT_STARTS_S = 8.0
_LONGEST_PAUSE_S = 1.6  # a busy store is asked until time is out, since one request without a turn fails a savepoint
_PART_BYTES = 2**20
_DELETE_BATCH = 500  # DeleteObjects accepts 1000 keys; fewer, so that the answer arrives before the read timeout
_MULTIPART_BLOCK_BYTES = 512 * 2**20
_BUCKET_CHECK_INTERVAL_S = 30.0  # a bucket that has answered within this time is not checked again
_WRITER = "statefulspark-writer"
_CLAIM = "statefulspark-claim"
_CRC32 = "statefulspark-crc32"  # in the metadata, which every server has and copies; not all know x-amz-checksum-*
_TOO_LARGE_TO_COPY = frozenset(["InvalidRequest", "EntityTooLarge"])  # CopyObject: "up to 5 GB in a single operation"


_OF_AN_OBJECT = ("ContentLength", "ETag", "LastModified")


def open_s3(bucket: str, prefix: str, options: StorageOptions) -> FsspecStore:
    """Open the store at `s3://bucket/prefix`; no request is sent yet."""
    return FsspecStore(fsspec_connection.connect(options), bucket, prefix)


class FsspecStore:
    """Objects below one prefix of one bucket."""

    def __init__(self, connection: fsspec_connection.Connection, bucket: str, prefix: str) -> None:
        self._connection = connection
        self._bucket = bucket
        self._prefix = prefix
        self._folders = fsspec_folders.Folders(
            functools.partial(self._request, "list_objects_v2"),
            self._retried,
            target=functools.partial(self._target, "list"),
            describe=self._describe,
            root=f"{prefix}/" if prefix else "",
            split_points=connection.split_points,
        )

    @property
    def uri(self) -> str:
        """The root, for example `s3://bucket/prefix`, without a trailing slash."""
        return f"s3://{port.join_key(self._bucket, self._prefix)}"

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        return self._run(self._read, self._full(key), most_bytes)

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        unique_keys = list(dict.fromkeys(keys))
        reads = [functools.partial(self._read, self._full(key), most_bytes) for key in unique_keys]
        bodies = self._run(fsspec_connection.gather, reads)
        return dict(zip(unique_keys, bodies, strict=True))

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port."""
        try:
            return self._run(self._read, self._full(key), length, f"bytes={offset}-{offset + length - 1}")
        except errors.StateUnknownError as error:
            if error.__cause__ is None or not fsspec_errors.is_beyond_end(error.__cause__):
                raise
            return b""

    def write(self, key: str, body: bytes) -> None:
        """See the port."""
        full_key, is_large = self._full(key), len(body) > _LARGE_BODY_BYTES
        put = functools.partial(self._put_object, full_key, body, patient=is_large, Metadata=_metadata(body))
        self._run(self._retried, put, self._target("write", full_key))

    def create(self, key: str, body: bytes) -> None:
        """See the port: PUT If-None-Match."""
        full_key = self._full(key)
        put = functools.partial(self._put_object, full_key, body, IfNoneMatch="*")
        self._run(self._signed, put, body, self._target("create", full_key))

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """See the port: PUT If-Match."""
        full_key = self._full(key)
        put = functools.partial(self._put_object, full_key, body, IfMatch=f'"{etag}"')
        target = self._target("replace", full_key)
        try:
            self._run(self._signed, put, body, target)
        except (errors.ObjectExistsError, errors.ObjectNotFoundError) as error:
            raise errors.ObjectChangedError(target.uri) from error

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        return self._run(self._info, self._full(key))

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        unique_keys = list(dict.fromkeys(keys))
        looks = [functools.partial(self._info, self._full(key)) for key in unique_keys]
        infos = self._run(fsspec_connection.gather, looks)
        return dict(zip(unique_keys, infos, strict=True))

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        infos = self._run(self._folders.list_all, self._folder(prefix))
        return tuple(sorted((info for info in infos if not _is_marker(info)), key=lambda info: info.key))

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port."""
        for infos in self._listed(prefix, size):
            files = tuple(info for info in infos if not _is_marker(info))
            if files:
                yield files

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        start = len(self._folder(prefix))
        pages = (
            (
                *(entry["Key"] for entry in page.get("Contents", [])),
                *(entry["Prefix"] for entry in page.get("CommonPrefixes", [])),
            )
            for page in self._answered(prefix, "/", PAGE)
        )
        names: list[str] = []
        for page in pages:
            names += page
            allowance.require_few_objects(len(names), self._target("list", self._folder(prefix)).uri)
        return tuple(sorted(name[start:] for name in names if len(name) > start))

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """See the port."""
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        """See the port; stores with the same server and credentials share one connection."""
        return isinstance(source, FsspecStore) and source._connection is self._connection

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """See the port: CopyObject, and UploadPartCopy for objects that are too large for it."""
        if not isinstance(source, FsspecStore) or not self.can_copy_from(source):
            raise stores_apart(source, self)
        done = itertools.count(1)

        async def copy(from_key: str, to_key: str) -> None:
            await self._copy(source._bucket, from_key, to_key)
            if on_progress:
                on_progress(next(done))

        copies = [functools.partial(copy, source._full(old), self._full(new)) for old, new in pairs]
        self._run(fsspec_connection.gather, copies)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        full_keys = [self._full(key) for key in dict.fromkeys(keys)]
        batches = [full_keys[at : at + _DELETE_BATCH] for at in range(0, len(full_keys), _DELETE_BATCH)]
        self._run(fsspec_connection.gather, [functools.partial(self._delete, batch) for batch in batches])

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """See the port."""
        deleted, has_markers = DeletedObjects(), False
        for infos in self._listed(prefix, PAGE):
            files = tuple(info for info in infos if not _is_marker(info))
            self.delete_many([info.key for info in files])
            deleted += DeletedObjects.count(files)
            has_markers = has_markers or len(files) < len(infos)
        # A server that keeps real folders deletes only an empty one: files first, then inner folders, and of folders on
        # different pages the outer ones at another look.
        before, markers = math.inf, self._delete_markers(prefix) if has_markers else 0
        while 0 < markers < before:
            before, markers = markers, self._delete_markers(prefix)
        return deleted

    def _delete_markers(self, prefix: str) -> int:
        """Delete the markers of folders, and return how many there were."""
        number = 0
        for infos in self._listed(prefix, PAGE):
            markers = [f"{self._folder('')}{info.key}" for info in reversed(infos) if _is_marker(info)]
            for at in range(0, len(markers), _DELETE_BATCH):
                self._run(self._delete, markers[at : at + _DELETE_BATCH])
            number += len(markers)
        return number

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """See the port."""
        return self._run(self._delete_unchanged, self._full(key), etag)

    def child(self, prefix: str) -> FsspecStore:
        """See the port."""
        folder = port.require_folder(prefix)
        return FsspecStore(self._connection, self._bucket, port.join_key(self._prefix, folder))

    async def _read(self, full_key: str, most_bytes: int, part: str | None = None) -> bytes:
        most_bytes = allowance.body_limit(most_bytes)

        async def attempt() -> bytes:
            if part is None:
                answer = await self._request("get_object", Key=full_key)
            else:
                answer = await self._request("get_object", Key=full_key, Range=part)
            stream = answer["Body"]
            try:
                if answer.get("ContentLength", 0) > most_bytes:
                    raise allowance.too_large(target.uri, most_bytes)
                # A server need not tell the size of a body, and need not keep to what it told.
                pieces, size_bytes = [], 0
                while piece := await stream.read(_PART_BYTES):
                    size_bytes += len(piece)
                    if size_bytes > most_bytes:
                        raise allowance.too_large(target.uri, most_bytes)
                    pieces.append(piece)
                return b"".join(pieces)
            finally:
                stream.close()

        target = self._target("read", full_key)
        body = await self._retried(attempt, target)
        allowance.require_few_values(body, target.uri)
        return body

    async def _signed(
        self, put: Callable[..., Awaitable[S3Answer]], body: bytes, target: fsspec_errors.RequestTarget
    ) -> None:
        """PUT with a condition; if an attempt's answer was lost, check who wrote the object."""
        writer = uuid.uuid4().hex
        metadata = {_WRITER: writer, **_metadata(body)}
        try:
            await self._retried(lambda: put(Metadata=metadata), target)
        except (errors.ObjectExistsError, errors.TransientError):
            answer = await self._head(target.key)
            if answer is None or answer.get("Metadata", {}).get(_WRITER) != writer:
                raise

    async def _info(self, full_key: str) -> ObjectInfo | None:
        answer = await self._head(full_key)
        return None if answer is None else self._describe(answer, full_key)

    async def _head(self, full_key: str) -> S3Answer | None:
        target = self._target("look up", full_key)
        try:
            return await self._look(full_key)
        except errors.ObjectNotFoundError as absent:
            if self._is_believed(absent):
                return None
        # The answer to a listing has a body: an error in it says what is missing.
        page = await self._retried(lambda: self._request("list_objects_v2", Prefix=full_key, MaxKeys=1), target)
        if [entry["Key"] for entry in page.get("Contents", [])] != [full_key]:
            return None
        try:
            return await self._look(full_key)  # created meanwhile, or the 404 was not the server's
        except errors.ObjectNotFoundError as absent:
            if self._is_believed(absent):
                return None
            raise fsspec_errors.lost_on_the_way(target) from absent

    async def _look(self, full_key: str) -> S3Answer:
        target = dataclasses.replace(self._target("look up", full_key), is_head=True)
        answer = await self._retried(lambda: self._request("head_object", Key=full_key), target)
        fsspec_answers.require(answer, _OF_AN_OBJECT, target)
        return answer

    def _is_believed(self, absent: errors.ObjectNotFoundError) -> bool:
        """Tell whether the 404 of a HEAD, which has no body, is about the object: not the bucket, and not a proxy's."""
        seen_at_s = self._connection.seen_at_s.get(self._bucket, -math.inf)
        is_bucket_there = time.monotonic() - seen_at_s < _BUCKET_CHECK_INTERVAL_S
        return is_bucket_there and absent.__cause__ is not None and fsspec_errors.is_from_s3(absent.__cause__)

    def _listed(self, prefix: str, size: int) -> Iterator[tuple[ObjectInfo, ...]]:
        """Return the objects on each page, with the markers of folders."""
        for page in self._answered(prefix, "", size):
            yield tuple(self._describe(entry, entry["Key"]) for entry in page.get("Contents", []))

    def _answered(self, prefix: str, delimiter: str, size: int) -> Iterator[S3Answer]:
        listing = fsspec_folders.Listing(self._folder(prefix), delimiter, size)
        while not listing.is_over:
            yield self._run(self._folders.next_page, listing)

    async def _copy(self, bucket: str, source: str, target_key: str) -> None:
        target = fsspec_errors.RequestTarget(
            "copy", bucket, source, self._connection.endpoint, authority=self._connection.authority
        )
        copy_source = {"Bucket": bucket, "Key": source}

        async def attempt() -> None:
            try:
                await self._request("copy_object", patient=True, Key=target_key, CopySource=copy_source)
            except fsspec_errors.FAILURES as error:
                if fsspec_errors.code_of(error) not in _TOO_LARGE_TO_COPY:
                    raise
                head = await self._connection.quick._call_s3("head_object", Bucket=bucket, Key=source)
                await self._connection.patient._copy_managed(
                    f"{bucket}/{source}",
                    f"{self._bucket}/{target_key}",
                    cast(S3Answer, head)["ContentLength"],
                    block=_MULTIPART_BLOCK_BYTES,
                )

        await self._retried(attempt, target)

    async def _delete(self, full_keys: Sequence[str]) -> None:
        target = self._target("delete", full_keys[0])
        request = {"Objects": [{"Key": key} for key in full_keys], "Quiet": True}

        async def attempt() -> None:
            # S3 answers 200 and refuses single objects, also for a moment (`InternalError`, `SlowDown`).
            answer = await self._request("delete_objects", Delete=request)
            fsspec_errors.require_none_failed(answer.get("Errors", []))

        await self._retried(attempt, target)

    async def _delete_unchanged(self, full_key: str, etag: str) -> bool:
        """DELETE If-Match, after a check, because some servers ignore the condition."""
        info = await self._info(full_key)
        if info is None or info.etag != etag:
            return info is None
        target = self._target("delete", full_key)
        try:
            await self._retried(
                lambda: self._request("delete_object", Key=full_key, IfMatch=f'"{etag}"'),
                target,
            )
        except errors.ObjectNotFoundError:
            return True
        except errors.ObjectExistsError:
            return False
        return True

    async def _put_object(self, full_key: str, body: bytes, *, patient: bool = False, **parameters: object) -> S3Answer:
        """PUT with Content-MD5, which every server knows: a bucket with Object Lock refuses an upload without a checksum."""
        md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        parameters |= {"Key": full_key, "Body": body, "ContentMD5": md5}
        return await self._request("put_object", patient=patient, **parameters)

    async def _request(self, method: str, *, patient: bool = False, **parameters: object) -> S3Answer:
        file_system = self._connection.patient if patient else self._connection.quick
        answer = cast(S3Answer, await file_system._call_s3(method, Bucket=self._bucket, **parameters))
        self._connection.seen_at_s[self._bucket] = time.monotonic()
        return answer

    async def _retried(self, attempt: Callable[[], Awaitable[_T]], target: fsspec_errors.RequestTarget) -> _T:
        """Repeat a request while its failure is transient, and end it, its body too, when the allowance's time is over."""
        limits = allowance.current()
        try:
            async with asyncio.timeout(None if limits is None else limits.time_left_s(target.uri)):
                return await self._repeated(attempt, target)
        except TimeoutError as error:
            raise allowance.slow(target.uri) from error

    async def _repeated(self, attempt: Callable[[], Awaitable[_T]], target: fsspec_errors.RequestTarget) -> _T:
        """Repeat a request while its failure is transient and time is left; translate the last failure."""
        started_s = time.monotonic()
        number = 0
        while True:
            number += 1
            try:
                answer = await attempt()
            except fsspec_errors.FAILURES as error:
                requests.count(_kind(target), _outcome(error, target))
                elapsed_s = time.monotonic() - started_s
                is_enough = number >= _ATTEMPTS and not fsspec_errors.is_throttled(error)
                is_last = is_enough or elapsed_s > _LAST_ATTEMPT_STARTS_S
                if is_last or not fsspec_errors.is_transient(error, target):
                    raise fsspec_errors.translate(error, target) from error
            else:
                requests.count(_kind(target), requests.Outcome.ANSWERED)
                return answer
            pause_s = min(0.1 * 2**number, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries, not for security

    def _run(self, work: Callable[..., Awaitable[_T]], *arguments: object) -> _T:
        return cast(_T, fsspec.asyn.sync(self._connection.quick.loop, work, *arguments))

    def _describe(self, answer: S3Answer, full_key: str) -> ObjectInfo:
        return ObjectInfo(
            key=full_key[len(self._prefix) + 1 :] if self._prefix else full_key,
            size_bytes=answer["ContentLength"] if "ContentLength" in answer else answer["Size"],
            etag=answer["ETag"].strip('"'),
            modified_at=answer["LastModified"],
            crc32=answer.get("Metadata", {}).get(_CRC32),
            claim=answer.get("Metadata", {}).get(_CLAIM),
        )

    def _full(self, key: str) -> str:
        return port.join_key(self._prefix, port.require_key(key))

    def _folder(self, prefix: str) -> str:
        folder = port.join_key(self._prefix, port.require_folder(prefix))
        return f"{folder}/" if folder else ""

    def _target(self, action: str, full_key: str) -> fsspec_errors.RequestTarget:
        return fsspec_errors.RequestTarget(
            action, self._bucket, full_key, self._connection.endpoint, authority=self._connection.authority
        )


def _kind(target: fsspec_errors.RequestTarget) -> str:
    return target.action.title().replace(" ", "")


def _outcome(error: BaseException, target: fsspec_errors.RequestTarget) -> requests.Outcome:
    if fsspec_errors.is_throttled(error):
        return requests.Outcome.BUSY
    is_failed = fsspec_errors.is_transient(error, target) or not fsspec_errors.status_of(error)
    return requests.Outcome.FAILED if is_failed else requests.Outcome.ANSWERED


def _metadata(body: bytes) -> dict[str, str]:
    """Return what an object says of its own body."""
    return {_CRC32: f"{zlib.crc32(body):08x}"}


def _is_marker(info: ObjectInfo) -> bool:
    """Other tools create objects whose names end with "/" as markers of folders; the marker of the root has no name left."""
    return not info.key or info.key.endswith("/")
