"""Survivors that are equivalent: their file, and the comparison of what was found with what is listed. Pure.

A mutant is identified by its module, its function and the text that changes, so that a survivor stays known when lines move
and when other mutants of its function come and go.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What the tests made of a mutant."""

    KILLED = "killed"
    """A test failed."""
    SURVIVED = "survived"
    """Every test passed, or none runs the function."""
    SLOW = "slow"
    """The tests did not end in time. The change may be an endless loop, or the machine busy: it proves nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One small change.

    Attributes:
        module: Dotted.
        function: Its name, after its class for a method.
        change: The lines that go, each after `- `, and those that come, each after `+ `; without indentation.
    """

    module: str
    function: str
    change: str


def change_of(diff: str) -> str:
    """Return what identifies a change: the changed lines of a unified diff, wherever they stand."""
    lines = [line for line in diff.splitlines() if line[:1] in ("-", "+") and not line.startswith(("---", "+++"))]
    return "\n".join(f"{line[0]} {line[1:].strip()}".rstrip() for line in lines)


def problems(found: Sequence[tuple[Mutant, Fate]], listed: Sequence[Mutant]) -> tuple[str, ...]:
    """Compare what was found with the list.

    The same change may be possible twice in a function; then it may be listed twice.

    Args:
        found: Every mutant of the modules, and its fate.
        listed: The survivors that change nothing which a user can notice.

    Returns:
        A sentence for each survivor that is not listed, and each listed one that was killed or is gone.
    """
    fates = {fate: Counter(mutant for mutant, its in found if its is fate) for fate in Fate}
    new = fates[Fate.SURVIVED] - Counter(listed)
    over = Counter(listed) - fates[Fate.SURVIVED] - fates[Fate.SLOW]
    killed = over & fates[Fate.KILLED]
    sentences = {
        "survives and is not listed: prove the rule with a test, or list it": new,
        "is listed and was killed: delete it from the list": killed,
        "is listed and no longer exists": over - killed,
    }
    return tuple(
        f"{mutant.module}.{mutant.function} {sentence}:\n{mutant.change}"
        for sentence, mutants in sentences.items()
        for mutant in sorted(mutants.elements())
    )


def parse(text: str) -> tuple[Mutant, ...]:
    """Read a list."""
    return tuple(
        Mutant(one["module"], one["function"], one["change"].strip()) for one in tomllib.loads(text).get("survivor", [])
    )


def render(found: Iterable[tuple[Mutant, Fate]], listed: Sequence[Mutant]) -> str:
    """Write the list as it has to be, as `parse` reads it: every survivor, and what was listed and is slow now."""
    survivors = [mutant for mutant, fate in found if fate is Fate.SURVIVED or (fate is Fate.SLOW and mutant in listed)]
    return "\n".join(
        f"[[survivor]]\nmodule = \"{one.module}\"\nfunction = \"{one.function}\"\nchange = '''\n{one.change}\n'''\n"
        for one in sorted(survivors)
    )
