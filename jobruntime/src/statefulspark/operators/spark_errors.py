"""What Spark raises on the driver, told from what is ours: a refusal of a query, or an error that says enough as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from statefulspark import errors, usercode


def ours(what: str) -> contextlib.AbstractContextManager[None]:
    """Say that what the block raises by accident is ours, unless Spark raised it; see `usercode.as_internal_error`.

    Args:
        what: What failed, at the beginning of a sentence.
    """
    return usercode.as_internal_error(what, other_than=(PySparkException, Py4JError))


@contextlib.contextmanager
def refusing_plan(query_uid: str) -> Iterator[None]:
    """Say that Spark refuses a query where it plans what the query function returned.

    Raises:
        SpecRejectedError: `QueryInvalid`, instead of Spark's own errors.
    """
    try:
        yield
    except PySparkException as error:
        message = f"Spark refuses the query {query_uid!r}: {usercode.in_one_line(error)}. {usercode.CORRECT_IT}"
        raise errors.SpecRejectedError("QueryInvalid", message) from error


@contextlib.contextmanager
def refusing_start(query_uid: str) -> Iterator[None]:
    """Say that Spark could not start a query: it looks at sources and sinks then, so another start may help.

    Raises:
        StatefulSparkError: `QueryFailed`, instead of Spark's own errors.
    """
    try:
        yield
    except PySparkException as error:
        message = f"Spark could not start the query {query_uid!r}: {usercode.in_one_line(error)}."
        raise errors.StatefulSparkError("QueryFailed", message) from error
