"""Judges errors of pyiceberg, and of the libraries that its catalogs call: whose they are, and what each means.

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
        answer = getattr(error, "response", None)  # Of the system; a failure to reach it has none.
        if isinstance(answer, Mapping):
            code = str(answer.get("Error", {}).get("Code", ""))
            status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            if code or status:
                return judgements.judge_cloud(code, status)
        return storage_judgements.judge("", 0, names[BOTOCORE])
    if names[SQLALCHEMY]:
        return judgements.judge_database(names[SQLALCHEMY])
    if names[PYICEBERG] or isinstance(error, _BUILTIN):
        http_status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
        class_name = (names[PYICEBERG] or names["builtins"])[0]
        return judgements.judge(class_name, http_status if isinstance(http_status, int) else None, words)
    return None
