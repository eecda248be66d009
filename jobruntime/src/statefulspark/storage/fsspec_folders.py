"""Lists folders of a bucket: page by page, and a large folder in parts side by side (`splitting`).

A page is dropped as soon as its objects are described: what S3 says of an object takes five times the memory of what is
kept of it.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from statefulspark.storage import allowance, fsspec_answers, fsspec_connection, fsspec_errors, splitting
from statefulspark.storage.fsspec_answers import S3Answer
from statefulspark.storage.port import PAGE, ObjectInfo

_OF_A_LISTED_OBJECT = ("Key", "Size", "ETag", "LastModified")
_MOST_EMPTY_PAGES = PAGE
"""A server that answers with no objects and says that there are more would be asked without end."""
_PAGES_ALONE = 8
"""A folder with fewer is not split, which would cost requests and save little."""
_ENOUGH_NAMES = splitting.MOST_PARTS


class _UnsortedError(Exception):
    """The parts of a listing do not make the whole: keys are not sorted, or the server does not know `StartAfter`."""


@dataclass(slots=True)
class Listing:
    """Where a listing is.

    Attributes:
        folder: The prefix of its keys: a folder with a slash at its end, or "".
        delimiter: "/" for the names directly in the folder.
        size: The most entries of a page.
        last: The last key of the page before; before the first page, the key behind which it begins.
        token: What the next page is asked for by; None for the first one.
        is_over: Whether there is no page any more that is of interest.
        is_sorted: Whether the keys so far were sorted.
        empty_pages: How many pages in a row had no entry.
    """

    folder: str
    delimiter: str = ""
    size: int = PAGE
    last: str = ""
    token: str | None = None
    is_over: bool = False
    is_sorted: bool = True
    empty_pages: int = 0

    @property
    def begin(self) -> Mapping[str, str]:
        """The parameters that say where the next page begins."""
        if self.token is not None:
            return {"ContinuationToken": self.token}
        return {"StartAfter": self.last} if self.last else {}

    def note(self, keys: Sequence[str], until: str | None) -> None:
        """Note the keys of a page, of which those up to `until` are of interest."""
        if keys:
            self.is_sorted = self.is_sorted and all(map(operator.lt, (self.last, *keys), keys))
            self.last = keys[-1]
            self.is_over = self.is_over or (until is not None and self.last >= until)


class Retry(Protocol):
    """Sends a request again while its failure is transient."""

    async def __call__(
        self, attempt: Callable[[], Awaitable[S3Answer]], target: fsspec_errors.RequestTarget
    ) -> S3Answer:
        """Return the answer of an attempt."""
        ...


class Folders:
    """Lists folders of one bucket."""

    def __init__(
        self,
        request: Callable[..., Awaitable[S3Answer]],
        retried: Retry,
        *,
        target: Callable[[str], fsspec_errors.RequestTarget],
        describe: Callable[[S3Answer, str], ObjectInfo],
        root: str,
        split_points: splitting.SplitPoints,
    ) -> None:
        """List by requests of a store.

        Args:
            request: Asks for a page once.
            retried: Repeats a request.
            target: Names a folder in messages.
            describe: Returns what the store says of an object on a page, by the object's key.
            root: The folder of the store, with which keys begin and objects of the store do not.
            split_points: Where folders of the server are split.
        """
        self._request = request
        self._retried = retried
        self._target = target
        self._describe = describe
        self._root = root
        self._split_points = split_points

    async def next_page(self, listing: Listing) -> S3Answer:
        """Ask for the next page of a listing, and note where it is then."""
        target = self._target(listing.folder)
        request = functools.partial(
            self._request, Prefix=listing.folder, Delimiter=listing.delimiter, MaxKeys=listing.size, **listing.begin
        )
        page = await self._retried(request, target)
        for entry in page.get("Contents", []):
            fsspec_answers.require(entry, _OF_A_LISTED_OBJECT, target)
        for entry in page.get("CommonPrefixes", []):
            fsspec_answers.require(entry, ("Prefix",), target)
        listing.is_over = not page.get("IsTruncated")
        if not listing.is_over:
            fsspec_answers.require(page, ("NextContinuationToken",), target)
            listing.token = page["NextContinuationToken"]
        is_empty = not (page.get("Contents") or page.get("CommonPrefixes"))
        listing.empty_pages = listing.empty_pages + 1 if is_empty else 0
        if listing.empty_pages == _MOST_EMPTY_PAGES and not listing.is_over:
            raise fsspec_errors.incomplete(target, "Contents")
        return page

    async def list_all(self, folder: str) -> list[ObjectInfo]:
        """List a folder, with markers of folders; in the order of the server."""
        split_points, bucket = self._split_points, self._target(folder).bucket
        points = split_points.of(bucket, folder)
        first = Listing(folder)
        infos: list[ObjectInfo] = []
        if not points:
            infos = await self._walk(first, most_pages=_PAGES_ALONE)
            is_split = first.is_sorted and split_points.can_split_unseen(bucket)
            if not first.is_over and not is_split:
                infos += await self._walk(first, len(infos))
        if not first.is_over:
            parts = splitting.parts(points or await self._folder_names(folder), after=first.last)
            try:
                infos += await self._list_parts(folder, parts, len(infos))
            except _UnsortedError:
                split_points.give_up(bucket)
                return await self.list_all(folder)
        if first.is_sorted and split_points.can_split(bucket):
            split_points.learn(bucket, folder, len(infos), lambda at: f"{self._root}{infos[at].key}")
        return infos

    async def _list_parts(self, folder: str, parts: Sequence[splitting.Part], number: int) -> list[ObjectInfo]:
        """List parts of a folder of which `number` objects are held already."""
        numbers = [number] + [0] * len(parts)

        async def walk(at: int, part: splitting.Part) -> list[ObjectInfo]:
            listing = Listing(folder, last=part.after)
            infos: list[ObjectInfo] = []
            while not listing.is_over:
                infos += await self._walk(listing, sum(numbers), until=part.until, most_pages=1)
                numbers[at] = len(infos)
                if not listing.is_sorted:
                    raise _UnsortedError
            return infos

        walks = [functools.partial(walk, at, part) for at, part in enumerate(parts, start=1)]
        return list(itertools.chain.from_iterable(await fsspec_connection.gather(walks)))

    async def _walk(
        self, listing: Listing, number: int = 0, *, until: str | None = None, most_pages: int | None = None
    ) -> list[ObjectInfo]:
        """Return the objects on the next pages of a listing; a page is dropped before the next is asked for.

        Args:
            listing: Notes whether the keys are sorted.
            number: How many objects of the folder are held already.
            until: The last key that is returned.
            most_pages: The most pages; None for all.
        """
        infos: list[ObjectInfo] = []
        for _ in itertools.count() if most_pages is None else range(most_pages):
            entries = (await self.next_page(listing)).get("Contents", [])
            listing.note([entry["Key"] for entry in entries], until)
            described = (entry for entry in entries if until is None or entry["Key"] <= until)
            infos += [self._describe(entry, entry["Key"]) for entry in described]
            allowance.require_few_objects(number + len(infos), self._target(listing.folder).uri)
            if listing.is_over:
                break
        return infos

    async def _folder_names(self, folder: str) -> tuple[str, ...]:
        """Return the names of folders inside a folder, level by level, until there are enough to split it evenly."""
        names: list[str] = []
        level = [folder]
        while level and len(names) < _ENOUGH_NAMES:
            listings = [Listing(name, "/") for name in level]
            pages = await fsspec_connection.gather([functools.partial(self.next_page, listing) for listing in listings])
            level = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
            names += level
        return tuple(names)
