"""Errors of pyiceberg, and of what its catalogs call: which of them are of other systems, and what each means.

The catalogs of Glue and DynamoDB pass errors of botocore on, and those of a database errors of SQLAlchemy. Neither library
has to be installed, so their classes are known by name.
"""

from __future__ import annotations

from collections.abc import Mapping

from statefulspark.judgement import Judgement
from statefulspark.sinks.iceberg import judgements
from statefulspark.storage import judgements as storage_judgements

PYICEBERG = "pyiceberg.exceptions"
BOTOCORE = "botocore.exceptions"
SQLALCHEMY = "sqlalchemy.exc"
_BUILTIN = (OSError, ValueError, NotImplementedError)
"""What pyiceberg raises itself for files and answers, beside the classes of its own."""


def judged(error: Exception, words: str) -> Judgement | None:
    """Return what an error means; None if it is not of another system.

    Args:
        error: The error.
        words: What it says.
    """
    names = {
        module: tuple(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == module)
        for module in (PYICEBERG, BOTOCORE, SQLALCHEMY, "builtins")
    }
    if names[BOTOCORE]:
        code, status = _cloud_answer(error)
        if code or status:
            return judgements.judge_cloud(code, status)
        return storage_judgements.judge("", 0, names[BOTOCORE])
    if names[SQLALCHEMY]:
        return judgements.judge_database(names[SQLALCHEMY])
    if names[PYICEBERG] or isinstance(error, _BUILTIN):
        return judgements.judge((names[PYICEBERG] or names["builtins"])[0], _http_status(error), words)
    return None


def _cloud_answer(error: Exception) -> tuple[str, int]:
    """Return code and status of the answer that botocore made an error of; nothing if there was none."""
    answer = getattr(error, "response", None)
    if not isinstance(answer, Mapping):
        return "", 0
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(answer.get("Error", {}).get("Code", "")), int(status)


def _http_status(error: Exception) -> int | None:
    """Return the status of the HTTP answer that pyiceberg made an error of; None if it was none."""
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
