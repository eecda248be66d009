"""A small S3 in memory, for the run of `train_archive` alone: the JVM loads its S3 client only when somebody answers.

It speaks what S3A says to one bucket of small files: PUT (also only if absent, also as a copy), GET with ranges, HEAD,
DELETE, and listings of one page. It checks no signatures and listens on loopback.
"""

from __future__ import annotations

import hashlib
import html
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_WRITTEN = "2026-01-01T00:00:00.000Z"
_WRITTEN_HTTP = "Thu, 01 Jan 2026 00:00:00 GMT"


class _Store(ThreadingHTTPServer):
    """The server and its objects, by path with the bucket."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Store

    def do_PUT(self) -> None:
        path, body = self._path(), self._body()
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            body = self.server.objects[unquote(source).lstrip("/")]
        if self.headers.get("If-None-Match") and path in self.server.objects:
            return self._answer(412, _error("PreconditionFailed"))
        self.server.objects[path] = body
        copied = (
            f"<CopyObjectResult><ETag>{_etag(body)}</ETag><LastModified>{_WRITTEN}</LastModified></CopyObjectResult>"
        )
        return self._answer(200, copied if source is not None else "", ETag=_etag(body))

    def do_GET(self) -> None:
        path, asked = self._path(), parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        bucket, _, key = path.partition("/")
        if not key:
            return self._answer(
                200, self._listing(bucket, asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0])
            )
        return self._object(path)

    def do_HEAD(self) -> None:
        self._object(self._path())

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._path(), None)
        self._answer(204)

    def do_POST(self) -> None:
        """Delete several."""
        bucket = self._path().rstrip("/")
        for key in re.findall(r"<Key>(.*?)</Key>", self._body().decode()):
            self.server.objects.pop(f"{bucket}/{html.unescape(key)}", None)
        self._answer(200, "<DeleteResult></DeleteResult>")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _without_signatures(body) if self.headers.get("x-amz-decoded-content-length") else body

    def _object(self, path: str) -> None:
        body = self.server.objects.get(path)
        if body is None:
            return self._answer(404, _error("NoSuchKey"))
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            return self._answer(200, body, ETag=_etag(body))
        first, last = int(part[1]), min(int(part[2] or len(body)), len(body) - 1)
        place = f"bytes {first}-{last}/{len(body)}"
        return self._answer(206, body[first : last + 1], ETag=_etag(body), **{"Content-Range": place})

    def _listing(self, bucket: str, prefix: str, delimiter: str) -> str:
        keys = sorted(path.partition("/")[2] for path in self.server.objects if path.startswith(f"{bucket}/{prefix}"))
        below = {key: key[len(prefix) :].partition(delimiter)[0] if delimiter else key for key in keys}
        folders = {f"{prefix}{name}/" for key, name in below.items() if delimiter and key != f"{prefix}{name}"}
        files = [key for key in keys if not delimiter or key == f"{prefix}{below[key]}"]
        return (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{html.escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
            f"<KeyCount>{len(files) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
            + "".join(_content(key, self.server.objects[f"{bucket}/{key}"]) for key in files)
            + "".join(
                f"<CommonPrefixes><Prefix>{html.escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)
            )
            + "</ListBucketResult>"
        )

    def _answer(self, status: int, body: str | bytes = b"", **headers: str) -> None:
        sent = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in {"Last-Modified": _WRITTEN_HTTP, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(sent)


def _content(key: str, body: bytes) -> str:
    return (
        f"<Contents><Key>{html.escape(key)}</Key><LastModified>{_WRITTEN}</LastModified><ETag>{_etag(body)}</ETag>"
        f"<Size>{len(body)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _error(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _without_signatures(body: bytes) -> bytes:
    """Return what an upload in signed chunks carries: each is `SIZE;signature`, the bytes, each with a line end."""
    carried, position = bytearray(), 0
    while True:
        line_end = body.index(b"\r\n", position)
        size = int(body[position:line_end].partition(b";")[0], 16)
        if size == 0:
            return bytes(carried)
        carried += body[line_end + 2 : line_end + 2 + size]
        position = line_end + 2 + size + 2


@contextmanager
def running() -> Iterator[str]:
    """Serve until the end of the block; the endpoint."""
    store = _Store()
    threading.Thread(target=store.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{store.server_port}"
    finally:
        store.shutdown()
        store.server_close()
