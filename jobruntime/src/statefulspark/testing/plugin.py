"""The pytest plugin: fixtures for tests of jobs. It is found by its entry point where the package is installed.

Spark is imported and started by the first test that asks for it, and this module imports nothing of ours before that: it is
read in every run of pytest in an environment that has the package, also in those that test something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from statefulspark.declaration import OutputMode
    from statefulspark.job import Job
    from statefulspark.testing.jobs import JobHarness
    from statefulspark.testing.keyed import KeyedHarness
    from statefulspark.testing.queries import QueryHarness


@pytest.fixture
def keyed_harness() -> type[KeyedHarness]:
    """`statefulspark.testing.KeyedHarness`: a keyed function with its state, without Spark."""
    from statefulspark.testing import keyed

    return keyed.KeyedHarness


@pytest.fixture(scope="session")
def spark_session() -> SparkSession:
    """The Spark session of all tests, with the runtime's settings, on two threads."""
    from statefulspark.testing import sessions

    return sessions.shared()


@pytest.fixture
def job_harness(
    spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., JobHarness]]:
    """Start jobs for a test: `job_harness("job.py", parameters={...})` returns a `statefulspark.testing.JobHarness`."""
    from statefulspark.testing import jobs

    started: list[JobHarness] = []

    def start(job: str | Path | Job, *, parameters: Mapping[str, str] | None = None) -> JobHarness:
        folder = tmp_path_factory.mktemp("job")
        harness = jobs.JobHarness(job, spark=spark_session, folder=folder, parameters=parameters)
        started.append(harness)
        return harness

    yield start
    for harness in started:
        harness.close()


@pytest.fixture
def query_harness(
    spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., QueryHarness]]:
    """Start queries for a test: `query_harness(function, "column type")` returns a `statefulspark.testing.QueryHarness`."""
    from statefulspark.testing import queries

    started: list[QueryHarness] = []

    def start(function: Callable[..., DataFrame], *schemas: str, output_mode: OutputMode = "append") -> QueryHarness:
        folder = tmp_path_factory.mktemp("query")
        harness = queries.QueryHarness(function, *schemas, spark=spark_session, folder=folder, output_mode=output_mode)
        started.append(harness)
        return harness

    yield start
    for harness in started:
        harness.close()
