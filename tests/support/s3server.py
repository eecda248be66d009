"""A real S3 server (versitygw) for tests: on a free loopback port, over a folder of its own, ended by its process id.

Fixtures: `s3` is one server for the whole run, `s3_bucket` a new bucket in it. A test that stops or damages a server
starts its own with `running(folder)`.
"""

from __future__ import annotations

import functools
import itertools
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import botocore.client
import botocore.config
import botocore.session
import pytest
from statefulspark.storage import options

BINARY = Path(__file__).resolve().parents[2] / "build" / "bin" / "versitygw"
ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret"
REGION = "us-east-1"
_STARTS_WITHIN_S = 20.0
_ENDS_WITHIN_S = 10.0


class S3Server:
    """One versitygw process.

    Attributes:
        endpoint: URL for clients.
        objects: Folder that holds the buckets; kept over a restart.
        access_log: One line per request.
    """

    def __init__(self, folder: Path) -> None:
        self.objects = folder / "objects"
        self.objects.mkdir(parents=True, exist_ok=True)
        self.access_log = folder / "access.log"
        self._output = folder / "versitygw.log"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._bucket_numbers = itertools.count(1)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it answers; again after `stop`, on the same port with the same objects."""
        if not BINARY.exists():
            pytest.fail(f"{BINARY} is missing; run `make build/bin/versitygw` first.", pytrace=False)
        command = [str(BINARY), "--quiet", "--keep-alive", "--access", ACCESS_KEY, "--secret", SECRET_KEY]
        command += ["--region", REGION, "--port", f"127.0.0.1:{self._port}", "--access-log", str(self.access_log)]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen([*command, "posix", str(self.objects)], stdout=output, stderr=output)
        self._wait_until_it_answers(self._process)

    def stop(self) -> None:
        """End the process; connections break as if the machine were gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(_ENDS_WITHIN_S)
        self._process = None

    def options(self) -> options.StorageOptions:
        """Return options with which our stores reach this server."""
        return options.StorageOptions(endpoint=self.endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    def new_bucket(self, stem: str = "bucket") -> str:
        """Create a bucket with a name of its own and return the name."""
        name = f"{stem}-{next(self._bucket_numbers):04d}"
        self._client.create_bucket(Bucket=name)
        return name

    @functools.cached_property
    def _client(self) -> botocore.client.BaseClient:
        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def requests(self) -> tuple[str, ...]:
        """Return the log lines of all requests so far."""
        return tuple(self.access_log.read_text().splitlines()) if self.access_log.exists() else ()

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < deadline_s and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)
        self.stop()
        pytest.fail(f"versitygw did not start: {self._output.read_text()[-2000:]}", pytrace=False)


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """Run a server over a folder while the block runs."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_bucket(s3: S3Server) -> str:
    return s3.new_bucket()
