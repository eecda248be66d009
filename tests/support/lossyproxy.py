"""A TCP proxy on loopback that loses answers, falls silent or sees what is written; for tests of what clients make of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

_CHUNK_BYTES = 1 << 16
_REFUSAL = b"""<Error><Code>InvalidRequest</Code><Message>The specified copy source is larger than the maximum allowable
 size for a copy source: 5368709120</Message></Error>"""
_TOO_LARGE = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_REFUSAL),
    _REFUSAL,
)
_UNPROVEN = b"""<Error><Code>InvalidRequest</Code><Message>Content-MD5 OR x-amz-checksum- HTTP header is required for
 Put Object requests with Object Lock parameters</Message></Error>"""
_NO_CHECKSUM = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_UNPROVEN),
    _UNPROVEN,
)
_REFUSED = b"HTTP/1.1 412 "
_DONE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_NO_BACKEND = b"default backend - 404"
_LOST_STORE = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    % len(_NO_BACKEND)
)


class LossyProxy:
    """Passes bytes between clients and one server on loopback.

    Attributes:
        endpoint: URL for clients.
        silent: While true, requests are swallowed and nothing is answered.
        has_lost_the_store: Methods whose requests are answered 404, as by an ingress whose backend is gone.
        ignores_conditions: While true, a write that the server refuses for its condition is answered as done.
        needs_checksums: While true, an upload without a checksum is answered as S3 does for a bucket with Object Lock.
        refuses_whole_copies: While true, CopyObject is answered as S3 does for an object of more than 5 GB.
        on_written: Called with bucket and key of each object that was written, before its writer is answered.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._losses: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.silent = False
        self.has_lost_the_store: frozenset[str] = frozenset()
        self.ignores_conditions = False
        self.needs_checksums = False
        self.refuses_whole_copies = False
        self.on_written: Callable[[str], None] = lambda path: None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def lose_answers(self, method: str, times: int) -> None:
        """Break the connection instead of passing on the answers to the next requests of a method; they take effect."""
        with self._lock:
            self._losses[method.encode() + b" "] = times

    def close(self) -> None:
        """Stop listening and break every connection."""
        self._listener.close()
        for connection in self._open:
            _break(connection)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._upstream_port))
            self._open += [client, server]
            lossy = threading.Event()
            asked = [b""]
            threading.Thread(target=self._forward, args=(client, server, lossy, asked), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, lossy, asked), daemon=True).start()

    def _forward(
        self, client: socket.socket, server: socket.socket, lossy: threading.Event, asked: list[bytes]
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(_CHUNK_BYTES):
                if self.silent:
                    continue
                if self.refuses_whole_copies and _is_whole_copy(chunk):
                    client.sendall(_TOO_LARGE)
                    continue
                if self.needs_checksums and _is_unproven_upload(chunk):
                    client.sendall(_NO_CHECKSUM)
                    break
                if (method := chunk.partition(b" ")[0].decode("latin-1")) in self.has_lost_the_store:
                    client.sendall(_LOST_STORE + (b"" if method == "HEAD" else _NO_BACKEND))
                    break
                if self._is_lost(chunk):
                    lossy.set()
                if b" HTTP/1.1" in (line := chunk.partition(b"\r\n")[0]):
                    asked[0] = line
                server.sendall(chunk)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket, lossy: threading.Event, asked: list[bytes]) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(_CHUNK_BYTES):
                if lossy.is_set() and not chunk.startswith(b"HTTP/1.1 100"):
                    break
                if self.ignores_conditions and chunk.startswith(_REFUSED):
                    client.sendall(_DONE)
                    break
                if chunk.startswith(b"HTTP/1.1 200") and (path := _written(asked[0])):
                    self.on_written(path)
                client.sendall(chunk)
        _break(client)
        _break(server)

    def _is_lost(self, chunk: bytes) -> bool:
        with self._lock:
            for method, left in self._losses.items():
                if left > 0 and chunk.startswith(method):
                    self._losses[method] = left - 1
                    return True
        return False


def _break(connection: socket.socket) -> None:
    """End a connection, and the calls of other threads that wait on it, which closing alone would not."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _written(request_line: bytes) -> str | None:
    """Return bucket and key of the object that a request writes: by one PUT, or as the end of an upload in parts."""
    method, _, rest = request_line.decode().partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    is_object = "/" in path.strip("/")
    is_write = method == ("POST" if "uploadId=" in query else "PUT")
    return unquote(path).strip("/") if is_object and is_write else None


def _is_whole_copy(chunk: bytes) -> bool:
    line, _, headers = chunk.partition(b"\r\n")
    return line.startswith(b"PUT ") and b"uploadId=" not in line and b"x-amz-copy-source:" in headers.lower()


def _is_unproven_upload(chunk: bytes) -> bool:
    """Tell whether a chunk begins an upload of an object, or of a part of one, that carries no checksum."""
    line, _, headers = chunk.partition(b"\r\n")
    names = {header.partition(b":")[0].lower() for header in headers.partition(b"\r\n\r\n")[0].split(b"\r\n")}
    is_upload = line.endswith(b" HTTP/1.1") and _written(line) is not None and line.startswith(b"PUT ")
    is_proven = b"content-md5" in names or any(name.startswith(b"x-amz-checksum-") for name in names)
    return is_upload and not is_proven and b"x-amz-copy-source" not in names


@contextmanager
def proxy_to(endpoint: str) -> Iterator[LossyProxy]:
    """Run a proxy to a server's URL while the block runs."""
    proxy = LossyProxy(int(endpoint.rpartition(":")[2]))
    try:
        yield proxy
    finally:
        proxy.close()
