"""Spark's plan of a batch, `IncrementalExecution`, which plans a query without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from statefulspark.sparkinternals import releases

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView

_STREAMING = "org.apache.spark.sql.execution.streaming"
_FIRST_DEFAULT = 12
"""The position of the first argument that has a default, which is also a number in the name of the default."""


def plan_batch(
    jvm: JVMView, engine: JavaObject, analyzed: JavaObject, mode: JavaObject, state_root: str, *, partitions: int | None
) -> JavaObject:
    """Return Spark's plan of a batch.

    Args:
        jvm: The JVM.
        engine: The JVM's session that plans and runs the batch.
        analyzed: The analyzed logical plan.
        mode: The JVM's output mode.
        state_root: Hadoop URI of the folder `state`.
        partitions: Number of state partitions for the first batch of a new query; None plans a later batch, for which
            Spark reads no file.
    """
    runtime = getattr(jvm, f"{_STREAMING}.runtime.IncrementalExecution")
    module = getattr(jvm, f"{_STREAMING}.checkpointing.OffsetSeqMetadata$")
    conf = {} if partitions is None else {"spark.sql.shuffle.partitions": str(partitions)}
    metadata = getattr(module, "MODULE$").apply(0, 0, jvm.PythonUtils.toScalaMap(conf))
    return cast(
        "JavaObject",
        runtime(
            engine,
            analyzed,
            mode,
            state_root,
            jvm.java.util.UUID.randomUUID(),
            jvm.java.util.UUID.randomUUID(),
            0,
            jvm.scala.Option.empty(),
            metadata,
            getattr(jvm, f"{_STREAMING}.runtime.WatermarkPropagator").noop(),
            partitions is not None,
            *(
                getattr(runtime, f"$lessinit$greater$default${number}")()
                for number in range(_FIRST_DEFAULT, _last_argument() + 1)
            ),
        ),
    )


def _last_argument() -> int:
    """4.3 also takes whether the query runs in real-time mode (SPARK-57228)."""
    return 16 if releases.installed() >= (4, 3) else 15


def write_metadata(plan: JavaObject) -> None:
    """Write the metadata of a plan's stateful operators, which has been planned with `partitions`.

    Until 4.2 planning has written it. 4.3 keeps it, and its micro-batches write it when their offsets are written.
    """
    if releases.installed() >= (4, 3):
        plan.writeRecordedStateMetadata()
