"""The names of a keyed operator's state variables. They have its uid, so storage alone tells whose state it is."""

from __future__ import annotations

_HEAD, _LOG = "head_", "log_"


def head(uid: str) -> str:
    """Return the name of the variable with the heads of an operator's key groups."""
    return f"{_HEAD}{uid}"


def log(uid: str) -> str:
    """Return the name of the variable with the chunks of an operator's key groups."""
    return f"{_LOG}{uid}"


def uid_of(variable: str) -> str | None:
    """Return the uid of the operator whose heads a state variable holds; None for other variables."""
    return variable.removeprefix(_HEAD) or None if variable.startswith(_HEAD) else None
