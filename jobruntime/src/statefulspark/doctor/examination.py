"""The options of an examination."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from statefulspark.checkpoint import transfer
from statefulspark.retention import rules


@dataclass(frozen=True, slots=True)
class Examination:
    """The settings of an examination.

    Attributes:
        now: The current time in UTC.
        policy: What pruning would keep.
        deep: Read every file, instead of trusting equal etags.
        open_store: Opens other locations, of savepoints that the job started from or claimed.
    """

    now: datetime
    policy: rules.PrunePolicy
    deep: bool = False
    open_store: transfer.StoreOpener | None = None
