"""A whole job whose S3 server has a certificate of a private authority: state, logs, checkpoints and output go over TLS."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import certificates
import driverprocess
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3server
import standalone
from s3server import S3Server
from statefulspark import storage
from statefulspark.contract.exit_codes import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.s3]

JOB = Path(__file__).with_name("standby_job.py")
SECRETS = {"AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with s3server.running(tmp_path / "s3", certificates.issue(tmp_path / "private")) as running:
        yield running


class Counted:
    """The job over a server, and what it has written."""

    def __init__(self, server: S3Server, folder: Path, *flags: str) -> None:
        bucket = server.new_bucket()
        self._input, self._server, self._output = folder / "input", server, f"s3://{bucket}/out"
        self._input.mkdir()
        self.driver = driverprocess.Driver(
            JOB,
            f"s3://{bucket}/state",
            folder / "driver.log",
            *("--endpoint", server.endpoint, "--conf", "spark.sql.shuffle.partitions=2"),
            *("--parameter", f"input={self._input}", "--parameter", f"output={self._output}"),
            *("--parameter", "version=good", "--checkpoint-interval", "500ms", *flags),
            environment=SECRETS,
        )

    def add(self, number: int) -> None:
        pq.write_table(pa.table({"key": ["a"]}), self._input / f"{number}.parquet")

    @property
    def seen(self) -> list[int]:
        """The counts of the key that are visible, in order."""
        store = storage.open_store(self._output, self._server.options())
        keys = [info.key for info in store.list("") if info.key.endswith(".parquet")]
        tables = [pq.read_table(io.BytesIO(store.read(key))) for key in keys]
        return sorted(count for table in tables for count in table["seen"].to_pylist())


def _goes_on(job: Counted) -> None:
    """Run the job twice, with a file of input more for the second time."""
    job.add(1)
    job.driver.start()
    job.driver.until(lambda: job.seen == [1], "the first row is counted")
    assert job.driver.drains() == ExitCode.SUCCESS
    job.add(2)
    job.driver.start()
    job.driver.until(lambda: job.seen == [1, 2], "the second row is counted on the state of the first")


def test_a_job_on_executors_checkpoints_and_restores(server: S3Server, tmp_path: Path) -> None:
    authority = ("--storage-ca", str(tmp_path / "private" / "ca.crt"))
    (nodes := tmp_path / "spark").mkdir()
    with standalone.running(nodes, hosts=("127.0.0.2",), memory="700m") as master:
        job = Counted(server, tmp_path, *authority, "--master", master, "--conf", "spark.executor.memory=512m")
        try:
            _goes_on(job)
        finally:
            job.driver.stop()


@pytest.mark.parametrize(
    ("authority", "said"),
    [
        pytest.param(None, "name the authority with --storage-ca", id="no authority"),
        pytest.param("other", "was not issued by the authority in the file", id="another authority"),
    ],
)
def test_a_job_without_the_authority_says_what_to_name(
    server: S3Server, tmp_path: Path, authority: str | None, said: str
) -> None:
    other = str(certificates.issue(tmp_path / "other").authority)
    job = Counted(server, tmp_path, *(("--storage-ca", other) if authority else ()))
    try:
        job.driver.start()

        assert job.driver.ends() == ExitCode.STORAGE_UNAVAILABLE, job.driver.output
        assert server.endpoint in job.driver.output
        assert said in job.driver.output
    finally:
        job.driver.stop()
