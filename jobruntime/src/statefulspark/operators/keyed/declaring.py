"""Finds the declarations of a function on the driver, before Spark runs anything."""

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
    """Return a function that returns the declared states of a function, evaluated on its first call.

    It returns None, and logs a warning, if `open` needs resources of workers: the types are then compared when the first
    batch reads the state. It raises SpecRejectedError for declarations that workers would reject too.

    Args:
        function: The function; a copy of it is opened.
        uid: The uid of its operator.
        method: Name of the method that opens it, for errors.
        domains: Time domains in which it has timers.
        ttl_change: Handling of a time to live that was enabled or disabled.
    """

    @functools.cache
    def declared() -> functions.Declared | None:
        try:
            return functions.declarations_of(function, uid, domains=domains, ttl_change=ttl_change)
        except errors.SpecRejectedError as error:
            message = f"{method}() of keyed operator '{uid}' failed: {error.message}"
            raise errors.SpecRejectedError(error.reason, message) from error
        except Exception as error:  # noqa: BLE001 - the function is the user's
            message = f"{type(error).__name__}: {error}"
            _log.warning(
                "an operator could not be opened on the driver; its states are unknown before its first batch",
                extra={"operator": uid, "method": method, "error": message},
            )
            return None

    return declared
