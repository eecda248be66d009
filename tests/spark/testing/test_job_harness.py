"""The harness of whole jobs runs the product's runtime: what it kills is lost, and what it starts again goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from statefulspark import errors
from statefulspark.testing import JobHarness, JobTestError, KillPoint

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

JOB = """
import sys

import statefulspark as ss

job = ss.Job("orders")


class Totals(ss.KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.value_state("total", int)

    def process(self, key, rows, ctx):
        for row in rows:
            if row.amount < 0:
                raise ValueError(f"{{key}} has a negative amount")
        {adding}
        yield key, total


@job.query(uid="totals")
def totals(spark, ctx):
    orders = spark.readStream.format("kafka").option("kafka.bootstrap.servers", ctx.parameter("brokers"))
    orders = orders.option("subscribe", "orders").load().selectExpr("CAST(key AS STRING) AS customer",
                                                                     "CAST(CAST(value AS STRING) AS INT) AS amount")
    totals = ss.keyed_process(orders, key="customer", function=Totals(), uid="customers",
                              schema="customer string, total bigint")
    return {outputs}


if __name__ == "__main__":
    job.run()
"""
ONE_SINK = (
    'ss.write(totals, sink=ss.sinks.KafkaSink("totals", bootstrap_servers=ctx.parameter("brokers")), uid="kafka")'
)
SOUND = "total = (self.total.get() or 0) + sum(row.amount for row in rows); self.total.update(total)"
FORGETFUL = "kept = vars(sys).setdefault('kept', {}); total = kept[key] = kept.get(key, 0) + rows[0].amount"
"""It keeps its state in the memory of the worker."""

Start = Callable[..., JobHarness]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(adding: str) -> Path:
        file = tmp_path / "job.py"
        file.write_text(JOB.format(adding=adding, outputs=ONE_SINK), encoding="utf-8")
        return file

    return written


def a_topic_record(customer: str, amount: int) -> dict[str, object]:
    return {"key": customer.encode(), "value": str(amount).encode()}


def started(job_harness: Start, file: Path) -> JobHarness:
    return job_harness(file, parameters={"brokers": "nobody:9092"})


def test_rows_are_visible_when_a_checkpoint_covers_them(job_harness: Start, write: Callable[[str], Path]) -> None:
    job = started(job_harness, write(SOUND))
    assert job.sources == ("orders",)
    job.add(a_topic_record("ada", 2), a_topic_record("bob", 5))
    job.add(a_topic_record("ada", 40))

    job.run()
    before = job.output()
    job.checkpoint()

    assert before == []
    assert sorted(job.output(), key=str) == [
        {"customer": "ada", "total": 2},
        {"customer": "ada", "total": 42},
        {"customer": "bob", "total": 5},
    ]
    assert job.state("customers", key="ada") == [{"key": "ada", "value": 42}]


def test_a_kill_at_any_moment_loses_nothing_and_shows_nothing_twice(
    job_harness: Start, write: Callable[[str], Path]
) -> None:
    job = started(job_harness, write(SOUND))
    amounts = [1, 2, 4, 8, 16]

    job.add(a_topic_record("ada", amounts[0]))
    job.run(kill="before-commit")
    job.restart()
    job.add(a_topic_record("ada", amounts[1]))
    job.run()
    job.kill()
    job.restart()
    job.add(a_topic_record("ada", amounts[2]))
    job.run()
    job.checkpoint(kill="before-checkpoint")
    job.restart()
    job.add(a_topic_record("ada", amounts[3]))
    job.run()
    job.checkpoint(kill="after-checkpoint")
    covered_and_not_committed = job.output()
    job.restart()
    job.add(a_topic_record("ada", amounts[4]))
    job.run()
    job.stop()

    assert [row["total"] for row in covered_and_not_committed] == [1, 3, 7]
    assert [row["total"] for row in job.output()] == [1, 3, 7, 15, 31]
    assert job.state("customers") == [{"key": "ada", "value": 31}]


def test_a_function_that_keeps_its_state_in_the_process_is_found_out(
    job_harness: Start, write: Callable[[str], Path]
) -> None:
    job = started(job_harness, write(FORGETFUL))
    job.add(a_topic_record("ada", 2))
    job.add(a_topic_record("ada", 3))
    job.run()
    job.checkpoint()
    # The second one is 5 or 3: Spark may give the batch to another of its workers.
    first = job.output()[0]["total"]

    job.restart()
    job.add(a_topic_record("ada", 40))
    job.run()
    job.checkpoint()

    assert first == 2
    assert job.output()[-1]["total"] == 40, "45 would be right"


def test_a_function_that_raises_ends_the_test_with_what_the_driver_says(
    job_harness: Start, write: Callable[[str], Path]
) -> None:
    job = started(job_harness, write(SOUND))
    job.add(a_topic_record("ada", 2))
    job.run()
    job.add(a_topic_record("bob", -1))

    with pytest.raises(JobTestError, match="ValueError: bob has a negative amount"):
        job.run()

    job.restart()
    with pytest.raises(JobTestError, match="bob has a negative amount"):
        job.run()


def test_a_changed_job_goes_on_with_the_state_or_is_refused(
    job_harness: Start, write: Callable[[str], Path], tmp_path: Path
) -> None:
    job = started(job_harness, write(SOUND))
    job.add(a_topic_record("ada", 2))
    job.run()
    job.stop()
    text = JOB.format(adding=SOUND, outputs=ONE_SINK)
    (tmp_path / "job_v2.py").write_text(text.replace("yield key, total", "yield key, -total"), encoding="utf-8")
    (tmp_path / "job_v3.py").write_text(text.replace('uid="customers"', 'uid="clients"'), encoding="utf-8")

    job.restart(tmp_path / "job_v2.py")
    job.add(a_topic_record("ada", 40))
    job.run()
    job.checkpoint()

    assert [row["total"] for row in job.output("totals")] == [2, -42]
    assert job.restored_from is not None
    with pytest.raises(errors.SpecRejectedError, match="customers"):
        job.restart(tmp_path / "job_v3.py")


def test_what_a_test_cannot_have_is_said_in_one_sentence(
    job_harness: Start, write: Callable[[str], Path], tmp_path: Path
) -> None:
    job = started(job_harness, write(SOUND))
    empty = tmp_path / "empty.py"
    empty.write_text("job = None\n", encoding="utf-8")

    _refuses("No source of the job is named 'payments'; it reads 'orders'", lambda: job.add({}, source="payments"))
    _refuses("has no column 'customer'; it has key, value, topic", lambda: job.add({"customer": "ada"}))
    _refuses("The rows do not fit the source 'orders'", lambda: job.add({"value": 7}))
    _refuses("The job has no query 'sums'; it has totals", lambda: job.output("sums"))
    _refuses("There is no checkpoint to read state from", lambda: job.state("customers"))
    _refuses("kill='after-lunch' is no moment of this call; use 'before-commit'", lambda: job.run(kill="after-lunch"))
    _refuses("No batch runs that could be killed", lambda: job.run(kill=KillPoint.BEFORE_COMMIT))
    _refuses("use 'before-checkpoint' or 'after-checkpoint'", lambda: job.checkpoint(kill="before-commit"))
    _refuses("Another job is running in this process", lambda: started(job_harness, write(SOUND)))
    job.kill()
    _refuses("The job does not run; start it again with `restart()`", job.run)
    _refuses("declares 0 jobs", lambda: job_harness(empty))


def test_a_sink_that_is_code_of_the_job_runs_and_a_source_that_is_does_not(job_harness: Start, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    folder.mkdir()
    parameters = {"output": str(folder), "threshold": "3"}
    job = job_harness(EXAMPLES / "operator_state/buffering_sink.py", parameters=parameters)
    job.add(*({"value": number} for number in range(7)))

    job.run()
    job.checkpoint()
    _refuses("is a function of the job", job.output)
    job.stop()

    assert any(folder.iterdir())
    _refuses(
        "reads a function of the job",
        lambda: job_harness(EXAMPLES / "operator_state/counter_source.py", parameters={"output": folder.as_uri()}),
    )


def _refuses(sentence: str, act: Callable[[], object]) -> None:
    with pytest.raises(JobTestError, match=re.escape(sentence)):
        act()


TWO_SINKS = """[
        ss.write(totals, sink=ss.sinks.FilesSink("s3://shop/totals"), uid="all"),
        ss.write(totals, sink=ss.sinks.FilesSink("s3://shop/large", visible="batch"), uid="large",
                 where={where}, columns=["total"]),
    ]"""
NOTING = 'open("{calls}", "a").write("".join(f"{{key}}{{row.amount}} " for row in rows)); '


@pytest.mark.parametrize("where", ["'total >= 10'", "totals['total'] >= 10"], ids=["as text", "as a column"])
def test_the_sinks_of_a_query_share_one_computation(job_harness: Start, tmp_path: Path, where: str) -> None:
    file, calls = tmp_path / "job.py", tmp_path / "calls"
    adding, outputs = NOTING.format(calls=calls) + SOUND, TWO_SINKS.format(where=where)
    file.write_text(JOB.format(adding=adding, outputs=outputs), encoding="utf-8")
    job = started(job_harness, file)

    job.add(a_topic_record("ada", 4), a_topic_record("bob", 20))
    job.run()
    at_once = job.output(sink="large")
    job.add(a_topic_record("ada", 6))
    job.run(kill="before-commit")
    job.restart()
    job.add(a_topic_record("ada", 7))
    job.run()
    job.checkpoint()

    assert at_once == [{"total": 20}]
    assert job.output(sink="large") == [{"total": 20}, {"total": 10}, {"total": 17}]
    assert sorted(job.output("totals", sink="all"), key=lambda row: str(row["total"])) == [
        {"customer": "ada", "total": 10},
        {"customer": "ada", "total": 17},
        {"customer": "bob", "total": 20},
        {"customer": "ada", "total": 4},
    ]
    assert sorted(calls.read_text().split()) == ["ada4", "ada6", "ada6", "ada7", "bob20"], "ada6: killed, and run again"
    with pytest.raises(JobTestError, match="it has all, large"):
        job.output()
