"""A proxy before the object store that passes every request on, but for what it is told to break.

It knows HTTP, so a fault happens to a request: to the PUT of a manifest, before the store has it or after. `Fault` is
one kind of harm and `break_requests` arms it; `pause_at` holds one request, before or after it happened, while
something else is done. What passed is noted in `passed`, from which a run tells when a batch was committed.
"""

from __future__ import annotations

import contextlib
import enum
import http.client
import http.server
import random
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

_ANSWERS_WITHIN_S = 120.0
_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_TOO_MANY = b"<?xml version='1.0'?><Error><Code>TooManyRequests</Code><Message>Too many requests.</Message></Error>"
_NO_BACKEND = b"default backend - 404"
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"})


class Harm(enum.Enum):
    """What is done to a request."""

    REFUSE = "refuse"
    """The connection breaks before the store has seen anything, as if it were gone."""
    SLOW = "slow"
    """It is passed on after a while."""
    BUSY = "busy"
    """It is answered with 503 SlowDown."""
    THROTTLE = "throttle"
    """It is answered with 429 TooManyRequests, as some stores and gateways do."""
    CUT = "cut"
    """Half of its body arrives: of the request's if it has one, of the answer's otherwise."""
    LOSE_ANSWER = "lose-answer"
    """It happens, and nobody is told: the connection breaks instead of the answer."""
    SPOIL_SIGNATURE = "spoil-signature"
    """Its signature is that of a wrong secret key."""
    SILENT = "silent"
    """It is swallowed, and its connection stays open and says nothing more, as before a node that was lost."""
    NOT_FOUND = "not-found"
    """It is answered with the 404 of an ingress that has lost the store behind it."""


