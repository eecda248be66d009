"""State without a place in the job: its owner names by uid what may be dropped, and everything else is refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from statefulspark import errors


class LostState(NamedTuple):
    """Something that a snapshot has state of, and the job does not have.

    Attributes:
        uid: The uid, the identifier or the name that permits to drop it.
        name: What errors call it.
    """

    uid: str
    name: str


def require_permission(lost: Iterable[LostState], drop_state: Collection[str], *, holds: str, remedy: str) -> None:
    """Refuse to drop state whose uid nobody has named (Flink A.167).

    Args:
        lost: What has no place in the job.
        drop_state: The uids of state that may be dropped.
        holds: The beginning of the message, for example `checkpoint 41 holds state of`.
        remedy: How to keep the state.

    Raises:
        SpecRejectedError: `NonRestoredState`: names everything that nobody has named, and what to do.
    """
    refused = [part for part in lost if part.uid not in drop_state]
    if refused:
        uids = ", ".join(dict.fromkeys(repr(part.uid) for part in refused))
        raise errors.SpecRejectedError(
            "NonRestoredState",
            f"{holds} {', '.join(part.name for part in refused)}, which the job does not have. {remedy}, or add {uids} to "
            "restore.dropState to start without that state; it stays in the snapshot.",
        )
