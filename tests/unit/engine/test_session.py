"""A session that was begun early: whoever builds it later waits for it, and gets what it raised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from statefulspark import errors
from statefulspark.contract import config
from statefulspark.engine import session
from statefulspark.storage import StorageOptions

pytestmark = pytest.mark.slow

_JOB = """\
import sys
import statefulspark as ss

class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == "statefulspark.driver.starting.start":
            print(open({pipe!r}).read(), flush=True)

sys.meta_path.insert(0, Waiting())
job = ss.Job("words")

@job.query(uid="words")
def words(spark, ctx):
    raise AssertionError("there is no session")

job.run()
"""


def _config(storage: Path, **conf: str) -> config.JobConfig:
    place = config.StorageConfig(uri=storage.as_uri(), allow_local_files=True)
    return config.JobConfig(name="words", storage=place, engine=config.EngineConfig(conf=conf))


def test_what_an_early_start_raised_is_raised_by_the_build_that_waits_for_it(tmp_path: Path) -> None:
    refused = {"spark.sql.streaming.minBatchesToRetain": "1"}
    session.begin(_config(tmp_path, **refused), StorageOptions())

    with pytest.raises(errors.SpecRejectedError, match="minBatchesToRetain"):
        session.build(_config(tmp_path), StorageOptions())


def test_a_start_that_was_waited_for_is_not_waited_for_again(tmp_path: Path) -> None:
    session.begin(_config(tmp_path, **{"spark.sql.streaming.minBatchesToRetain": "1"}), StorageOptions())
    with pytest.raises(errors.SpecRejectedError, match="minBatchesToRetain"):
        session.build(_config(tmp_path), StorageOptions())

    with pytest.raises(errors.SpecRejectedError, match="checkpointFileManagerClass"):
        session.build(_config(tmp_path, **{"spark.sql.streaming.checkpointFileManagerClass": "mine"}), StorageOptions())


class Asked:
    """A configuration whose engine is asked for, waited for, and refused."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    @property
    def engine(self) -> config.EngineConfig:
        self.began.set()
        assert self.may_end.wait(20)
        raise errors.SpecRejectedError("EngineSettingRefused", "It is refused.")

    def build(self) -> None:
        with pytest.raises(errors.SpecRejectedError, match="It is refused"):
            session.build(cast("config.JobConfig", self), StorageOptions())


def test_a_run_that_is_repeated_at_once_waits_for_the_session_of_the_one_before() -> None:
    """In a notebook, `job.run()` again within seconds: two threads waited for one JVM, and the second ended it."""
    first, second = Asked(), Asked()
    with ThreadPoolExecutor() as threads:
        building = [threads.submit(first.build)]
        assert first.began.wait(20)
        building.append(threads.submit(second.build))
        was_early = second.began.wait(0.2)
        second.may_end.set()
        first.may_end.set()
        for one in building:
            one.result(20)

    assert (was_early, second.began.is_set()) == (False, True)


def test_spark_is_on_its_way_before_the_driver_is_imported(tmp_path: Path) -> None:
    """The job's process reads from a pipe when it imports the driver, and only Java writes to it."""
    pipe, java, file = tmp_path / "pipe", tmp_path / "bin" / "java", tmp_path / "job.py"
    os.mkfifo(pipe)
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho java was started > {pipe}\nexit 3\n")
    java.chmod(0o755)
    file.write_text(_JOB.format(pipe=str(pipe)))
    document = tmp_path / "config.json"
    document.write_text(_config(tmp_path / "state").model_dump_json(by_alias=True))
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), config.ENV_CONFIG: str(document)}

    ended = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert "java was started" in ended.stdout, ended.stderr
    assert "JvmNotStarted" in ended.stderr
