"""Holds wake-ups back until the watches have shown everything that existed when they began.

Until then a job's pods may be missing in the copies, and its pass would read from the API server what is on its way:
thousands of requests in the seconds after a start. kopf has a gate of its own, its indices, in which each object that
arrives wakes all that have arrived before: with 200 jobs and their pods that took half a minute. Nothing but cost depends
on this one, so it may open early.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from statefulspark_operator.cluster.gateway import JobKey

LONGEST_S = 10.0
"""What has not been shown by then was deleted before the watches began, or comes too late to be waited for."""


class Arrivals:
    """The way from the watches to the passes, closed until what is awaited has arrived."""

    def __init__(self, wake: Callable[[JobKey], None], awaited: Collection[str] = ()) -> None:
        """Close the way, or leave it open if nothing is awaited.

        Args:
            wake: Requests a pass of a job.
            awaited: Identities of the objects that the watches will show.
        """
        self._wake, self._awaited = wake, set(awaited)
        self._held: dict[JobKey, None] = {}

    def wake(self, key: JobKey) -> None:
        """Wake a job, now or when the way opens."""
        if self._awaited:
            self._held[key] = None
        else:
            self._wake(key)

    def shown(self, uid: str) -> None:
        """Note that an object has arrived."""
        if uid in self._awaited:
            self._awaited.remove(uid)
            if not self._awaited:
                self.open()

    def open(self) -> None:
        """Wait for nothing any more, and wake whoever was held back."""
        self._awaited.clear()
        held, self._held = self._held, {}
        for key in held:
            self._wake(key)
