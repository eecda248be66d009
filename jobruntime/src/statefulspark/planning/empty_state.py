"""Empty state for new operators of a job: the files that Spark writes when the query runs over no rows.

The query is planned with its sources replaced by empty input, and runs as a first batch in a scratch folder. Spark then
writes the metadata and schemas of each operator and an empty store per partition, in its own formats, for every kind of
operator. No source is opened and no sink is called; functions of the user are started and get no rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from statefulspark import errors
from statefulspark.engine import session as spark_session
from statefulspark.evolution import parallelism
from statefulspark.planning import probe
from statefulspark.sparkinternals import batchplan

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql import DataFrame, SparkSession

UniqueIds = Mapping[int, Sequence[Sequence[str]]]
"""By operator id, then partition, the unique ids of its state stores."""

_SETTINGS = {
    # Without changelogs a store is one self-contained archive, which can get any version.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    # As Spark itself does for every streaming query.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.cbo.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class EmptyState:
    """The empty state that a run over no rows wrote to its folder.

    Attributes:
        root: Hadoop URI of the scratch checkpoint root; files are in `state/` below it.
        ids: Unique ids of the empty stores, at version 1.
    """

    root: str
    ids: UniqueIds


def run(frame: DataFrame, mode: str, root: str, *, partitions: int, operators: Collection[int]) -> EmptyState:
    """Run a query over no rows.

    Args:
        frame: The DataFrame that the query writes.
        mode: Output mode.
        root: Hadoop URI of a folder that every executor can access; it holds only the entry `offsets/0`, because Spark
            checks there whether batch 0 was planned.
        partitions: Number of state partitions.
        operators: Ids of the operators whose state is returned; all operators run.

    Raises:
        StateUnknownError: `EmptyStateFailed`: Spark wrote no state for an operator.
    """
    session = frame.sparkSession
    jvm = spark_session.jvm_view(session)
    # Spark creates the coordinator of state stores at the first access to streams.
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
        batchplan.write_metadata(incremental)
        ids_by_operator = {operator: ids for operator, ids in _ids(incremental.executedPlan()) if operator in operators}
    finally:
        coordinator.deactivateInstances(incremental.runId())
    # An operator with one group of all rows has one partition.
    missing = sorted(
        set(operators) - {number for number, ids in ids_by_operator.items() if len(ids) in (1, partitions)}
    )
    if missing:
        raise errors.StateUnknownError(
            "EmptyStateFailed",
            f"Spark wrote no empty state for the operators {missing} in {root}; nothing was started. Run the job with "
            "fresh state, or leave the new operators out.",
        )
    return EmptyState(root, ids_by_operator)


@contextlib.contextmanager
def _settings_in_tasks(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Pass the session's settings to tasks, as a batch does; operators read them in tasks, too."""
    context = session.sparkContext
    everything = {**session.conf.getAll, **settings}
    task_settings = {name: value for name, value in everything.items() if name.startswith("spark.sql.")}
    for name, value in task_settings.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name in task_settings:
            context._jsc.setLocalProperty(name, None)


def _without_input(jvm: JVMView, node: JavaObject) -> JavaObject:
    """Return a logical plan with every stream replaced by a stream without rows."""
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
    ids_by_operator = []
    for node in probe.nodes(plan):
        if str(node.getClass().getSimpleName()) not in probe.STATEFUL:
            continue
        stores = sorted(
            (int(store.partitionId()), tuple(str(unique) for unique in store.stateStoreCkptId().get()))
            for store in node.getStateStoreCheckpointInfo()
        )
        ids_by_operator.append((int(node.stateInfo().get().operatorId()), tuple(ids for _, ids in stores)))
    return ids_by_operator
