"""The rights of a start to repeat, or to lose, the output of a sink: `restore.repeatOutputOf` and `restore.loseOutputOf`.

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
from statefulspark.contract import config, rights
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import marker_errors

if TYPE_CHECKING:
    from statefulspark.contract.config import RestoreConfig

_Given = tuple[SinkRight, str]
"""A right and its sink, as `query/sink`."""

_BEFORE_AGAIN = {
    SinkRight.REPEAT: "make sure that no other job writes there",
    SinkRight.LOSE: "make sure that these rows may stay missing, too",
}
"""The condition under which a person may give a right once more."""


@dataclass(frozen=True, slots=True)
class SinkRights:
    """The rights of one start.

    Attributes:
        granted: The rights that count for this start, each with the key that its generation records once the sinks are open.
        spent: The rights that were used before.
    """

    granted: Mapping[_Given, str] = field(default_factory=dict)
    spent: Collection[_Given] = ()

    @classmethod
    def read(cls, restore: RestoreConfig, carried_out: Collection[str]) -> Self:
        """Return what a restore grants.

        Args:
            restore: The restore.
            carried_out: The keys of everything that was carried out in the root.
        """
        keys = {
            (right, sink): right.key(restore.word, sink) for right, sinks in restore.rights.items() for sink in sinks
        }
        granted = {given: key for given, key in keys.items() if key not in carried_out}
        return cls(granted, keys.keys() - granted.keys())

    def of(self, sink: str) -> frozenset[SinkRight]:
        """Return the rights that count for a sink."""
        return frozenset(right for right, named in self.granted if named == sink)

    def keys_of(self, sinks: Collection[str]) -> list[str]:
        """Return the keys to record once some sinks are open."""
        return [key for (_, sink), key in self.granted.items() if sink in sinks]

    def require_sinks(self, sinks: Collection[str]) -> None:
        """Refuse a right that names no sink of the job. A right that was used before says nothing, and may stay.

        Args:
            sinks: Every sink of the job, as `query/sink`.

        Raises:
            SpecRejectedError: `SinkUnknown`.
        """
        present = f"It has {', '.join(sorted(sinks))}." if sinks else "It has no sink that can be named here."
        for right in SinkRight:
            unknown = sorted(sink for granted, sink in self.granted if granted is right and sink not in sinks)
            if unknown:
                raise errors.SpecRejectedError(
                    "SinkUnknown",
                    f"restore.{right.value} names {', '.join(unknown)}, and the job does not have such a sink. {present} "
                    "Correct the name, or remove it.",
                )

    @contextlib.contextmanager
    def explaining(self, sink: str) -> Iterator[None]:
        """Add to the refusal of a sink that the right which it offers was given, and was used before."""
        try:
            yield
        except (errors.SpecRejectedError, errors.StateUnknownError) as error:
            used = [right for right in rights.offered(error.message) if (right, sink) in self.spent]
            if marker_errors.is_healed(error) or not used:
                raise
            again = rights.options({right: [sink] for right in used})
            raise _kind_of(error)(
                error.reason,
                f"{error.message} This job has used {' and '.join(right.option for right in used)} for {sink} before, and "
                f"it counts once: {'; '.join(_BEFORE_AGAIN[right] for right in used)}, then change restore.nonce to give it "
                f"again (on the command line {again} --restore-again). {config.ANOTHER_NONCE}",
            ) from error

    def refusal(self, refused: Mapping[str, errors.StatefulSparkError]) -> errors.StatefulSparkError:
        """Return the error of a start that sinks refuse, with every right that it needs beside those that it has.

        Args:
            refused: The refusal of each sink, by its name; at least one.
        """
        first, *others = refused.values()
        messages = " ".join(error.message for error in refused.values())
        offered = rights.offered(messages)
        needed = {(right, sink) for right, sinks in offered.items() for sink in sinks} | self.granted.keys()
        is_complete = all(sink in offered.get(right, ()) for right, sink in self.granted)
        # Rights are of no use where a refusal offers none, for example where a table is missing.
        is_enough = all(rights.offered(error.message) for error in refused.values())
        if not others and (is_complete or not is_enough):
            return first
        sinks_of = {right: sorted(sink for each, sink in needed if each is right) for right in SinkRight}
        with_rights = rights.described({right: sinks for right, sinks in sinks_of.items() if sinks})
        together = f" To go on with all of these sinks, start with {with_rights}." if is_enough else ""
        return _kind_of(first)(first.reason, f"{messages}{together}")


def _kind_of(error: errors.StatefulSparkError) -> type[errors.SpecRejectedError | errors.StateUnknownError]:
    """Return the plain type of a refusal."""
    return errors.SpecRejectedError if isinstance(error, errors.SpecRejectedError) else errors.StateUnknownError
