"""The commands of the documentation that run a job, or read what one has left, run as they stand there."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import driverprocess
import lookingon
import processes
import pytest
from pagecode import ROOT
from pageconsole import Console
from pyarrow import parquet
from s3server import ACCESS_KEY, SECRET_KEY, S3Server
from statefulspark.contract import config

pytestmark = [pytest.mark.spark, pytest.mark.s3]

JOB = "my-job"


@dataclass(frozen=True)
class Kept:
    """What a job has left on S3.

    Attributes:
        bucket: It is below `state/shop/` in there.
        running: Name of a savepoint that was taken while it ran.
        last: Name of the savepoint with which it has stopped.
    """

    bucket: str
    running: str
    last: str

    @property
    def as_orders(self) -> dict[str, str]:
        """What pages about a job `orders` call it."""
        return {"s3://bucket/": f"s3://{self.bucket}/", "shop/orders": f"shop/{JOB}"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Console:
    folder = tmp_path_factory.mktemp("home")
    program = folder / "bin" / "statefulspark"
    program.parent.mkdir()
    processes.write_program(program, sys.executable, lookingon.__file__)
    environment = {
        "PATH": f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        **driverprocess.ENVIRONMENT,
        "PYSPARK_PYTHON": sys.executable,
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        config.ENV_TOKEN: driverprocess.TOKEN,
    }
    return Console(folder, environment)


@pytest.fixture(scope="module")
def project(home: Console) -> Console:
    """A project, as the readme makes it: it is run twice, and its tests pass."""
    shown = home.run("README.md", 2)
    assert "restored_from=checkpoint" in shown.replace('"restored_from": "', "restored_from=")
    assert " passed" in shown
    return Console(home.folder / JOB, home.environment)


@pytest.fixture(scope="module")
def kept(project: Console, s3: S3Server) -> Kept:
    """The same job on S3 has run, with a savepoint in the middle, and has stopped with another."""
    bucket = s3.new_bucket("pages")
    flags = ("--namespace", "shop", "--checkpoint-interval", "1s")
    running = driverprocess.running(project.folder / "job.py", s3, f"s3://{bucket}/state", project.folder, *flags)
    with running as driver:
        driver.until(lambda: lookingon.ROW.search(driver.output) is not None, "a row is seen")
        address = f"--url http://127.0.0.1:{driver.port}"
        project.script(f"statefulspark savepoint create {address} --name before-the-move")
        project.script(f"statefulspark stop --savepoint {address}")
        driver.ends()
    names = sorted(path.name for path in (s3.objects / bucket / "state" / "shop" / JOB / "savepoints").iterdir())
    return Kept(bucket, *names)


def test_what_the_tutorial_reads_and_asks_after_the_kill(project: Console) -> None:
    assert "periodic" in project.run("docs/tutorial.md", 6)
    assert "This job can start" in project.run("docs/tutorial.md", 8)


def test_the_quickstart_shows_its_counts(home: Console) -> None:
    shutil.copytree(ROOT / "examples" / "quickstart", home.folder / "examples" / "quickstart")

    assert "|digit|" in home.run("examples/quickstart/README.md", 1)


def test_a_size_is_answered(home: Console) -> None:
    assert "partitions" in home.run("docs/sizing.md", 1).lower()


def test_a_job_keeps_its_state_on_a_server_of_ones_own(project: Console, s3: S3Server) -> None:
    keys = {"ID=orders": f"ID={ACCESS_KEY}", "SECRET-KEY": SECRET_KEY}
    place = {"s3://state/": f"s3://{s3.new_bucket('state')}/", "http://127.0.0.1:9000": s3.endpoint}

    assert "|     ada|" in project.run("docs/howto/minio.md", 2, {**keys, **place})


def test_a_savepoint_is_copied_verified_and_started_from(project: Console, kept: Kept, s3: S3Server) -> None:
    named = {**kept.as_orders, "00000052-before-the-move": kept.running}
    other = {"s3://other/": f"s3://{s3.new_bucket('other')}/"}
    keys = {"ID=...": f"ID={ACCESS_KEY}", "KEY=...": f"KEY={SECRET_KEY}"}

    project.run("docs/howto/restore-elsewhere.md", 1, {**named, **other})
    started = project.run("docs/howto/restore-elsewhere.md", 3, {**named, **keys})

    assert kept.running in started


def test_the_checkpoints_of_a_job_are_listed(project: Console, kept: Kept) -> None:
    assert "Periodic" in project.run("docs/howto/poison-records.md", 2, kept.as_orders)


def test_state_is_written_into_a_table(project: Console, kept: Kept) -> None:
    project.run("docs/howto/rename-a-uid.md", 3, {**kept.as_orders, "00000053-stop": kept.last})

    assert parquet.read_table(project.folder / "totals.parquet").num_rows > 0


def test_a_savepoint_is_converted(project: Console, kept: Kept, s3: S3Server) -> None:
    project.run("docs/howto/rescale.md", 6, {**kept.as_orders, "00000053-stop": kept.last})

    assert list((s3.objects / kept.bucket / "converted" / "orders").rglob("*.parquet"))


def test_new_code_is_compared_with_the_state(project: Console, kept: Kept) -> None:
    bucket = {"s3://bucket/": f"s3://{kept.bucket}/"}

    assert "This job can start" in project.run("docs/howto/upgrade.md", 1, bucket)
    assert "This job can start" in project.run("docs/upgrading.md", 2, bucket)


def test_the_doctor_looks_at_a_job(project: Console, kept: Kept) -> None:
    place = {"s3://bucket/prefix": f"s3://{kept.bucket}/state", "default/words": f"shop/{JOB}"}

    assert f"s3://{kept.bucket}/state/shop/{JOB}" in project.run("docs/cli.md", 2, place)
