"""Runs a job file and turns whatever happens into one of the exit codes.

This is the edge of the driver process: the only place that catches every exception. What went wrong is logged with its
stack for the author of the job, said in one sentence, and written to the container's termination log for the operator.
"""

from __future__ import annotations

import logging
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from statefulspark import errors, telemetry, usercode
from statefulspark.contract import api, config
from statefulspark.contract.exit_codes import ExitCode

TERMINATION_LOG = Path("/dev/termination-log")
TERMINATION_LIMIT = 3500
"""The kubelet keeps 4096 bytes."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)
_given: ContextVar[config.JobConfig | None] = ContextVar("given_config", default=None)
_report: ContextVar[str | None] = ContextVar("asked_report", default=None)


class DriverEnded(SystemExit):
    """How `Job.run` ends a process: the driver has run and has said how it ended."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def is_guarded() -> bool:
    """Tell whether `run_file` runs this job and turns whatever it raises into an exit code."""
    return _given.get() is not None


def asked_report() -> str | None:
    """Return the format of the report that is wanted instead of a run; None to run the job."""
    return _report.get()


def current_config(job_name: str) -> config.JobConfig:
    """Return the configuration of this process.

    Args:
        job_name: Name in the job file, for the error.

    Returns:
        What `run_file` was given, or the file named by `STATEFULSPARK_CONFIG`.

    Raises:
        SpecRejectedError: `ConfigMissing` or `ConfigInvalid`.
    """
    given = _given.get()
    if given is not None:
        return given
    path = os.environ.get(config.ENV_CONFIG)
    if path is None:
        raise errors.SpecRejectedError(
            "ConfigMissing",
            f"The job {job_name} has no configuration; start it with `statefulspark run FILE --storage s3://...`, or "
            f"name a configuration file in {config.ENV_CONFIG}.",
        )
    return read_config(Path(path))


def read_config(path: Path) -> config.JobConfig:
    """Read a configuration file.

    Raises:
        SpecRejectedError: `ConfigMissing` or `ConfigInvalid`, naming the field.
    """
    try:
        return config.JobConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise errors.SpecRejectedError(
            "ConfigMissing", f"The configuration {path} cannot be read: {error.strerror}."
        ) from error
    except ValidationError as error:
        raise config_invalid(f"The configuration {path}", error) from error


def config_invalid(what: str, error: ValidationError) -> errors.SpecRejectedError:
    """Return the refusal of a configuration, which names the first wrong field and its value.

    Args:
        what: The configuration, at the beginning of a sentence.
        error: What is wrong.
    """
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    why, given = first["msg"].removeprefix("Value error, "), first["input"]
    shown = f"{given.total_seconds():g} s" if isinstance(given, timedelta) else repr(given)
    return errors.SpecRejectedError("ConfigInvalid", f"{what} is wrong at {where}: {why} (got {shown}).")


def run_file(path: Path, job_config: config.JobConfig, *, report: str | None = None) -> int:
    """Run a job file as `__main__` with a configuration.

    Args:
        path: The file; it declares a job and calls its `run`.
        job_config: The configuration.
        report: Format of a report on what the start would do, which is then all that is done; None runs the job.

    Returns:
        The exit code.
    """
    # Workers name the file, too, and run elsewhere.
    file = path.absolute()

    def run() -> int:
        if not path.is_file():
            raise errors.SpecRejectedError(
                "JobFileMissing", f"There is no job file {path}; check job.file, and that the image contains it."
            )
        token, asked = _given.set(job_config), _report.set(report)
        sys.path.insert(0, str(path.parent))
        try:
            _execute(file)
        except DriverEnded as ended:
            return ended.exit_code
        except SystemExit as ended:
            # Exit code 0 would say that the job has finished, and it never ran.
            raise errors.SpecRejectedError(
                "JobFileRaised",
                f"The job file {path} ended with sys.exit({ended.code!r}) before it ran a job; end it with `job.run()`.",
            ) from ended
        finally:
            _given.reset(token)
            _report.reset(asked)
        raise errors.SpecRejectedError(
            "NoQueries", f"The job file {path} ended without running a job; end it with `job.run()`."
        )

    return guard(run)


