"""Separates errors of Spark on the driver from our own errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from statefulspark import errors, usercode


def ours(what: str) -> contextlib.AbstractContextManager[None]:
    """Report unexpected errors of the block as internal errors, unless Spark raised them; see `usercode.as_internal_error`.

    Args:
        what: The failed action, as the beginning of a sentence.
    """
    return usercode.as_internal_error(what, other_than=(PySparkException, Py4JError))


@contextlib.contextmanager
def refusing_plan(query_uid: str) -> Iterator[None]:
    """Translate errors of Spark while it plans the result of a query function.

    Raises:
        SpecRejectedError: `QueryInvalid`, instead of Spark's own errors.
    """
    try:
        yield
    except PySparkException as error:
        message = f"Spark rejects the query {query_uid!r}: {usercode.format_error(error)}. {usercode.CORRECT_IT}"
        raise errors.SpecRejectedError("QueryInvalid", message) from error


@contextlib.contextmanager
def refusing_start(query_uid: str) -> Iterator[None]:
    """Translate errors of Spark while it starts a query; a retry may help, because sources and sinks are accessed then.

    Raises:
        StatefulSparkError: `QueryFailed`, instead of Spark's own errors.
    """
    try:
        yield
    except PySparkException as error:
        message = f"Spark could not start the query {query_uid!r}: {usercode.format_error(error)}."
        raise errors.StatefulSparkError("QueryFailed", message) from error
