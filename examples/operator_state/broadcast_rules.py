"""Broadcast state: rules that every subtask holds decide which numbers pass.

    statefulspark run examples/operator_state/broadcast_rules.py --dev --parameter output=/tmp/rules/out

Two streams go into one: numbers, dealt to the subtasks, and rules, which every subtask is given. The rules are broadcast
state, so they are there after a restart, also in subtasks that were not there before.
"""

from __future__ import annotations

from pathlib import Path

import statefulspark as ss
from pyspark.sql import Row, SparkSession

job = ss.Job("rules")


class RuleFilter(ss.driver.BroadcastSinkFunction[Row], ss.driver.CheckpointedFunction):
    """Appends the numbers that some rule divides to a file per subtask and rule."""

    def __init__(self, folder: str) -> None:
        """Write below a folder of this machine."""
        self.folder = folder

    def initialize_state(self, context: ss.driver.FunctionInitializationContext) -> None:
        """Declare the map of rules: divisor to the name of its file."""
        self.subtask = context.subtask_index
        self.rules = context.operator_state_store.broadcast_state("rules", int, str)

    def invoke_broadcast(self, value: Row) -> None:
        """Take a rule; every subtask does the same with it, so the copies stay equal."""
        self.rules.put(value.n, f"divisible-by-{value.n}")

    def invoke(self, value: Row) -> None:
        """Write a number for every rule that it meets."""
        for divisor, name in self.rules.items():
            if value.n % divisor == 0:
                with Path(self.folder, f"{name}.subtask-{self.subtask}.txt").open("a") as target:
                    target.write(f"{value.n}\n")

    def snapshot_state(self, context: ss.driver.FunctionSnapshotContext) -> None:
        """Nothing to do: the state itself is what the function works on."""


@job.query(uid="filter")
def numbers_by_rule(spark: SparkSession, ctx: ss.QueryContext) -> ss.Output:
    """Numbers from one rate source; a new rule every ten seconds from another."""
    folder = Path(ctx.parameter("output"))
    folder.mkdir(parents=True, exist_ok=True)
    fast = spark.readStream.format("rate").option("rowsPerSecond", "20").load()
    slow = spark.readStream.format("rate").option("rowsPerSecond", "1").load()
    numbers = fast.selectExpr("'number' AS kind", "value AS n")
    rules = slow.where("value % 10 = 0").selectExpr("'rule' AS kind", "value DIV 10 + 2 AS n")
    sink = ss.sinks.DriverSink(RuleFilter(str(folder)), parallelism=2, broadcast="kind = 'rule'")
    return ss.write(numbers.unionByName(rules), sink=sink, uid="rules", trigger="1s")


if __name__ == "__main__":
    job.run()
