"""Starts Spark again if the API server of Kubernetes did not answer, and reports in one sentence what failed.

With executors, Spark's scheduler asks the API server for the driver's own pod before anything else, and its context cannot
be built without an answer. PySpark then says only which constructor failed. What may pass (no answer in time, no connection,
a server that is busy or restarts) is told apart from what stays (a missing right), which is raised as it is.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError

from statefulspark import errors

_log = logging.getLogger(__name__)

ATTEMPTS = 5
WAIT_S = 5.0
_CLIENT = "io.fabric8.kubernetes.client"
_PASSES = re.compile(
    r"timed? ?out|Timeout|Connection (refused|reset|was closed)|UnknownHost|NoRouteToHost|code: (429|5\d\d)",
    re.IGNORECASE,
)
_CAUSE = re.compile(r"^\s*Caused by: (?:[\w.$]+\.)?([\w$]+)(?:: (.*))?$", re.MULTILINE)

Started = TypeVar("Started")


def passing_trouble(failure: str) -> str | None:
    """Return what kept the API server from answering, if that may pass.

    Args:
        failure: The failure of Spark's start with its Java stack.

    Returns:
        The innermost cause in one line; None if the API server had no part in it, or refused.
    """
    if _CLIENT not in failure or _PASSES.search(failure) is None:
        return None
    causes = _CAUSE.findall(failure)
    if not causes:
        return "no reason given"
    kind, message = causes[-1]
    return f"{kind}: {message}" if message else kind


def patiently(start: Callable[[], Started], *, wait: Callable[[float], None] = time.sleep) -> Started:
    """Start Spark, and start it again if the API server did not answer.

    Args:
        start: Starts Spark; it may be called again after it has raised.
        wait: Waits for so many seconds.

    Raises:
        TransientError: `ApiServerSlow`: the API server did not answer `ATTEMPTS` times in a row.
        Py4JError: Spark did not start for another reason.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return start()
        except Py4JError as error:
            trouble = passing_trouble(str(error))
            if trouble is None:
                raise
            if attempt == ATTEMPTS:
                raise errors.TransientError(
                    "ApiServerSlow",
                    f"The API server did not answer Spark's request for this driver's pod {ATTEMPTS} times in a row. The "
                    f"last failure: {trouble}. The next start tries again. If the failure lasts, check the API server and "
                    "the network between it and this node.",
                ) from error
            _log.warning(
                "the API server did not answer; Spark is started again",
                extra={"reason": "ApiServerSlow", "attempt": attempt, "of": ATTEMPTS, "error": trouble},
            )
            wait(WAIT_S)
    raise AssertionError("the last attempt returns or raises")
