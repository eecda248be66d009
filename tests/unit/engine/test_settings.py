"""The settings of a session: which of them a job may change."""

from __future__ import annotations

import pytest
from statefulspark.contract import config
from statefulspark.engine import settings
from statefulspark.storage import StorageOptions

STREAM = "spark.hadoop.fs.s3a.input.stream.type"


@pytest.mark.parametrize(
    ("conf", "stream"),
    [
        pytest.param({}, "classic", id="files are read without threads that read ahead"),
        pytest.param({STREAM: "analytics"}, "analytics", id="unless the job says otherwise"),
    ],
)
def test_how_s3_is_read(conf: dict[str, str], stream: str) -> None:
    engine = config.EngineConfig(conf=conf)
    job = config.JobConfig(name="words", storage=config.StorageConfig(uri="s3://bucket"), engine=engine)

    assert settings.spark_conf(job, StorageOptions())[STREAM] == stream
