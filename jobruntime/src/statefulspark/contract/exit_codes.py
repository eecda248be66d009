"""Exit codes of the driver process: a contract between the driver, the operator and scripts.

The codes stay below 64 and away from the shell's own (126 and up), so that 137 keeps meaning "killed".
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """How a driver ended, and whether a restart can help."""

    SUCCESS = 0
    """It ended as planned: its input ended, or it was stopped or drained. The report says which."""
    FAILED = 1
    """A query or the job failed while running; a restart continues after the newest committed batch."""
    USAGE = 2
    """The command line or the configuration is wrong. Do not restart unchanged."""
    FENCED = 12
    """A newer epoch owns the job; this driver wrote nothing after it noticed that. Do not restart it."""
    BAD_JOB = 13
    """The job file is missing, raises, or declares no query. Do not restart unchanged."""
    INCOMPATIBLE_STATE = 14
    """The state of the snapshot does not fit the job (unknown uid, changed type). Do not restart unchanged."""
    SNAPSHOT_NOT_FOUND = 15
    """The snapshot to start from does not exist. Do not restart unchanged."""
    STORAGE_UNAVAILABLE = 16
    """The object store, or the system of a source or a sink, is out of reach, locked, or refuses access. Restart later."""
    STATE_UNKNOWN = 17
    """No checkpoint can be verified, or the correct one cannot be determined. A person has to decide."""
    INPUT_LOST = 18
    """Rows that the job has not read are no longer at their source. A person has to decide."""

    @property
    def is_retryable(self) -> bool:
        """Tell whether an unchanged restart can help."""
        return self in (ExitCode.FAILED, ExitCode.STORAGE_UNAVAILABLE)

    @classmethod
    def describe(cls, code: int) -> str:
        """Name an exit code for people.

        Args:
            code: The process's exit code, any number.

        Returns:
            The enum's name, the signal for 128 and up, or the bare number.
        """
        if code in cls._value2member_map_:
            return cls(code).name
        return f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"


class PlannedEnd(StrEnum):
    """Why a driver ended with `ExitCode.SUCCESS`: the reason in its report."""

    FINISHED = "Finished"
    """Every query ended on its own (bounded input). Nothing is left to do."""
    DRAINED = "Drained"
    """SIGTERM: the driver finished its batch and completed a checkpoint. The next driver starts at any time."""
    STOPPED = "Stopped"
    """The driver was asked to stop, with a savepoint or without. The next driver starts on request."""
