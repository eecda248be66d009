"""What no S3 server answers is a failure of the store, told without the answer."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest
from statefulspark import errors, storage
from statefulspark.storage import ObjectStore, StorageOptions

pytestmark = pytest.mark.slow  # it waits as a client of storage does

BODY = "credentials-of-another"
OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "read": lambda store: store.read("a"),
    "read_range": lambda store: store.read_range("a", 0, 10),
    "list": lambda store: store.list(""),
    "info": lambda store: store.info("a"),
    "write": lambda store: store.write("a", b"body"),
    "copy_many": lambda store: store.copy_many([("a", "b")]),
    "delete_many": lambda store: store.delete_many(["a"]),
    "delete_unchanged": lambda store: store.delete_unchanged("a", etag="e"),
}


def an_http_answer(status: str, body: str = BODY, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join([*head, "", body])).encode()


ANSWERS = {
    "no HTTP": f"SSH-2.0-{BODY}\r\n".encode(),
    "a header that is none": f"HTTP/1.1 200 OK\r\n{BODY}\r\n\r\n".encode(),
    "a text with 200": an_http_answer("200 OK"),
    "a text with 201": an_http_answer("201 Created"),
    "a text with 206": an_http_answer("206 Partial Content"),
    "a text with 302": an_http_answer("302 Found"),
    "a text with 400": an_http_answer("400 Bad Request"),
    "a text with 500": an_http_answer("500 Internal Server Error"),
    "a status text": an_http_answer(f"400 {BODY}", ""),
    "another XML": an_http_answer("200 OK", f"<a><Contents><Key>{BODY}</Key></Contents></a>"),
    "another XML with 400": an_http_answer("400 Bad Request", f"<a><b>{BODY}</b></a>"),
    "an element without an end": an_http_answer("202 Accepted", f"<a>{BODY}"),
    "a time that is none": an_http_answer("200 OK", "", f"Last-Modified: {BODY}", 'ETag: "e"'),
    "a number that is none": an_http_answer("200 OK", f"<a><KeyCount>{BODY}</KeyCount></a>"),
}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self.rfile.read(length)
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]  # set below


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, answer: bytes, handler: type[socketserver.BaseRequestHandler] = _Handler) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.answer = answer


@pytest.fixture(params=ANSWERS.values(), ids=ANSWERS)
def odd_store(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    with _serving(_Server(request.param)) as store:
        yield store


@contextlib.contextmanager
def _serving(server: _Server) -> Iterator[ObjectStore]:
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    yield storage.open_store("s3://bucket/p", StorageOptions(endpoint=endpoint, access_key="me", secret_key="mine"))
    server.shutdown()
    serving.join()
    server.server_close()


def test_an_answer_that_is_not_of_s3_is_no_bug_and_is_not_repeated(odd_store: ObjectStore) -> None:
    with concurrent.futures.ThreadPoolExecutor(len(OPERATIONS)) as pool:
        failures = dict(
            zip(OPERATIONS, pool.map(lambda act: _failure(act, odd_store), OPERATIONS.values()), strict=True)
        )

    unexpected = {name: repr(error) for name, error in failures.items() if not _is_ours(error)}
    assert unexpected == {}
    assert [str(error) for error in failures.values() if BODY in str(error)] == []


class _EndlessHandler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]  # set by the server
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"100000\r\n" + bytes(2**20) + b"\r\n")


@pytest.mark.parametrize(
    "size",
    [b"Transfer-Encoding: chunked", b"Content-Length: 1000000000", b""],
    ids=["no size", "a size above the limit", "no end"],
)
def test_no_more_is_read_than_the_caller_allows_whatever_the_server_says(size: bytes) -> None:
    server = _Server(b"HTTP/1.1 200 OK\r\n" + size + (b"\r\n\r\n" if size else b"\r\n"), _EndlessHandler)
    with (
        _serving(server) as store,
        pytest.raises(errors.StateUnknownError, match="s3://bucket/p/a has more than 3000000 bytes"),
    ):
        store.read("a", most_bytes=3_000_000)


def _failure(act: Callable[[ObjectStore], object], store: ObjectStore) -> BaseException | None:
    try:
        act(store)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return error
    return None


def _is_ours(error: BaseException | None) -> bool:
    return error is None or (
        isinstance(error, errors.StatefulSparkError) and not isinstance(error, errors.InternalError)
    )
