"""Where the data source that Spark runs in a process of its own finds its feed: a loopback socket with a token.

One line of JSON asks, one line answers. Spark starts that process itself, on the driver's machine, and hands it nothing
but options; so the options carry the port and the token, and everything else is asked for.
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
from dataclasses import asdict
from typing import cast

from statefulspark import errors, usercode
from statefulspark.checkpoint.segments import SegmentName
from statefulspark.sources.feed import SegmentPlace, SourceFeed
from statefulspark.storage.options import StorageOptions

WAIT_FOR_ROWS_S = 0.05
"""How long a question for the latest offset waits for rows before it answers that there are none."""
_ANSWER_WITHIN_S = 120.0
_LONGEST_LINE = 1 << 20
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
"""Errors that mean the same on the other side of the socket; others come out as their root."""

Message = Mapping[str, object]
_log = logging.getLogger(__name__)


class Rendezvous:
    """Answers for all stateful sources of a driver."""

    def __init__(self) -> None:
        """Listen on a free loopback port."""
        self.token = secrets.token_urlsafe(24)
        self._feeds: dict[str, tuple[SourceFeed, StorageOptions]] = {}
        self.refused: Callable[[str, errors.StatefulSparkError], None] = lambda _feed, _error: None
        """Hears, in another thread, of every question that a feed could not answer."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.answer = self._answer
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="sources", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def feeds(self) -> tuple[SourceFeed, ...]:
        """Every feed that was offered."""
        return tuple(feed for feed, _ in self._feeds.values())

    def offer(self, feed_id: str, feed: SourceFeed, options: StorageOptions) -> None:
        """Answer for a feed from now on.

        Args:
            feed_id: As the data source's options name it.
            feed: The feed.
            options: How workers reach the store with the segments.
        """
        self._feeds[feed_id] = (feed, options)

    def close(self) -> None:
        """End all sources and stop listening."""
        for feed in self.feeds:
            feed.close()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, line: bytes) -> Message:
        try:
            question = cast("Message", json.loads(line))
            if not hmac.compare_digest(str(question.get("token")), self.token):
                raise errors.SpecRejectedError("TokenWrong", "The token of the question is wrong.")
            return self._answer_known(question)
        except errors.StatefulSparkError as error:
            return {"kind": type(error).__name__, "reason": error.reason, "message": error.message}
        except Exception as error:  # noqa: BLE001 - the asker gets it, and fails the query with it
            _log.exception("a question of a source could not be answered")
            message = f"A question of a source failed with {usercode.in_one_line(error)}."
            return {"kind": errors.InternalError.__name__, "reason": "Unexpected", "message": message}

    def _answer_known(self, question: Message) -> Message:
        if str(question["feed"]) not in self._feeds:
            raise errors.InternalError("SourceUnknown", f"There is no source {question['feed']} in this driver.")
        feed, options = self._feeds[str(question["feed"])]
        try:
            return self._answer_of(feed, options, question)
        except errors.StatefulSparkError as error:
            self.refused(str(question["feed"]), error)
            raise

    def _answer_of(self, feed: SourceFeed, options: StorageOptions, question: Message) -> Message:
        if question["ask"] == "initial":
            return {"offset": feed.initial().offset}
        start = _segment(question["start"])
        if question["ask"] == "latest":
            return {"offset": feed.latest(start, wait_s=WAIT_FOR_ROWS_S).offset}
        place = feed.place(start, _segment(question["end"]))
        return {"place": None} if place is None else {"place": asdict(place), "options": asdict(options)}


class FeedClient:
    """The data source's side: asks one feed."""

    def __init__(self, *, port: int, token: str, feed: str) -> None:
        """Ask on a port; nothing is connected yet."""
        self._port = port
        self._token = token
        self._feed = feed

    def initial(self) -> dict[str, str | int]:
        """Return the offset at which a query without any begins."""
        return cast("dict[str, str | int]", self._ask(ask="initial")["offset"])

    def latest(self, start: Mapping[str, object]) -> dict[str, str | int]:
        """Return the newest offset."""
        return cast("dict[str, str | int]", self._ask(ask="latest", start=dict(start))["offset"])

    def place(
        self, start: Mapping[str, object], end: Mapping[str, object]
    ) -> tuple[SegmentPlace, StorageOptions] | None:
        """Return where the rows between two offsets are, and how to get there; None if there are none."""
        answer = self._ask(ask="place", start=dict(start), end=dict(end))
        if answer["place"] is None:
            return None
        found = cast("dict[str, object]", answer["place"])
        subtasks = tuple(cast("list[int]", found["subtasks"]))
        place = SegmentPlace(str(found["uri"]), str(found["key"]), str(found["uid"]), subtasks)
        return place, StorageOptions(**answer["options"])  # type: ignore[arg-type]  # written by asdict of the same class

    def _ask(self, **question: object) -> Message:
        line = json.dumps({"token": self._token, "feed": self._feed, **question}).encode() + b"\n"
        with socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_WITHIN_S) as connection:
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                answer = cast("Message", json.loads(answers.readline()))
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
        line = self.rfile.readline(_LONGEST_LINE)
        if line:
            answer = cast("_Server", self.server).answer(line)
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _segment(offset: object) -> SegmentName:
    found = cast("Mapping[str, str | int]", offset)
    return SegmentName(str(found["uid"]), int(found["segment"]), int(found["epoch"]))
