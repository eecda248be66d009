"""The exit codes of the plugin: the same numbers as those of the command `statefulspark`, where both have one. Pure."""

from __future__ import annotations

from enum import IntEnum

from statefulspark import errors

JOB_NOT_FOUND = "JobNotFound"


class PluginExit(IntEnum):
    """How a command ended."""

    DONE = 0
    """Done; `why`: the job is ready."""
    FAILED = 1
    """What was asked for was tried and failed; `why`: the job is not ready."""
    REFUSED = 2
    """Wrong options, a missing right, or a request that makes no sense in the job's state; nothing was changed."""
    NOT_FOUND = 15
    """There is no such job, pod or revision."""
    UNREACHABLE = 16
    """The API server does not answer, or it was not done in time; what was asked for goes on."""
    INTERRUPTED = 130
    """Ctrl-C; what was asked for goes on."""


def exit_code(error: errors.StatefulSparkError) -> PluginExit:
    """Return the exit code for an error."""
    if isinstance(error, errors.TransientError):
        return PluginExit.UNREACHABLE
    if error.reason.endswith("NotFound"):
        return PluginExit.NOT_FOUND
    return PluginExit.REFUSED if isinstance(error, errors.SpecRejectedError) else PluginExit.FAILED
