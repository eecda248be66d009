"""A real S3 server (versitygw) for tests: on a free loopback port, over a folder of its own, ended by its process id.

Fixtures: `s3` is one server for the whole run, `s3_bucket` a new bucket in it. A test that stops or damages a server
starts its own with `running(folder)`.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import botocore.client
import botocore.config
import botocore.session
import certificates
import lossyproxy
import processes
import pytest
from statefulspark.storage import authorities
from statefulspark.storage.options import StorageOptions

BINARY = Path(__file__).resolve().parents[2] / "build" / "bin" / "versitygw"
ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret"
REGION = "us-east-1"
RIGHTS_OF_A_JOB = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
"""What docs/howto/secure.md asks for, besides the right to list the bucket."""


class S3Server(processes.Server):
    """One versitygw process.

    Attributes:
        endpoint: URL for clients.
        objects: Folder that holds the buckets; kept over a restart.
        access_log: One line per request.
    """

    def __init__(self, folder: Path, issued: certificates.Issued | None = None) -> None:
        self._issued = issued
        self.objects = folder / "objects"
        self._accounts = folder / "accounts"
        for made in (self.objects, self._accounts):
            made.mkdir(parents=True, exist_ok=True)
        self.access_log = folder / "access.log"
        super().__init__("versitygw", folder / "versitygw.log")
        self._port = processes.free_port()
        self._bucket_numbers = itertools.count(1)
        self._statements: dict[str, list[object]] = {}

    @property
    def endpoint(self) -> str:
        return f"{'http' if self._issued is None else 'https'}://127.0.0.1:{self._port}"

    def command(self) -> Sequence[str]:
        """Return what to start."""
        processes.require(BINARY, "build/bin/versitygw")
        command = [str(BINARY), "--quiet", "--keep-alive", "--access", ACCESS_KEY, "--secret", SECRET_KEY]
        command += [
            "--iam-dir",
            str(self._accounts),
            "--region",
            REGION,
            "--port",
            f"127.0.0.1:{self._port}",
            "--access-log",
            str(self.access_log),
        ]
        if self._issued is not None:
            command += ["--cert", self._issued.tls.certificate, "--key", self._issued.tls.key]
        return [*command, "posix", str(self.objects)]

    def answers(self) -> bool:
        """Tell whether it is ready for clients."""
        return processes.is_open(self._port)

    def options(self) -> StorageOptions:
        """Return options with which our stores reach this server."""
        authority = authorities.read(str(self._issued.authority)) if self._issued is not None else None
        return StorageOptions(endpoint=self.endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY, authority=authority)

    def new_bucket(self, stem: str = "bucket") -> str:
        """Create a bucket with a name of its own and return the name."""
        name = f"{stem}-{next(self._bucket_numbers):04d}"
        self._client.create_bucket(Bucket=name)
        return name

    def delete_bucket(self, name: str) -> None:
        """Delete a bucket with all that it has."""
        while listed := self._client.list_objects_v2(Bucket=name).get("Contents"):
            self._client.delete_objects(Bucket=name, Delete={"Objects": [{"Key": one["Key"]} for one in listed]})
        self._client.delete_bucket(Bucket=name)

    def new_user(self, access_key: str) -> StorageOptions:
        """Create an account that may do nothing yet, and return options with its keys."""
        secret_key = f"secret-of-{access_key}"
        self._administer("create-user", "--access", access_key, "--secret", secret_key, "--role", "user")
        return StorageOptions(endpoint=self.endpoint, access_key=access_key, secret_key=secret_key)

    def give(self, bucket: str, access_key: str) -> None:
        """Make an account the owner of a bucket: nobody but it and the administrator may use it then."""
        self._administer("change-bucket-owner", "--bucket", bucket, "--owner", access_key)

    def allow(self, bucket: str, access_key: str, prefix: str = "", rights: Sequence[str] = RIGHTS_OF_A_JOB) -> None:
        """Let an account list a bucket and use the objects below a prefix, by a policy like those of AWS.

        Args:
            bucket: The bucket.
            access_key: The account.
            prefix: Where the objects are, with a slash at its end.
            rights: What it may do with them.
        """
        resource, account = f"arn:aws:s3:::{bucket}", {"AWS": [access_key]}
        objects = {"Effect": "Allow", "Principal": account, "Action": list(rights), "Resource": f"{resource}/{prefix}*"}
        listing = {"Effect": "Allow", "Principal": account, "Action": "s3:ListBucket", "Resource": resource}
        statements = self._statements.setdefault(bucket, [])
        statements += [listing, objects]
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self._client.put_bucket_policy(Bucket=bucket, Policy=policy)

    def _administer(self, *command: str) -> None:
        admin = ["admin", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--endpoint-url", self.endpoint]
        subprocess.run([str(BINARY), *admin, *command], capture_output=True, timeout=30, check=True)

    @functools.cached_property
    def _client(self) -> botocore.client.BaseClient:
        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            verify=str(self._issued.authority) if self._issued is not None else None,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def encrypt(self, path: str) -> None:
        """Give an object another etag, as an encryption with a key of its own does: it looks like an MD5 and is none.

        Args:
            path: Bucket and key.
        """
        os.setxattr(self.objects / path, "user.etag", f'"{uuid.uuid4().hex}"'.encode())

    def requests(self) -> tuple[str, ...]:
        """Return the log lines of all requests so far."""
        return tuple(self.access_log.read_text().splitlines()) if self.access_log.exists() else ()


def running(folder: Path, issued: certificates.Issued | None = None) -> AbstractContextManager[S3Server]:
    """Run a server over a folder while the block runs; with a certificate it speaks TLS."""
    return processes.serving(S3Server(folder, issued))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextmanager
def encrypted(server: S3Server) -> Iterator[str]:
    """Return the address of a proxy to a server: a bucket behind it is as one with SSE-KMS and Object Lock.

    What is written through it has etags that are no MD5, and an upload without a checksum is refused.
    """
    with lossyproxy.proxy_to(server.endpoint) as proxy:
        proxy.on_written = server.encrypt
        proxy.needs_checksums = True
        yield proxy.endpoint


@pytest.fixture
def s3_bucket(s3: S3Server) -> str:
    return s3.new_bucket()
