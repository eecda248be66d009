"""A start from a canonical savepoint, in terms of any other: shells are planned and copied, then state is filled in."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from statefulspark.contract.manifest import QueryEntry
from statefulspark.snapshot import plans, transfer
from statefulspark.snapshot.canonical import shells
from statefulspark.spark.canonical import filling
from statefulspark.state import keygroups
from statefulspark.storage.port import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statefulspark.snapshot.evolution import Evolution
    from statefulspark.snapshot.plan import StartPlan
    from statefulspark.snapshot.plans import PlannedQuery
    from statefulspark.storage import StorageOptions

_log = logging.getLogger(__name__)

Finisher = Callable[[int, tuple[QueryEntry, ...]], tuple[QueryEntry, ...]]


def with_shells(plan: StartPlan) -> StartPlan:
    """Return the plan with the shells of a canonical savepoint in place of its queries; any other plan as it is."""
    if plan.source is None or not shells.is_canonical(plan.source.manifest):
        return plan
    return replace(plan, queries=tuple(shells.shell(query) for query in plan.queries))


def key_groups(plan: StartPlan, query_uid: str) -> dict[str, int]:
    """Return how many key groups the restored operators of a query have, by uid.

    A job that leaves the number out keeps it. The shells of a canonical savepoint have none, since any may be chosen; its
    manifest tells what it was. What was written before manifests told the number has the default of then.
    """
    restored = [query for query in plan.queries if query.uid == query_uid]
    if plan.source is not None and plan.source.manifest is not None and shells.is_canonical(plan.source.manifest):
        restored = [query for query in plan.source.manifest.queries if query.uid == query_uid]
    known = plans.key_groups(restored)
    return {uid: groups or keygroups.DEFAULT_MAX_PARALLELISM for uid, groups in known.items()}


def without_partitions(changes: Mapping[str, Evolution], plan: StartPlan) -> dict[str, Evolution]:
    """Return what is left for others to do: state of a canonical savepoint is written for the wanted partitions at once."""
    if plan.source is None or not shells.is_canonical(plan.source.manifest):
        return dict(changes)
    return {uid: replace(change, partitions=None) for uid, change in changes.items()}


@dataclass(frozen=True, slots=True)
class Filler:
    """Fills the generation of a start; does nothing for a plan that is not canonical.

    Attributes:
        session: The job's session.
        store: The job's root.
        options: How workers reach storage.
        plan: The plan of the start.
        planned: Every query of the job.
        changes: What becomes of restored queries, by uid.
    """

    session: SparkSession
    store: ObjectStore
    options: StorageOptions
    plan: StartPlan
    planned: tuple[PlannedQuery, ...]
    changes: Mapping[str, Evolution]

    def then(self, finish: Finisher) -> Finisher:
        """Return what fills in the state, then does the rest."""
        source = self.plan.source
        if source is None or source.manifest is None or not shells.is_canonical(source.manifest):
            return finish
        how = filling.Filling(
            store=self.store,
            hadoop_root=transfer.hadoop_uri(self.store.uri),
            source=source.place,
            originals=source.manifest.queries,
            options=self.options,
            operators={uid: change.operators for uid, change in self.changes.items()},
            partitions={one.uid: one.partitions for one in self.planned if one.partitions},
            key_groups={
                one.uid: {
                    operator.uid: operator.max_parallelism
                    for operator in one.operators
                    if operator.uid is not None and operator.max_parallelism is not None
                }
                for one in self.planned
            },
        )

        def fill_then_finish(generation: int, queries: tuple[QueryEntry, ...]) -> tuple[QueryEntry, ...]:
            began_s = time.monotonic()
            filled = filling.fill(self.session, how, queries)
            _log.info("canonical state filled in", extra={"seconds": round(time.monotonic() - began_s, 2)})
            return finish(generation, filled)

        return fill_then_finish
