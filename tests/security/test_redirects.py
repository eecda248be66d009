"""A server that is asked for an object cannot send its client to another one."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from statefulspark import errors, storage
from statefulspark.storage import ObjectStore, StorageOptions, fsspec_store

KEPT = "kept"
ELSEWHERE = "/latest/meta-data?any=query"
OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "GET": lambda store: store.read("a"),
    "GET of a listing": lambda store: store.list(""),
    "HEAD": lambda store: store.info("a"),
    "PUT": lambda store: store.write("a", b"body"),
    "PUT of a copy": lambda store: store.copy_many([("a", "b")]),
    "POST": lambda store: store.delete_many(["a"]),
    "DELETE": lambda store: store.delete_unchanged(KEPT, etag="e"),
}


SPARKS_OPERATIONS: dict[str, Callable[[JavaObject, JavaObject], object]] = {
    "HEAD": lambda files, path: files.getFileStatus(path),
    "GET": lambda files, path: files.openFile(path).opt("fs.option.openfile.length", "9").build().get().read(),
    "GET of a listing": lambda files, path: files.listStatus(path),
    "PUT": lambda files, path: files.createFile(path).opt("fs.s3a.create.performance", "true").build().close(),
}


class _Server(http.server.ThreadingHTTPServer):
    """Answers each request with a redirect, or as what the redirect leads to; it records the requests."""

    def __init__(self, status: int = HTTPStatus.OK, target: str = "", region: str = "elsewhere-1") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.target, self.region = status, target, region
        self.requests: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(f"{self.command} {self.path}")
        is_kept = self.command == "HEAD" and self.path.endswith(KEPT)
        self.send_response(HTTPStatus.OK if is_kept else self.server.status)
        self.send_header("Location", self.server.target)
        if self.server.region:
            self.send_header("x-amz-bucket-region", self.server.region)
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names of http.server

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_server() -> Iterator[_Server]:
    yield from _served(_Server())


@pytest.fixture(params=[302, 303, 307, 308])
def redirecting_server(request: pytest.FixtureRequest, other_server: _Server) -> Iterator[_Server]:
    yield from _served(_Server(request.param, other_server.endpoint + ELSEWHERE))


def _served(server: _Server) -> Iterator[_Server]:
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.parametrize("act", OPERATIONS.values(), ids=OPERATIONS)
def test_a_redirect_is_a_failure_and_is_not_followed(
    redirecting_server: _Server, other_server: _Server, act: Callable[[ObjectStore], object]
) -> None:
    store = _store(redirecting_server)

    with pytest.raises(errors.StateUnknownError) as caught:
        act(store)

    assert (other_server.requests, caught.value.reason) == ([], "StorageFailed")


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_that_names_no_region_is_not_asked_for_it_without_end(other_server: _Server, status: int) -> None:
    """The S3 client asked for it with a HEAD, whose redirect made it ask again, until Python's stack was at its end."""
    for server in _served(_Server(status, other_server.endpoint + ELSEWHERE, region="")):
        with pytest.raises(errors.StateUnknownError, match=str(status)):
            _store(server).list("")

        assert (other_server.requests, len(server.requests)) == ([], 1)


def test_a_name_that_has_moved_to_this_machine_is_refused_where_it_is_dialled(other_server: _Server) -> None:
    """The operator looks at the addresses of a name first; the name may have others when the connection is made."""
    port = other_server.server_address[1]
    options = StorageOptions(
        endpoint=f"http://localhost:{port}", access_key="nobody", secret_key="nothing", refuses_near=True
    )

    with pytest.raises(errors.TransientError, match=r"localhost") as refused:
        storage.open_store("s3://bucket/p", options).read("a")

    assert (other_server.requests, refused.value.reason) == ([], "StorageUnreachable")


@pytest.mark.spark
@pytest.mark.parametrize("act", SPARKS_OPERATIONS.values(), ids=SPARKS_OPERATIONS)
def test_sparks_client_does_not_follow_a_redirect_either(
    spark: SparkSession,
    redirecting_server: _Server,
    other_server: _Server,
    act: Callable[[JavaObject, JavaObject], object],
) -> None:
    hadoop = spark.sparkContext._jvm.org.apache.hadoop
    settings = hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    settings.set("fs.s3a.endpoint", redirecting_server.endpoint)
    settings.set("fs.s3a.impl.disable.cache", "true")
    path = hadoop.fs.Path("s3a://bucket/p/a")

    with pytest.raises(Py4JJavaError):
        act(path.getFileSystem(settings), path)

    assert (other_server.requests, redirecting_server.requests != []) == ([], True)


def _store(server: _Server) -> fsspec_store.FsspecStore:
    options = StorageOptions(endpoint=server.endpoint, access_key="nobody", secret_key="nothing", session_token="token")
    store = storage.open_store("s3://bucket/p", options)
    assert isinstance(store, fsspec_store.FsspecStore)
    return store
