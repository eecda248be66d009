"""A REST catalog for Iceberg tables on loopback, over a SQL catalog, and a gateway in front of it that answers badly.

The catalog answers what the REST clients of pyiceberg and of Java ask for: its settings, namespaces, and tables that are
created, loaded and committed to. The gateway does to a request what meshes, ingresses and clients of the cloud do: it passes
a request on twice, or tells of a failure after the success.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from pyiceberg import exceptions as iceberg_errors
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.table import CommitTableRequest, Table

_STATUS: Mapping[type[Exception], HTTPStatus] = {
    iceberg_errors.CommitFailedException: HTTPStatus.CONFLICT,
    iceberg_errors.NamespaceAlreadyExistsError: HTTPStatus.CONFLICT,
    iceberg_errors.NoSuchNamespaceError: HTTPStatus.NOT_FOUND,
    iceberg_errors.NoSuchTableError: HTTPStatus.NOT_FOUND,
    iceberg_errors.TableAlreadyExistsError: HTTPStatus.CONFLICT,
}


@dataclass(frozen=True)
class Answer:
    """An answer: its status and its JSON."""

    status: int
    body: bytes = b""

    @classmethod
    def of(cls, value: object, status: int = HTTPStatus.OK) -> Answer:
        """Make one of a JSON value."""
        return cls(status, json.dumps(value).encode())

    @classmethod
    def refusal(cls, status: int, kind: str, message: str) -> Answer:
        """Make one that says what failed, in the form of the REST catalog's description."""
        return cls.of({"error": {"message": message, "type": kind, "code": int(status)}}, status)


@dataclass
class Gateway:
    """Passes requests on to the catalog; commits to tables as its settings say.

    Attributes:
        endpoint: The catalog's URL.
        sends_twice: How many of the next commits it sends once more after the catalog has answered; the client gets the
            second answer.
        fails_after: What it answers to the next commits after the catalog has carried them out, by status.
        commits: The statuses with which the catalog has answered commits, in order.
    """

    endpoint: str
    sends_twice: int = 0
    fails_after: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Pass one request on."""
        if method != "POST" or "/tables/" not in path:
            return self._passed_on(method, path, body)
        answer = self._committed(method, path, body)
        if self.sends_twice:
            self.sends_twice -= 1
            return self._committed(method, path, body)
        if self.fails_after:
            return Answer.refusal(self.fails_after.pop(0), "ServiceFailure", "no healthy upstream")
        return answer

    def _committed(self, method: str, path: str, body: bytes) -> Answer:
        answer = self._passed_on(method, path, body)
        self.commits.append(answer.status)
        return answer

    def _passed_on(self, method: str, path: str, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()


@contextmanager
def rest_catalog(catalog: Catalog) -> Iterator[str]:
    """Serve a catalog's namespaces and tables while the block runs; yield the URL."""
    with _serving(lambda method, path, body: _answer(catalog, method, path, body)) as endpoint:
        yield endpoint


@contextmanager
def gateway_to(endpoint: str) -> Iterator[tuple[Gateway, str]]:
    """Run a gateway to a catalog while the block runs; yield it and its URL."""
    gateway = Gateway(endpoint)
    with _serving(gateway.answer) as url:
        yield gateway, url


def _answer(catalog: Catalog, method: str, path: str, body: bytes) -> Answer:
    try:
        match method, [unquote(part) for part in urlsplit(path).path.split("/")[2:]]:
            case "GET", ["config"]:
                return Answer.of({"defaults": {}, "overrides": {}})
            case "POST", ["namespaces"]:
                namespace = json.loads(body)["namespace"]
                catalog.create_namespace(tuple(namespace))
                return Answer.of({"namespace": namespace, "properties": {}})
            case "POST", ["namespaces", namespace, "tables"]:
                wanted = CreateTableRequest.model_validate_json(body)
                return _told(catalog.create_table((namespace, wanted.name), wanted.table_schema))
            case "GET", ["namespaces", namespace, "tables", table]:
                return _told(catalog.load_table((namespace, table)))
            case "POST", ["namespaces", namespace, "tables", table]:
                identifier = {"namespace": [namespace], "name": table}  # Java's client leaves it out, as it may.
                change = CommitTableRequest.model_validate({"identifier": identifier, **json.loads(body)})
                held = catalog.load_table((namespace, table))
                committed = catalog.commit_table(held, change.requirements, change.updates)
                return Answer(HTTPStatus.OK, committed.model_dump_json().encode())
    except tuple(_STATUS) as error:
        return Answer.refusal(_STATUS[type(error)], type(error).__name__, str(error))
    return Answer.refusal(HTTPStatus.NOT_FOUND, "NotFound", f"{method} {path}")


def _told(table: Table) -> Answer:
    metadata = table.metadata.model_dump_json()
    location = json.dumps(table.metadata_location)
    return Answer(
        HTTPStatus.OK, f'{{"metadata-location": {location}, "metadata": {metadata}, "config": {{}}}}'.encode()
    )


@contextmanager
def _serving(answer: Callable[[str, str, bytes], Answer]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = answer(self.command, self.path, body)
            self.send_response(given.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)

        do_GET = do_POST = _handle  # noqa: N815 - as the base class calls them

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Say nothing: a test that fails shows what the client was told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
