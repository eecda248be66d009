"""Secrets of sinks and sources, which are never stored and are read where and when they are used.

The code of a job is sent to the workers and records of its sinks to storage; a `Secret` has only the name of a variable or
file. The same variable or file must exist on the driver and on the executors, for example from a Kubernetes Secret in `env`
or `volumes` of both. A file is read each time, so that it may be rotated while the job runs; a variable stays what it was
when the process began.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from statefulspark import errors, outgoing


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
        """Return the value, which no text that leaves this process has from now on.

        Raises:
            SpecRejectedError: `SecretMissing`; a `CredentialsRefusedError` if it is a file, which may be on its way.
        """
        if self.variable:
            value = os.environ.get(self.variable)
            if not value:
                raise errors.SpecRejectedError(
                    "SecretMissing",
                    f"The job needs a secret, but the environment variable {self.variable} is not set; provide it to the "
                    "driver and to the executors.",
                )
            outgoing.keep_out(value)
            return value
        try:
            value = Path(self.path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise errors.CredentialsRefusedError(
                "SecretMissing",
                f"The job needs a secret, but the file {self.path} cannot be read ({error.strerror}); provide it to the "
                "driver and to the executors.",
            ) from error
        outgoing.keep_out(value)
        return value


def reveal(value: str | Secret) -> str:
    """Return a plain value, or the value of a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def reveal_all(values: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return settings with resolved secrets."""
    return {key: reveal(value) for key, value in values.items()}


def credentials_refused(reason: str, message: str, values: Iterable[str | Secret]) -> errors.SpecRejectedError:
    """Return the error for credentials that a system refuses.

    Args:
        reason: Its reason.
        message: What was refused, by whom, and what to check; without a full stop.
        values: The settings with the credentials.
    """
    secrets = [value for value in values if isinstance(value, Secret)]
    files = [secret.path for secret in secrets if secret.path]
    if files:
        minutes = errors.CredentialsRefusedError.GRACE_S / 60
        again = f"{' and '.join(files)} is read again for {minutes:.0f} minutes, since its Secret may be changing"
        return errors.CredentialsRefusedError(reason, f"{message}; {again}.")
    variables = " and ".join(secret.variable for secret in secrets)
    stays = f" (a process keeps what {variables} was when it began; ss.Secret.file is read again)" if variables else ""
    return errors.SpecRejectedError(reason, f"{message}{stays}.")
