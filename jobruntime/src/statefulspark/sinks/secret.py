"""Values that must not be written down: credentials of sinks, looked up where and when they are used.

A job's code travels to the workers and its sinks' records to storage; a `Secret` carries only the name of the place. The
same variable or file has to be there on the driver and on the executors, as a Kubernetes Secret is when `env` or `volumes`
of both name it.
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
    """Names where a value is found: an environment variable or a mounted file.

    Attributes:
        variable: Name of the variable; empty for a file.
        path: The file; empty for a variable.
    """

    variable: str = ""
    path: str = ""

    @classmethod
    def env(cls, variable: str) -> Self:
        """Name an environment variable."""
        return cls(variable=variable)

    @classmethod
    def file(cls, path: str) -> Self:
        """Name a file that holds nothing but the value; blanks and line ends around it are dropped."""
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
    """Return a value that may be given as it is or as a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def reveal_all(values: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return settings with their secrets looked up."""
    return {key: reveal(value) for key, value in values.items()}


def _missing(why: str) -> errors.SpecRejectedError:
    return errors.SpecRejectedError(
        "SecretMissing", f"A sink needs a secret, and {why}; give it to the driver and to the executors."
    )