def _execute(file: Path) -> None:
    """Run a job file as Python does; what is ours in there, `Job.run`, lets no exception out."""
    try:
        runpy.run_path(str(file), run_name="__main__")
    except Exception as error:
        raise _job_file_raised(file, error) from error


def _job_file_raised(file: Path, error: Exception) -> errors.StatefulSparkError:
    if isinstance(error, errors.StatefulSparkError):
        return error
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f"{file} line {lines[-1]}" if lines else str(file)
    message = f"The job file {place} raised {usercode.in_one_line(error)}. {usercode.CORRECT_IT}"
    return usercode.made(error, reason="JobFileRaised", message=message)


def guard(run: Callable[[], int]) -> int:
    """Run something and return its exit code, or the code of what it raised.

    Only a `UserCodeError` says that the job's code failed; what else is raised by accident is ours.

    Args:
        run: The work.
    """
    from statefulspark import failures

    try:
        return run()
    except errors.StatefulSparkError as error:
        if isinstance(error, errors.UserCodeError) or failures.is_a_bug(error):
            print_stack(error)
        failure = failures.of_error(error)
        return finish(failure.code, failure.reason, failure.message)
    except Exception as error:  # noqa: BLE001 - the edge of the process: everything becomes an exit code and a sentence
        print_stack(error)
        failure = failures.of_unexpected(error)
        return finish(failure.code, failure.reason, failure.message)


def run_alone(run: Callable[[], int]) -> int:
    """Run a job whose file was started by Python itself, as `python job.py` or in an interactive session.

    Logging and signals are then as the command has them; signals are given back afterwards.

    Args:
        run: The work.

    Returns:
        The exit code.
    """
    if not logging.getLogger().handlers:
        verbose = bool(os.environ.get(telemetry.ENV_VERBOSE))
        telemetry.configure(detail=telemetry.Detail.VERBOSE if verbose else telemetry.Detail.BRIEF)
    before: dict[signal.Signals, object] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        leave_on_signals()
    try:
        return guard(run)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal returned


def leave_on_signals() -> None:
    """Obey SIGTERM and Ctrl-C that come before the job runs, at once; the driver's own handler takes over when it does.

    What a start has written by then, the next one copes with as after a crash. Without a handler the process would die of
    the signal, which tells nobody why and looks like a crash.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        try:
            name = signal.Signals(number).name
            finish(ExitCode.DRAINED, "Drained", f"{name} came before the job ran; its state is what it was.")
        finally:
            os._exit(ExitCode.DRAINED)

    for number in STOP_SIGNALS:
        signal.signal(number, leave)


def finish(code: ExitCode, reason: str, message: str, snapshot: str | None = None) -> int:
    """Say how the process ends, to people and to the operator, and return the code."""
    level = logging.INFO if code in (ExitCode.FINISHED, ExitCode.DRAINED, ExitCode.STOPPED) else logging.ERROR
    _log.log(level, "driver ends", extra={"code": code.name, "reason": reason, "why": message})
    report = api.ExitReport(exit_code=code, reason=reason, message=message[:TERMINATION_LIMIT], snapshot=snapshot)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(report.to_json())
    return int(code)


def print_stack(error: Exception) -> None:
    """Print the user's own calls, or everything where there are none or somebody wants it."""
    source: BaseException = error.raised if isinstance(error, errors.UserCodeError) else error
    users = usercode.of_error(source) if isinstance(error, errors.UserCodeError) else ()
    if telemetry.is_verbose() or not users:
        traceback.print_exception(source)
    else:
        sys.stderr.write(f"{usercode.told(users)}\n{usercode.in_one_line(source)}\n")
