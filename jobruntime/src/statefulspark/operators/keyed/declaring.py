"""What a function declares, learnt on the driver before Spark runs anything."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from statefulspark import errors
from statefulspark.state import functions, timers, ttl

_log = logging.getLogger(__name__)


def declared_by(
    function: functions.KeyedProcessFunction,
    uid: str,
    *,
    method: str,
    domains: frozenset[timers.TimeDomain],
    ttl_change: ttl.TtlChange,
) -> Callable[[], functions.Declared | None]:
    """Return what tells, when it is first asked, which states a function declares.

    It gives None, and logs a warning, where `open` needs what only workers have: the types are then compared when the first
    batch reads the state. It raises SpecRejectedError for declarations that no worker would accept either.

    Args:
        function: The function; a copy of it is opened.
        uid: Of its operator.
        method: What opens it, as errors name it.
        domains: Time domains in which it has timers.
        ttl_change: What happens when a time to live was switched on or off.
    """

    @functools.cache
    def declared() -> functions.Declared | None:
        try:
            return functions.declarations_of(function, uid, domains=domains, ttl_change=ttl_change)
        except errors.SpecRejectedError as error:
            told = f"{method}() of keyed operator '{uid}' failed: {error.message}"
            raise errors.SpecRejectedError(error.reason, told) from error
        except Exception as error:  # noqa: BLE001 - the function is the user's
            told = f"{type(error).__name__}: {error}"
            _log.warning(
                "the states of an operator are not known before its first batch: it could not be opened on the driver",
                extra={"operator": uid, "method": method, "error": told},
            )
            return None

    return declared
