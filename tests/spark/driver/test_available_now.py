"""A job whose queries read what is there ends by itself, with a last checkpoint that makes all rows visible."""

from __future__ import annotations

from pathlib import Path

import driverprocess
import pytest
from pyarrow import parquet
from s3server import S3Server
from statefulspark import storage
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.sinks.files import commits

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_JOB = """
import statefulspark as ss

job = ss.Job("night")


class Count(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.seen = ctx.value_state("seen", int)

    def process(self, key, rows, ctx):
        self.seen.update((self.seen.get() or 0) + len(rows))
        yield key, self.seen.get()


@job.query(uid="counts")
def counts(spark, ctx):
    rows = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(ctx.parameter("input"))
    counted = ss.keyed_process(rows, key="key", function=Count(), uid="count", schema="key string, seen int")
    sink = ss.sinks.FilesSink(ctx.parameter("output"))
    return ss.write(counted, sink=sink, uid="out", trigger=ss.AVAILABLE_NOW)


if __name__ == "__main__":
    job.run()
"""


def test_a_job_ends_after_the_input_that_was_there_and_the_next_run_goes_on(
    s3: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    job_file, given = tmp_path / "night.py", tmp_path / "input"
    job_file.write_text(_JOB)
    given.mkdir()
    output = f"s3://{s3_bucket}/output"
    flags = ("--parameter", f"input={given}", "--parameter", f"output={output}", "--checkpoint-interval", "1h")
    ended = []
    with driverprocess.running(job_file, s3, f"s3://{s3_bucket}/state", tmp_path, *flags) as driver:
        for night in (0, 1):
            for part in (0, 1):
                (given / f"{night}-{part}.json").write_text('{"key": "a"}\n')
            if night:
                driver.start()
            ended.append(driver.ends())

    store = storage.open_store(output, s3.options())
    files = [part.path for batch in commits.read_commits(store) for part in batch.files]
    seen = [row["seen"] for file in files for row in parquet.read_table(_local(store, file, tmp_path)).to_pylist()]
    assert ended == [ExitCode.SUCCESS, ExitCode.SUCCESS]
    assert sorted(seen) == [1, 2, 3, 4]


def _local(store: storage.ObjectStore, key: str, folder: Path) -> Path:
    copy = folder / Path(key).name
    copy.write_bytes(store.read(key))
    return copy
