"""A coordinator whose steps are observed as the job's loop does it, with both clocks running together."""

from __future__ import annotations

from datetime import datetime, timedelta

from coordination import Run
from fakecontrol import NOON, a_summary
from statefulspark.contract import statistics as wire
from statefulspark.coordinator import machine, model, stats


class Watched(Run):
    """Observes every step; nothing is triggered by time, and nothing expires."""

    def __init__(self, *, history_size: int = stats.DEFAULT_HISTORY, kept: int = 1) -> None:
        self.stats = stats.begin(history_size=history_size)
        super().__init__(tolerable_failures=100, max_concurrent=3, first_delay_s=1e9, timeout_s=1e9, kept=kept)

    def send(self, event: model.Event) -> tuple[model.Command, ...]:
        self.state, commands = machine.step(self.state, event)
        self.stats = stats.observe(self.stats, event, commands, at(event.now_s))
        return commands

    def snapshot(self, request: model.Request, *, size: int = 100, new: int = 10, took_s: float = 3.0) -> int:
        """Begin at the request's time, acknowledge after a second, complete at the end."""
        began_s = request.requested_at_s + 0.5
        number = self.begin(request, began_s)
        self.ack(number, began_s + 1)
        summary = a_summary(kind=request.kind, number=number).model_copy(
            update={
                "size_bytes": size, "incremental_size_bytes": new, "files": 7, "phases_ms": {"closure": 20, "manifest": 5},
            }
        )  # fmt: skip
        self.stats = stats.written(self.stats, summary)
        self.finalized(number, began_s + took_s)
        return number

    @property
    def answer(self) -> wire.Checkpoints:
        return stats.answer(self.stats)


def at(now_s: float) -> datetime:
    return NOON + timedelta(seconds=now_s)
