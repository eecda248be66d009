"""Empty state for operators that a job has newly: what Spark itself writes when the query runs over no rows.

The query is planned with its sources replaced by empty input, and run as a first batch in a scratch folder. That gives each
operator's metadata and schemas and an empty store per partition, in Spark's own formats, whatever kind of operator it is.
No source is opened and no sink called; functions of the user are started and get no rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from statefulspark import errors
from statefulspark.evolution import parallelism
from statefulspark.planning import probe

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import DataFrame, SparkSession

UniqueIds = Mapping[int, Sequence[Sequence[str]]]
"""By operator id, then partition, the unique ids of its state stores."""

_SETTINGS = {
    # Then a store is one archive that needs nothing else, which can be given any version.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    # As Spark itself does for every streaming query.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.cbo.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What a run over nothing left in its folder.

    Attributes:
        root: Hadoop URI of the scratch checkpoint root; files are in `state/` below it.
        ids: Unique ids of the empty stores, at version 1.
    """

    root: str
    ids: UniqueIds


def run(frame: DataFrame, mode: str, root: str, *, partitions: int, operators: Collection[int]) -> Trial:
    """Run a query over nothing.

    Args:
        frame: What the query writes.
        mode: Output mode.
        root: Hadoop URI of a folder that every executor reaches; it holds an entry `offsets/0` and nothing else, since
            Spark looks whether batch 0 was planned there.
        partitions: Number of state partitions.
        operators: Ids of the operators that are wanted; all are run.

    Raises:
        StateUnknownError: `EmptyStateFailed`: an operator left no state behind.
    """
    session = frame.sparkSession
    jvm = session._jvm
    assert jvm is not None  # noqa: S101 - a classic session always has a JVM
    # Spark makes the coordinator of state stores when somebody first asks for streams.
    coordinator = session._jsparkSession.streams().stateStoreCoordinator()
    clone = session._jsparkSession.cloneSession()
    settings = {**_SETTINGS, parallelism.SHUFFLE_PARTITIONS: str(partitions)}
    for name, value in settings.items():
        clone.conf().set(name, value)
    emptied = _without_input(jvm, frame._jdf.queryExecution().analyzed())
    incremental = probe.execution(session, emptied, mode, f"{root}/state", partitions=partitions, engine=clone)
    try:
        with _settings_in_tasks(session, settings):
            incremental.toRdd().count()
        found = {operator: ids for operator, ids in _ids(incremental.executedPlan()) if operator in operators}
    finally:
        coordinator.deactivateInstances(incremental.runId())
    missing = sorted(set(operators) - {number for number, ids in found.items() if len(ids) == partitions})
    if missing:
        raise errors.StateUnknownError(
            "EmptyStateFailed",
            f"Spark wrote no empty state for the operators {missing} in {root}; nothing was started. Run the job with "
            "fresh state, or leave the new operators out.",
        )
    return Trial(root, found)


@contextlib.contextmanager
def _settings_in_tasks(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Hand the session's settings to tasks, as a batch does; operators look at them there too."""
    context = session.sparkContext
    everything = {**session.conf.getAll, **settings}
    handed = {name: value for name, value in everything.items() if name.startswith("spark.sql.")}
    for name, value in handed.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name in handed:
            context._jsc.setLocalProperty(name, None)


def _without_input(jvm: JVMView, node: JavaObject) -> JavaObject:
    """Return a logical plan with every stream replaced by one without rows."""
    if str(node.getClass().getSimpleName()) in probe.RELATIONS:
        local = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation
        is_streaming = True
        return cast(
            "JavaObject", local(node.output(), jvm.PythonUtils.toSeq([]), is_streaming, jvm.scala.Option.empty())
        )
    children = [node.children().apply(index) for index in range(node.children().size())]
    emptied = [_without_input(jvm, child) for child in children]
    if all(new is old for new, old in zip(emptied, children, strict=True)):
        return node
    return cast("JavaObject", node.withNewChildren(jvm.PythonUtils.toSeq(emptied)))


def _ids(plan: JavaObject) -> list[tuple[int, tuple[tuple[str, ...], ...]]]:
    found = []
    for node in probe.nodes(plan):
        if str(node.getClass().getSimpleName()) not in probe.STATEFUL:
            continue
        stores = sorted(
            (int(one.partitionId()), tuple(str(unique) for unique in one.stateStoreCkptId().get()))
            for one in node.getStateStoreCheckpointInfo()
        )
        found.append((int(node.stateInfo().get().operatorId()), tuple(ids for _, ids in stores)))
    return found
