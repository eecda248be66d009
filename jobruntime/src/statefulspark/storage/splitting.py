"""Cuts the listing of a large folder into parts that are listed side by side. Pure.

A page names where the next one begins, so pages of one listing follow one another: a thousand of them wait a thousand times
for the server. `StartAfter` lets a listing begin at any key, so several listings, each from one split point to the next,
show together what one shows. Where the split points are decides only how even the parts are. They come from the listing
before, else from the names of folders.

This holds where keys are sorted by their bytes. S3 promises that, except for directory buckets; a server over a file system
may list `a/b` before `a-b`. So a folder of another server is split only after a listing of it was seen to be sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

MOST_PARTS = 16
"""Parts that are listed side by side."""
_PART = 4000
"""The fewest objects of a part, since each part may end with a request for a few objects."""
_MOST_FOLDERS = 256
"""So many folders are remembered."""
_DIRECTORY_BUCKET = "--x-s3"
"""The end of the names of buckets that are not sorted and do not know `StartAfter`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a folder.

    Attributes:
        after: The part begins behind this key; "" for the beginning of the folder.
        until: The last key that may belong to it; None for the end of the folder.
    """

    after: str = ""
    until: str | None = None


def parts(points: Iterable[str], *, after: str = "") -> tuple[Part, ...]:
    """Return the parts that some split points make of what is behind a key.

    Args:
        points: Keys, in any order; there need not be such objects.
        after: The key.
    """
    later = sorted({point for point in points if point > after})
    chosen = (
        [later[at * len(later) // MOST_PARTS] for at in range(1, MOST_PARTS)] if len(later) >= MOST_PARTS else later
    )
    return tuple(Part(begin, end) for begin, end in zip((after, *chosen), (*chosen, None), strict=True))


class SplitPoints:
    """The split points of the large folders that were listed last, by bucket. It may be used from several threads."""

    def __init__(self, *, is_sorted: bool) -> None:
        """Remember none.

        Args:
            is_sorted: Whether the server promises sorted listings.
        """
        self._is_sorted = is_sorted
        self._by_folder: dict[tuple[str, str], tuple[str, ...]] = {}
        self._unsorted: set[str] = set()

    def learn(self, bucket: str, folder: str, number_of_keys: int, key_at: Callable[[int], str]) -> None:
        """Remember where a folder can be split.

        Args:
            bucket: Its bucket.
            folder: The folder with a slash at its end, from the beginning of the bucket.
            number_of_keys: How many keys are in it.
            key_at: Returns one of them by its place in the order of the server, which is sorted.
        """
        self._by_folder.pop((bucket, folder), None)
        number = min(number_of_keys // _PART, MOST_PARTS)
        if number > 1:
            while len(self._by_folder) >= _MOST_FOLDERS:
                self._by_folder.pop(next(iter(self._by_folder)), None)
            self._by_folder[bucket, folder] = tuple(key_at(at * number_of_keys // number) for at in range(1, number))

    def give_up(self, bucket: str) -> None:
        """Split no folder of a bucket any more: its listings are not sorted, or do not begin where they should."""
        self._unsorted.add(bucket)

    def can_split(self, bucket: str) -> bool:
        """Tell whether a folder of a bucket may be split if it was listed."""
        return bucket not in self._unsorted and not bucket.endswith(_DIRECTORY_BUCKET)

    def can_split_unseen(self, bucket: str) -> bool:
        """Tell whether a folder of a bucket may be split if it was never listed."""
        return self._is_sorted and self.can_split(bucket)

    def of(self, bucket: str, folder: str) -> tuple[str, ...]:
        """Return the split points within a folder, from listings of it, and of folders around it and below it."""
        if not self.can_split(bucket):
            return ()
        return tuple(
            point
            for (where, _), points in tuple(self._by_folder.items())
            if where == bucket
            for point in points
            if point.startswith(folder)
        )
