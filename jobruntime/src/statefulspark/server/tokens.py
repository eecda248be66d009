"""The tokens that the driver's API accepts: one of the environment, or those of files that may be replaced at any time.

Whoever rotates a token has it written to a Secret, whose files the kubelet replaces while the driver runs. They are read
for each call. The token before it stays accepted for as long as it is in the file `previous`, so that nobody is refused
while the new one is on its way. A file that cannot be used changes nothing: it must never open the API to a caller without a
token.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from statefulspark import errors, outgoing
from statefulspark.contract import config

_log = logging.getLogger(__name__)


class Tokens(Protocol):
    """What callers may present."""

    def accepted(self) -> tuple[str, ...]:
        """Return the tokens of the moment, at least one, and none that is empty."""
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that stays what it was when the process began.

    Attributes:
        value: The token; not empty.
    """

    value: str = field(repr=False)

    def accepted(self) -> tuple[str, ...]:
        """Return the token."""
        return (self.value,)


class MountedTokens:
    """The token in a file, and the one before it in the file `previous` beside it, if that is there."""

    def __init__(self, path: str) -> None:
        """Read the files.

        Raises:
            SpecRejectedError: As `require_usable`.
        """
        require_usable(path)
        self._file = Path(path)
        self._current = _read(self._file)
        outgoing.keep_out(self._current)

    def accepted(self) -> tuple[str, ...]:
        """Return the token, and the one before it while it is kept."""
        token = _read(self._file)
        if token and token != self._current:
            outgoing.keep_out(token)
            self._current = token
            _log.info("new token used", extra={"file": str(self._file)})
        previous = _read(self._file.with_name(config.PREVIOUS_TOKEN_KEY))
        if previous in ("", self._current):
            return (self._current,)
        outgoing.keep_out(previous)
        return (self._current, previous)


def require_usable(path: str) -> None:
    """Refuse a file without a token, before Spark starts.

    Raises:
        SpecRejectedError: `TokenMissing`, naming the file.
    """
    if not _read(Path(path)):
        raise errors.SpecRejectedError(
            "TokenMissing",
            f"The file {path} has no token for the driver's API; check --api-token-file; in a cluster, that the Secret has "
            f"the key {config.TOKEN_KEY}.",
        )


def _read(file: Path) -> str:
    """Return the token in a file; empty if there is none, or the file cannot be read."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
