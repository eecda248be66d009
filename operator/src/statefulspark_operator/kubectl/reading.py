"""Reads a job and what is around it; a part that may not be read is named and left out, so that the rest is shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from statefulspark import errors

from statefulspark_operator.api import names
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource
from statefulspark_operator.kubectl import refusals, view
from statefulspark_operator.kubectl.connection import Cluster
from statefulspark_operator.kubectl.view import Surroundings, View


def chosen(cluster: Cluster, namespace: str, name: str | None) -> str:
    """Return the name of the job that is meant: the only one of the namespace, if none is named.

    Raises:
        SpecRejectedError: `JobNotFound`, or `NameMissing`: there are several.
    """
    if name is not None:
        return name
    present = _names(cluster, namespace)
    if len(present) != 1:
        raise refusals.which_job(namespace, present)
    return present[0]


def job(cluster: Cluster, namespace: str, name: str, now: Callable[[], datetime]) -> View:
    """Read a job with its pods.

    Raises:
        SpecRejectedError: `JobNotFound`; the message lists what exists.
    """
    return _read(cluster, namespace, name, now, is_with_events=False)


def job_with_events(cluster: Cluster, namespace: str, name: str, now: Callable[[], datetime]) -> View:
    """Read a job with its pods, and the events about it and about pods that run or start."""
    return _read(cluster, namespace, name, now, is_with_events=True)


def _read(cluster: Cluster, namespace: str, name: str, now: Callable[[], datetime], *, is_with_events: bool) -> View:
    stored_job = cluster.get(resources.JOB, namespace, name)
    if stored_job is None:
        present = _names(cluster, namespace)
        everywhere = () if present else _permitted([], lambda: cluster.list(resources.JOB, None))
        metadata = [resources.section(other, "metadata") for other in everywhere]
        elsewhere = [f"{resources.text(item, 'namespace')}/{resources.text(item, 'name')}" for item in metadata]
        raise refusals.no_such_job(namespace, name, present, elsewhere)
    unread: list[str] = []
    stored = _permitted(unread, lambda: cluster.list(resources.POD, namespace, labels=names.pod_selector(name)))
    events: tuple[Resource, ...] = ()
    for about in (name, *view.pods_with_events(stored, now=now())) if is_with_events else ():
        named = f"involvedObject.name={about}"
        events += _permitted(unread, partial(cluster.list, resources.EVENT, namespace, fields=named))
    # A job and a pod of the same name may have been there before.
    uids = {"", *(resources.text(item, "metadata", "uid") for item in (stored_job, *stored))}
    events = tuple(event for event in events if resources.text(event, "involvedObject", "uid") in uids)
    around = Surroundings(pods=stored, events=events, unread=tuple(dict.fromkeys(unread)))
    return view.read(stored_job, around, now=now())


def _permitted(unread: list[str], read: Callable[[], tuple[Resource, ...]]) -> tuple[Resource, ...]:
    """Read a part of the surroundings; without the right for it, note that."""
    try:
        return read()
    except errors.SpecRejectedError as error:
        unread.append(error.message)
        return ()


def _names(cluster: Cluster, namespace: str) -> list[str]:
    return [resources.text(listed, "metadata", "name") for listed in cluster.list(resources.JOB, namespace)]
