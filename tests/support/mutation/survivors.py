"""Survivors and their judgements: values, their file, and the comparison of what was found with what is known. Pure.

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


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test notices, and why that is right."""

    mutant: Mutant
    judgement: str


def change_of(diff: str) -> str:
    """Return what identifies a change: the changed lines of a unified diff, wherever they stand."""
    lines = [line for line in diff.splitlines() if line[:1] in ("-", "+") and not line.startswith(("---", "+++"))]
    return "\n".join(f"{line[0]} {line[1:].strip()}".rstrip() for line in lines)


def problems(found: Sequence[tuple[Mutant, Fate]], known: Sequence[Survivor]) -> tuple[str, ...]:
    """Compare what was found with what is known.

    The same change may be possible twice in a function; then it may be listed twice.

    Args:
        found: Every mutant of the modules, and its fate.
        known: The survivors that are listed for them.

    Returns:
        A sentence for each survivor that is not listed, and each listed one that was killed, is gone or is not judged.
    """
    fates = {fate: Counter(mutant for mutant, its in found if its is fate) for fate in Fate}
    listed = Counter(one.mutant for one in known)
    new = fates[Fate.SURVIVED] - listed
    over = listed - fates[Fate.SURVIVED] - fates[Fate.SLOW]
    return (
        *(_said("survives and is not listed: prove the rule with a test, or judge it", one) for one in _each(new)),
        *(_said(_ending(one, fates[Fate.KILLED]), one) for one in _each(over)),
        *(_said("is listed without a judgement", one.mutant) for one in known if not one.judgement.strip()),
    )


def updated(found: Sequence[tuple[Mutant, Fate]], known: Sequence[Survivor]) -> tuple[Survivor, ...]:
    """Return the list as it has to be: what survives, with the judgements there are, by module and function."""
    remaining = list(known)
    survivors: list[Survivor] = []
    for mutant, fate in found:
        judged = next((one for one in remaining if one.mutant == mutant), None)
        if fate is Fate.SURVIVED or (fate is Fate.SLOW and judged is not None):
            survivors.append(judged or Survivor(mutant, ""))
            remaining = [one for one in remaining if one is not judged]
    return tuple(sorted(survivors, key=lambda one: one.mutant))


def parse(text: str) -> tuple[Survivor, ...]:
    """Read a file of survivors."""
    return tuple(
        Survivor(Mutant(one["module"], one["function"], one["change"].strip()), one["judgement"])
        for one in tomllib.loads(text).get("survivor", [])
    )


def render(survivors: Iterable[Survivor]) -> str:
    """Write a file of survivors, as `parse` reads it."""
    return "\n".join(_entry(one) for one in survivors)


def _entry(one: Survivor) -> str:
    judgement = one.judgement.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'[[survivor]]\nmodule = "{one.mutant.module}"\nfunction = "{one.mutant.function}"\n'
        f"change = '''\n{one.mutant.change}\n'''\njudgement = \"{judgement}\"\n"
    )


def _each(mutants: Counter[Mutant]) -> list[Mutant]:
    return sorted(mutants.elements())


def _ending(mutant: Mutant, killed: Counter[Mutant]) -> str:
    return "is listed and was killed: delete it from the list" if killed[mutant] else "is listed and no longer exists"


def _said(what: str, mutant: Mutant) -> str:
    return f"{mutant.module}.{mutant.function} {what}:\n{mutant.change}"