class Side(enum.Enum):
    """When a request is held: before the store has it, or when it has happened and was not answered."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to which requests.

    Attributes:
        harm: What is done.
        method: Requests of this method; empty for all.
        path: Requests whose path this pattern is found in.
        share: How many of them, from 0 to 1.
        times: At most so many; None for as long as it is armed.
        delay_s: For `Harm.SLOW`.
    """

    harm: Harm
    method: str = ""
    path: str = ""
    share: float = 1.0
    times: int | None = None
    delay_s: float = 0.0

    def concerns(self, method: str, path: str) -> bool:
        """Tell whether a request is one of those."""
        return self.method in ("", method) and re.search(self.path, path) is not None


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that the store answered.

    Attributes:
        at_s: When its answer came, by the monotonic clock.
        method: Its method.
        path: Its path and query.
        status: How the store answered.
        harm: What was done to it; None for nothing.
    """

    at_s: float
    method: str
    path: str
    status: int
    harm: Harm | None

    @property
    def is_done(self) -> bool:
        """Tell whether it happened."""
        return self.status < 300


@dataclass(slots=True)
class Hold:
    """A request that is held, or will be.

    Attributes:
        method: The next request of this method.
        path: Whose path this pattern is found in.
        side: Whether it is held before or after it happened.
    """

    method: str
    path: str
    side: Side
    _came: threading.Event = field(default_factory=threading.Event)
    _let_go: threading.Event = field(default_factory=threading.Event)
    is_taken: bool = False
    is_dropped: bool = False

    @property
    def has_come(self) -> bool:
        """Tell whether the request is there, and held."""
        return self._came.is_set()

    def until_come(self, within_s: float) -> None:
        """Wait until the request is there.

        Raises:
            TimeoutError: It did not come in time.
        """
        if not self._came.wait(within_s):
            raise TimeoutError(f"no {self.method} of {self.path} came within {within_s:.0f} s")

    def let_go(self) -> None:
        """Let the request go on; nothing happens if it has gone already."""
        self._let_go.set()

    def drop(self) -> None:
        """Break its connection: the store never sees it, or it is never answered."""
        self.is_dropped = True
        self._let_go.set()

    def wait(self) -> bool:
        """Say that the request is there, wait until it may go on and tell whether it does; called by the proxy."""
        self._came.set()
        self._let_go.wait()
        return not self.is_dropped


class S3Proxy:
    """Listens on loopback, and passes requests to one server.

    Attributes:
        endpoint: URL for clients.
        passed: Every request that was answered, in that order.
    """

    def __init__(self, upstream_port: int, seed: int) -> None:
        self._upstream_port = upstream_port
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._armed: dict[int, tuple[Fault, list[int]]] = {}
        self._names = iter(range(1 << 30))
        self._holds: list[Hold] = []
        self.passed: list[Passed] = []
        self._closed = threading.Event()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        """URL for clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def breaking(self, *faults: Fault) -> Iterator[None]:
        """Do harm while the block runs."""
        names = [self.arm(fault) for fault in faults]
        try:
            yield
        finally:
            for name in names:
                self.disarm(name)

    def arm(self, fault: Fault) -> int:
        """Do harm from now on, and return the name under which that is ended."""
        with self._lock:
            name = next(self._names)
            self._armed[name] = (fault, [fault.times if fault.times is not None else -1])
        return name

    def disarm(self, name: int) -> None:
        """End some harm."""
        with self._lock:
            self._armed.pop(name, None)

    def has_struck(self, name: int) -> bool:
        """Tell whether harm that was to be done so many times has been done."""
        with self._lock:
            return name in self._armed and self._armed[name][1][0] == 0

    def hold(self, method: str, path: str, side: Side) -> Hold:
        """Hold the next request of a kind."""
        hold = Hold(method, path, side)
        with self._lock:
            self._holds.append(hold)
        return hold

    def count(self, method: str, path: str, *, since_s: float = 0.0) -> int:
        """Return how many requests of a kind have happened since a moment."""
        pattern = re.compile(path)
        return sum(
            one.is_done and one.method == method and one.at_s >= since_s and pattern.search(one.path) is not None
            for one in tuple(self.passed)
        )

    def until_closed(self) -> None:
        """Wait until the proxy is closed; called for requests that are never answered."""
        self._closed.wait()

    def close(self) -> None:
        """Let everything go that is held, and stop."""
        self._closed.set()
        with self._lock:
            holds, self._holds = self._holds, []
        for hold in holds:
            hold.drop()
        self._server.shutdown()
        self._server.server_close()

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Return what is done to a request, and count it."""
        with self._lock:
            for fault, left in self._armed.values():
                if left[0] == 0 or not fault.concerns(method, path):
                    continue
                if fault.share < 1 and self._chance.random() >= fault.share:
                    continue
                left[0] -= 1
                return fault
        return None

    def take_hold(self, method: str, path: str, side: Side) -> Hold | None:
        """Return what a request has to wait for."""
        with self._lock:
            for hold in self._holds:
                if hold.side is side and not hold.is_taken and hold.method == method and re.search(hold.path, path):
                    hold.is_taken = True
                    return hold
        return None

    def forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> _Answer:
        """Send a request to the store and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream_port, timeout=_ANSWERS_WITHIN_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return _Answer(answer.status, answer.reason, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def note(self, method: str, path: str, status: int, harm: Harm | None) -> None:
        """Remember a request that was answered."""
        self.passed.append(Passed(time.monotonic(), method, path, status, harm))


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    owner: S3Proxy

    def handle_expect_100(self) -> bool:
        """Ask for the body, which is decided about as a whole."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""

    def do(self) -> None:
        """Serve one request, and break the connection if it is to be broken."""
        body = self._read_body()
        try:
            self._serve(body)
        except OSError:
            self._break()
        self.wfile.flush()

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do  # noqa: N815 - names in the base class

    def _serve(self, body: bytes) -> None:
        owner, headers = self.owner, self._headers(len(body))
        fault = owner.take_fault(self.command, self.path)
        harm = fault.harm if fault else None
        if fault is not None and harm is Harm.SLOW:
            time.sleep(fault.delay_s)
        if harm is Harm.REFUSE:
            return self._break()
        if harm is Harm.SILENT:
            owner.until_closed()
            return self._break()
        if harm is Harm.NOT_FOUND:
            return self._answer(_Answer(404, "Not Found", [("Content-Type", "text/plain")], _NO_BACKEND))
        if harm is Harm.BUSY:
            return self._answer(_Answer(503, "Slow Down", [("Content-Type", "application/xml")], _SLOW_DOWN))
        if harm is Harm.THROTTLE:
            return self._answer(_Answer(429, "Too Many Requests", [("Content-Type", "application/xml")], _TOO_MANY))
        if harm is Harm.SPOIL_SIGNATURE:
            headers["Authorization"] = _spoiled(headers.get("Authorization", ""))
        if harm is Harm.CUT and body:
            self._send_half(headers, body)
            return self._break()
        if not self._goes_on(Side.BEFORE):
            return self._break()
        answer = owner.forward(self.command, self.path, headers, body)
        owner.note(self.command, self.path, answer.status, harm)
        if not self._goes_on(Side.AFTER) or harm is Harm.LOSE_ANSWER:
            return self._break()
        return self._answer(answer, cut=harm is Harm.CUT)

    def _goes_on(self, side: Side) -> bool:
        hold = self.owner.take_hold(self.command, self.path, side)
        return hold is None or hold.wait()

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _headers(self, length: int) -> dict[str, str]:
        kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        if self.headers.get("Transfer-Encoding"):
            kept["Content-Length"] = str(length)
        return kept

    def _answer(self, answer: _Answer, *, cut: bool = False) -> None:
        self.send_response_only(answer.status, answer.reason)
        named = {name.lower() for name, _ in answer.headers}
        for name, value in answer.headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if "content-length" not in named and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        body = answer.body[: len(answer.body) // 2] if cut else answer.body
        if self.command != "HEAD":
            self.wfile.write(body)
        if cut:
            self.wfile.flush()
            self._break()

    def _send_half(self, headers: Mapping[str, str], body: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.owner._upstream_port)) as store:
            lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
            store.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body[: len(body) // 2])

    def _break(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _spoiled(authorization: str) -> str:
    """Return a signature that the store refuses."""
    return re.sub(r"(Signature=)\w{8}", r"\g<1>00000000", authorization)


@contextmanager
def proxy_to(endpoint: str, seed: int) -> Iterator[S3Proxy]:
    """Run a proxy to a server's URL while the block runs."""
    proxy = S3Proxy(int(endpoint.rpartition(":")[2]), seed)
    try:
        yield proxy
    finally:
        proxy.close()
