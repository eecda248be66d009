"""The decision of a driver that would start now."""

from __future__ import annotations

from collections.abc import Iterable

from statefulspark import errors
from statefulspark.contract import diagnosis
from statefulspark.contract.config import RestoreConfig
from statefulspark.doctor.examination import Examination
from statefulspark.recovery import recovery
from statefulspark.recovery.plan import RecoveryPlan, StartMode
from statefulspark.storage.port import ObjectStore


def forecast(store: ObjectStore, examination: Examination) -> diagnosis.RestartForecast:
    """Return what a driver that starts now would do, without restore options."""
    try:
        plan = recovery.plan_recovery(store, restore=RestoreConfig(), open_store=examination.open_store)
    except errors.TransientError:
        raise
    except errors.StatefulSparkError as error:
        return diagnosis.RestartForecast(possible=False, sentence=f"A driver refuses to start: {error.message}")
    return diagnosis.RestartForecast(
        possible=True,
        sentence=_sentence(plan),
        mode=plan.mode.value,
        restored_from=plan.restored_from,
        generation=plan.generation,
        batches=dict(plan.start_batches),
        salvages=bool(plan.salvage),
        fallback=plan.fallback,
    )


def _sentence(plan: RecoveryPlan) -> str:
    source = plan.restored_from or "the generation's own beginning"
    if plan.mode is StartMode.EMPTY:
        return "A driver starts with empty state: there is nothing to start from."
    if plan.mode is StartMode.COPY:
        return f"A driver copies {source} into new generation {plan.generation} and continues from there."
    if plan.salvage:
        return (
            f"A driver completes the batches that were committed after {source} as checkpoint {plan.next_snapshot_id}, "
            f"and continues in generation {plan.generation}."
        )
    return f"A driver continues from {source} in generation {plan.generation}."


def problems(restart: diagnosis.RestartForecast) -> Iterable[str]:
    """Yield why a start is refused, or why it would not use the newest state."""
    if not restart.possible:
        yield restart.sentence
    elif restart.fallback is not None:
        yield f"The newest state cannot be used: {restart.fallback}"
