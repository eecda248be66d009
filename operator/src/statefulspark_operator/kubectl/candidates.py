"""The names that a shell completes: those that the API server has.

An API server that does not answer at once completes nothing, and no error is shown while a person types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from statefulspark import errors

if TYPE_CHECKING:
    from statefulspark_operator.cluster.resources import Resource
    from statefulspark_operator.kubectl.connection import Cluster

ANSWER_S = 3
"""How long a person waits for names."""


def jobs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a job."""
    from statefulspark_operator.cluster import resources

    return _names(ctx, incomplete, lambda cluster, namespace: _named(cluster.list(resources.JOB, namespace)))


def savepoints(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a SparkSavepoint."""
    from statefulspark_operator.cluster import resources

    return _names(ctx, incomplete, lambda cluster, namespace: _named(cluster.list(resources.SAVEPOINT, namespace)))


def revisions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a revision of the history of the job that is named before."""
    from statefulspark_operator.cluster import resources

    def ask(cluster: Cluster, namespace: str) -> Iterable[str]:
        # Behind an option that has no value yet, click leaves the words before it as they are.
        job = ctx.params.get("job") or next(iter(ctx.args), "")
        stored = cluster.get(resources.JOB, namespace, job) or {}
        return [resources.text(record, "revision") for record in resources.items(stored, "status", "history")]

    return _names(ctx, incomplete, ask)


def _named(stored: Iterable[Resource]) -> list[str]:
    from statefulspark_operator.cluster import resources

    return [resources.text(item, "metadata", "name") for item in stored]


def _names(ctx: click.Context, incomplete: str, ask: Callable[[Cluster, str], Iterable[str]]) -> list[str]:
    from statefulspark_operator.kubectl import connection

    try:
        cluster = connection.connect(ctx.params.get("context"), answer_s=ANSWER_S)
        names = ask(cluster, ctx.params.get("namespace") or cluster.namespace)
        return sorted(name for name in names if name.startswith(incomplete))
    except errors.StatefulSparkError:
        return []
