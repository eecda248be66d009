"""The word `takeOverSinks` counts once: a start that has opened its sinks with it remembers it on storage.

Two jobs in front of one sink may both have the word left in their manifests. Each restart would take the sink back then, and
write rows again; so the job that has lost the sink is refused by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from statefulspark import errors

if TYPE_CHECKING:
    from statefulspark.contract.config import RestoreConfig
    from statefulspark.recovery.plan import RestoredState

_REFUSALS = ("SinkAhead", "SinkTaken")


@contextlib.contextmanager
def explaining(restore: RestoreConfig, state: RestoredState) -> Iterator[None]:
    """Add to the refusal of a sink that the word was given, and has counted before."""
    try:
        yield
    except errors.SpecRejectedError as error:
        is_spent = restore.take_over_sinks and not restore.may_take_over_sinks(state.carried_out)
        if error.reason not in _REFUSALS or not is_spent:
            raise
        raise errors.SpecRejectedError(
            error.reason,
            f"{error.message} This job has used its restore.takeOverSinks before, and the word counts once: make sure that "
            "no other job writes there, then change restore.nonce to say it again (on the command line --take-over-sinks "
            "--again).",
        ) from error
