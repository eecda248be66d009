"""An S3 server without a network that only lists: its pages, and how many were asked for, one after the other."""

from __future__ import annotations

import asyncio
import bisect
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import s3fs
from statefulspark.storage import fsspec_connection, fsspec_store
from statefulspark.storage.splitting import SplitPoints


class ListingServer:
    """Answers `list_objects_v2` from keys in memory.

    Attributes:
        requests: The parameters of each request.
        most_at_once: The most requests that were under way together.
    """

    def __init__(self, keys: Sequence[str], *, latency_s: float = 0.0, knows_start_after: bool = True) -> None:
        """Answer each request after a while; a server that does not know `StartAfter` begins at the beginning."""
        self.keys = keys
        self.requests: list[dict[str, object]] = []
        self.most_at_once = 0
        self.loop = asyncio.new_event_loop()
        self._latency_s = latency_s
        self._knows_start_after = knows_start_after
        self._under_way = 0
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def store(self, prefix: str = "", *, is_sorted: bool = True) -> fsspec_store.FsspecStore:
        """Return a store below a prefix of the bucket `bucket`."""
        client = cast("s3fs.S3FileSystem", self)
        connection = fsspec_connection.Connection(client, client, "fake", split_points=SplitPoints(is_sorted=is_sorted))
        return fsspec_store.FsspecStore(connection, "bucket", prefix)

    @property
    def keys(self) -> list[str]:
        """The keys, in the order in which the server lists them."""
        return self._keys

    @keys.setter
    def keys(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._is_sorted = self._keys == sorted(self._keys)

    async def _call_s3(self, method: str, **parameters: object) -> dict[str, object]:
        assert method == "list_objects_v2"
        self.requests.append(parameters)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await asyncio.sleep(self._latency_s)
        self._under_way -= 1
        prefix = str(parameters["Prefix"])
        return self._names(prefix) if parameters["Delimiter"] else self._page(prefix, parameters)

    def _page(self, prefix: str, parameters: Mapping[str, object]) -> dict[str, object]:
        begin = int(str(parameters.get("ContinuationToken", 0)))
        if self._is_sorted and not begin:
            begin = bisect.bisect_left(self.keys, prefix)
        if "StartAfter" in parameters and self._knows_start_after and self._is_sorted:
            begin = bisect.bisect_right(self.keys, str(parameters["StartAfter"]))
        entries: list[dict[str, object]] = []
        for at in range(begin, len(self.keys)):
            if self.keys[at].startswith(prefix):
                if len(entries) == parameters["MaxKeys"]:
                    return {"Contents": entries, "IsTruncated": True, "NextContinuationToken": str(at)}
                written_at = datetime.fromtimestamp(at, UTC)
                key = prefix + self.keys[at].removeprefix(prefix)
                entries.append({"Key": key, "Size": at, "ETag": f'"{at:032x}"', "LastModified": written_at})
            elif self._is_sorted and entries:
                break
        return {"Contents": entries, "IsTruncated": False}

    def _names(self, prefix: str) -> dict[str, object]:
        below = (key.removeprefix(prefix) for key in self.keys if key.startswith(prefix))
        folders = sorted({name.partition("/")[0] for name in below if "/" in name})
        return {"CommonPrefixes": [{"Prefix": f"{prefix}{name}/"} for name in folders], "IsTruncated": False}
