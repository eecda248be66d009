"""May it be deleted? One table for every path that deletes on storage: whose it is, and who asks. Pure.

`owners` finds out whose something is. Every path asks here, and has no rule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from statefulspark import errors


class Whose(StrEnum):
    """Whose state, or savepoint, something on storage is."""

    OWN = "Own"
    """Its document names who asks."""
    ANOTHERS = "Anothers"
    """Its document names somebody else."""
    NOBODYS = "Nobodys"
    """There are files, and no document that names an owner."""
    UNREADABLE = "Unreadable"
    """The document cannot be read."""


class Deletion(StrEnum):
    """A path that deletes."""

    JOB = "Job"
    """The folder of a job that is deleted with `deletionPolicy: Delete`."""
    SAVEPOINT = "Savepoint"
    """The files of a savepoint whose object is deleted with `disposal: Dispose`."""
    PRUNE = "Prune"
    """What no snapshot needs, in the folder of a job without a driver, and code that no revision needs."""
    COMMAND = "Command"
    """`statefulspark savepoint dispose`: a person has named the folder."""


_MAY_DELETE = frozenset(
    {
        (Whose.OWN, Deletion.JOB),
        (Whose.OWN, Deletion.SAVEPOINT),
        (Whose.OWN, Deletion.PRUNE),
        (Whose.OWN, Deletion.COMMAND),
        # What an earlier disposal has left when it died.
        (Whose.NOBODYS, Deletion.COMMAND),
    }
)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose something is.

    Attributes:
        whose: In one word.
        owner: The name of the other owner; empty if there is none.
    """

    whose: Whose
    owner: str = ""

    @property
    def sentence(self) -> str:
        """Whose it is, in a sentence."""
        match self.whose:
            case Whose.OWN:
                return "It belongs to the job that asks."
            case Whose.ANOTHERS:
                return f"It belongs to {self.owner}."
            case Whose.NOBODYS:
                return "It has files, and no document that tells whose they are."
            case Whose.UNREADABLE:
                return "The document that tells whose it is cannot be read."


def may_delete(whose: Whose, deletion: Deletion) -> bool:
    """Tell whether a path may delete what belongs to somebody."""
    return (whose, deletion) in _MAY_DELETE


def require(standing: Ownership, deletion: Deletion, location: str) -> None:
    """Refuse a deletion that the table does not allow.

    Args:
        standing: Whose it is.
        deletion: Who asks.
        location: What is to be deleted, for the message.

    Raises:
        SpecRejectedError: `StateKept`: nothing was deleted.
    """
    if not may_delete(standing.whose, deletion):
        raise errors.SpecRejectedError(
            "StateKept",
            f"{location} stays as it is. {standing.sentence} Nothing was deleted; to remove it, delete it by hand.",
        )
