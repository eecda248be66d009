"""How a function tells a rehearsal from a batch that counts: by a local property of its task.

Spark gives the properties of the thread that starts a query to all tasks of that query, wherever they run, and to no other.
"""

from __future__ import annotations

from statefulspark.operators.keyed import cleaning

PROPERTY = "statefulspark.rehearsal"
"""Its name; it is documented for functions without a context."""
VALUE = "true"


def is_rehearsal() -> bool:
    """Tell whether the running task is of a rehearsal."""
    return cleaning.task_property(PROPERTY) == VALUE
