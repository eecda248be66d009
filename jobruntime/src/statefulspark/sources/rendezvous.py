"""The loopback socket, protected by a token, that connects Spark's data source process to its feed.

Request and response are one line of JSON each. Spark starts that process on the driver's machine and passes it only
options, so the options contain the port and the token; everything else is requested.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import cast

from statefulspark import errors, usercode
from statefulspark.contract.layout import SegmentName
from statefulspark.sources.feed import SegmentLocation, SourceFeed
from statefulspark.storage.authorities import Authority
from statefulspark.storage.options import StorageOptions

WAIT_FOR_ROWS_S = 0.05
"""Maximum time that a request for the latest offset waits for rows."""
_ANSWER_TIMEOUT_S = 120.0
_MAX_LINE_BYTES = 1 << 20
_POLL_S = 0.05

_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.FormatVersionError,
        errors.InternalError,
        errors.SnapshotCorruptError,
        errors.SpecRejectedError,
        errors.StateUnknownError,
    )
}
"""Errors that keep their class over the socket; others become a StatefulSparkError."""

Message = Mapping[str, object]
_log = logging.getLogger(__name__)


class Rendezvous:
    """Answers requests for all stateful sources of a driver."""

    def __init__(self) -> None:
        """Listen on a free loopback port."""
        self.token = secrets.token_urlsafe(24)
        self._feeds: dict[str, tuple[SourceFeed, StorageOptions]] = {}
        self.refused: Callable[[str, errors.StatefulSparkError], None] = lambda _feed, _error: None
        """Called, in another thread, for every request that failed in a feed."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.answer = self._answer
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="sources", daemon=True).start()

    @property
    def port(self) -> int:
        """The port."""
        return int(self._server.server_address[1])

    @property
    def feeds(self) -> tuple[SourceFeed, ...]:
        """The registered feeds."""
        return tuple(feed for feed, _ in self._feeds.values())

    def offer(self, feed_id: str, feed: SourceFeed, options: StorageOptions) -> None:
        """Register a feed.

        Args:
            feed_id: Its id in the options of the data source.
            feed: The feed.
            options: Storage options for workers.
        """
        self._feeds[feed_id] = (feed, options)

    def close(self) -> None:
        """Close all sources and stop listening."""
        for feed in self.feeds:
            feed.close()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, line: bytes) -> Message:
        try:
            request = cast("Message", json.loads(line))
            if not hmac.compare_digest(str(request.get("token")), self.token):
                raise errors.SpecRejectedError("TokenWrong", "The token of the request is wrong.")
            return self._answer_request(request)
        except errors.StatefulSparkError as error:
            return {"kind": type(error).__name__, "reason": error.reason, "message": error.message}
        except Exception as error:  # noqa: BLE001 - the client gets it, and fails the query with it
            _log.exception("a request of a source failed")
            message = f"A request of a source failed with {usercode.format_error(error)}."
            return {"kind": errors.InternalError.__name__, "reason": "Unexpected", "message": message}

    def _answer_request(self, request: Message) -> Message:
        if str(request["feed"]) not in self._feeds:
            raise errors.InternalError("SourceUnknown", f"There is no source {request['feed']} in this driver.")
        feed, options = self._feeds[str(request["feed"])]
        try:
            if request["ask"] == "initial":
                return {"offset": feed.initial().offset}
            start = _segment(request["start"])
            if request["ask"] == "latest":
                return {"offset": feed.latest(start, wait_s=WAIT_FOR_ROWS_S).offset}
            location = feed.locate(start, _segment(request["end"]))
            if location is None:
                return {"location": None}
            return {"location": asdict(location), "options": asdict(options)}
        except errors.StatefulSparkError as error:
            self.refused(str(request["feed"]), error)
            raise


class FeedClient:
    """The client of one feed, for the data source."""

    def __init__(self, *, port: int, token: str, feed: str) -> None:
        """Store the address; nothing is connected yet."""
        self._port = port
        self._token = token
        self._feed = feed

    def initial(self) -> dict[str, str | int]:
        """Return the start offset of a query without offsets."""
        return cast("dict[str, str | int]", self._ask(ask="initial")["offset"])

    def latest(self, start: Mapping[str, object]) -> dict[str, str | int]:
        """Return the newest offset."""
        return cast("dict[str, str | int]", self._ask(ask="latest", start=dict(start))["offset"])

    def locate(
        self, start: Mapping[str, object], end: Mapping[str, object]
    ) -> tuple[SegmentLocation, StorageOptions] | None:
        """Return the location of the rows between two offsets and the storage options; None if there are no rows."""
        answer = self._ask(ask="locate", start=dict(start), end=dict(end))
        if answer["location"] is None:
            return None
        fields = cast("dict[str, object]", answer["location"])
        subtasks = tuple(cast("list[int]", fields["subtasks"]))
        location = SegmentLocation(str(fields["uri"]), str(fields["key"]), str(fields["uid"]), subtasks)
        given = cast("dict[str, object]", answer["options"])
        authority = cast("dict[str, str] | None", given.pop("authority"))
        options = StorageOptions(**given)  # type: ignore[arg-type]  # written by asdict of the same class
        return location, replace(options, authority=Authority(**authority)) if authority is not None else options

    def _ask(self, **request: object) -> Message:
        line = json.dumps({"token": self._token, "feed": self._feed, **request}).encode() + b"\n"
        with socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_TIMEOUT_S) as connection:
            connection.sendall(line)
            with connection.makefile("rb") as reader:
                answer = cast("Message", json.loads(reader.readline()))
        if "reason" in answer:
            kind = _KINDS.get(str(answer.get("kind")), errors.StatefulSparkError)
            raise kind(str(answer["reason"]), str(answer["message"]))
        return answer


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Callable[[bytes], Message]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline(_MAX_LINE_BYTES)
        if line:
            answer = cast("_Server", self.server).answer(line)
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _segment(offset: object) -> SegmentName:
    fields = cast("Mapping[str, str | int]", offset)
    return SegmentName(str(fields["uid"]), int(fields["segment"]), int(fields["epoch"]))
