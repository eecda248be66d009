"""The moments of a start, as a driver logs them, and the processor time up to each."""

from __future__ import annotations

from dataclasses import dataclass

from bench.processor_time import Role

CHECKPOINT = "first checkpoint"
LOGGED = {
    "the JVM answers": "JVM up",
    "spark is up": "session up",
    "epoch claimed": "epoch claimed",
    "state found": "state found",
    "queries planned": "queries planned",
    "queries started": "queries started",
    "snapshot completed": CHECKPOINT,
}
"""What a driver logs, and the moment that it stands for."""
BATCH_PLANNED, BATCH_COMMITTED = "first batch planned", "first batch committed"
ALL_COMMITTED, VISIBLE, ALL_VISIBLE = "all queries committed", "first output visible", "all outputs visible"


@dataclass(frozen=True, slots=True)
class Start:
    """One start.

    Attributes:
        moments_s: By name, seconds after the process was started, in their order.
        used_s: Processor seconds up to each of them.
    """

    moments_s: dict[str, float]
    used_s: dict[str, dict[Role, float]]

    @property
    def took_s(self) -> float:
        """Seconds until the first output was visible."""
        return self.moments_s[VISIBLE]

    @property
    def used_until_visible_s(self) -> float:
        """Processor seconds until the first output was visible."""
        return sum(self.used_s[VISIBLE].values())
