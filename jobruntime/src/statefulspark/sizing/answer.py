"""The form of the answer: figures, each with why and how certain; limits, nearest first; fields of the resource. Pure."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, JsonValue

from statefulspark.contract.base import WireModel


class Certainty(StrEnum):
    """How certain a figure is."""

    RULE = "rule"
    """Arithmetic, or what the product does."""
    MEASURED = "measured"
    """From coefficients that were measured, for a job within what was measured."""
    EXTRAPOLATED = "extrapolated"
    """The same, for a job beyond what was measured: larger, or on more cores."""
    ASSUMED = "assumed"
    """Nobody has measured it."""


class Figure(WireModel):
    """One number of the answer."""

    name: str
    """Its name, in camelCase, with its unit where it has one."""
    value: float | int
    """The number, in the unit of its name."""
    shown: str
    """The number for people."""
    why: str
    """Where it comes from, in one line."""
    certainty: Certainty
    """How certain it is."""


class Limit(WireModel):
    """What keeps the planned job from growing."""

    name: str
    """What is used up: `cores`, `memory`, `restart`, `keyGroups`, `requests`, `checkpoints`."""
    factor: float
    """How many times as many keys and rows this still holds."""
    what_then: str
    """What to do when it is reached."""


class SizeAnswer(WireModel):
    """The size of a job."""

    figures: tuple[Figure, ...]
    """All figures, in the order in which they follow from each other."""
    limits: tuple[Limit, ...] = Field(min_length=1)
    """All limits, the first that is reached first."""
    notes: tuple[str, ...] = ()
    """What was asked for and cannot be, and what the figures leave out."""
    spec: dict[str, JsonValue]
    """Fields of the `StatefulSparkJob`; image, job and storage are yours."""

    def figure(self, name: str) -> Figure:
        """Return the figure of a name."""
        return next(figure for figure in self.figures if figure.name == name)
