"""Secrets of sinks, which are never stored and are read where and when they are used.

The code of a job is sent to the workers and records of its sinks to storage; a `Secret` has only the name of a variable or
file. The same variable or file must exist on the driver and on the executors, for example from a Kubernetes Secret in `env`
or `volumes` of both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from statefulspark import errors


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret value: an environment variable or a mounted file.

    Attributes:
        variable: Name of the variable; empty for a file.
        path: The file; empty for a variable.
    """

    variable: str = ""
    path: str = ""

    @classmethod
    def env(cls, variable: str) -> Self:
        """Refer to an environment variable."""
        return cls(variable=variable)

    @classmethod
    def file(cls, path: str) -> Self:
        """Refer to a file that contains only the value; surrounding whitespace is removed."""
        return cls(path=path)

    def reveal(self) -> str:
        """Return the value.

        Raises:
            SpecRejectedError: `SecretMissing`.
        """
        if self.variable:
            value = os.environ.get(self.variable)
            if not value:
                raise _missing(f"the environment variable {self.variable} is not set")
            return value
        try:
            return Path(self.path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise _missing(f"the file {self.path} cannot be read ({error.strerror})") from error


def reveal(value: str | Secret) -> str:
    """Return a plain value, or the value of a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def reveal_all(values: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return settings with resolved secrets."""
    return {key: reveal(value) for key, value in values.items()}


def _missing(why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SecretMissing", f"A sink needs a secret, but {why}; provide it to the driver and to the executors."
    )
