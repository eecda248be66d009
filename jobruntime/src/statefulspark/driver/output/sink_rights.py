"""The rights `restore.repeatOutputOf`: the sinks that a start writes to although output may then be repeated, or kept.

Each right is of one sink, and counts once: a start that has opened its sinks with it remembers it on storage. Two jobs in
front of one sink may both have it left in their manifests. Each restart would take the sink back then, and write rows again;
so the job that has lost the sink is refused by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from statefulspark import errors
from statefulspark.contract import config
from statefulspark.sinks import marker

if TYPE_CHECKING:
    from statefulspark.contract.config import RestoreConfig

_REPEATING = frozenset({"SinkAhead", "SinkTaken", "SinkOfAnotherJob", "SinkOpenedElsewhere"})
"""Refusals of what would repeat output; the others are of what is lost."""


@dataclass(frozen=True, slots=True)
class SinkRights:
    """The rights of one start.

    Attributes:
        granted: The sinks whose right counts for this start, as `query/sink`, each with the key that its generation records
            once the sinks are open.
        spent: The sinks whose right was used before.
    """

    granted: Mapping[str, str] = field(default_factory=dict)
    spent: Collection[str] = ()

    @classmethod
    def read(cls, restore: RestoreConfig, carried_out: Collection[str]) -> Self:
        """Return what a restore grants.

        Args:
            restore: The restore.
            carried_out: The keys of everything that was carried out in the root.
        """
        keys = {sink: restore.repeat_key(sink) for sink in restore.repeat_output_of}
        granted = {sink: key for sink, key in keys.items() if key not in carried_out}
        return cls(granted, keys.keys() - granted.keys())

    def require_sinks(self, sinks: Collection[str]) -> None:
        """Refuse a right that names no sink of the job. A right that was used before says nothing, and may stay.

        Args:
            sinks: Every sink of the job, as `query/sink`.

        Raises:
            SpecRejectedError: `SinkUnknown`.
        """
        unknown = sorted(self.granted.keys() - set(sinks))
        if unknown:
            present = f"It has {', '.join(sorted(sinks))}." if sinks else "It has no sink that can be named here."
            raise errors.SpecRejectedError(
                "SinkUnknown",
                f"restore.repeatOutputOf names {', '.join(unknown)}, and the job does not have such a sink. {present} "
                "Correct the name, or remove it.",
            )

    @contextlib.contextmanager
    def explaining(self, sink: str) -> Iterator[None]:
        """Add to the refusal of a sink that its right was given, and was used before."""
        try:
            yield
        except errors.SpecRejectedError as error:
            if error.reason not in _REPEATING or sink not in self.spent:
                raise
            raise errors.SpecRejectedError(
                error.reason,
                f"{error.message} This job has used its right for {sink} before, and it counts once: make sure that no "
                f"other job writes there, then change restore.nonce to give it again (on the command line "
                f"{marker.option([sink])} --restore-again). {config.ANOTHER_NONCE}",
            ) from error

    def refusal(self, refused: Mapping[str, errors.StatefulSparkError]) -> errors.StatefulSparkError:
        """Return the error of a start that sinks refuse, with every right that it needs beside those that it has.

        Args:
            refused: The refusal of each sink, by its name; at least one.
        """
        first = next(iter(refused.values()))
        needed = sorted({*self.granted, *refused})
        if len(needed) == 1:
            return first
        kind = errors.SpecRejectedError if isinstance(first, errors.SpecRejectedError) else errors.StateUnknownError
        messages = " ".join(error.message for error in refused.values())
        return kind(first.reason, f"{messages} To go on with all of these sinks, start with {marker.rights(needed)}.")
