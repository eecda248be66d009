"""Runs a job file and turns every outcome into one of the exit codes.

This is the outermost part of the driver process: only here every exception is caught. A failure is logged with its stack
for the author of the job, reported in one sentence, and written to the container's termination log for the operator.
"""

from __future__ import annotations

import ast
import logging
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import FrameType

from pydantic import ValidationError
from pydantic_core import from_json

from statefulspark import errors, outgoing, telemetry, usercode
from statefulspark.contract import api, config, flagnames, unknownfields
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd

TERMINATION_LOG = Path("/dev/termination-log")
DEVELOPMENT_FOLDER = ".statefulspark"
"""Where `run --dev` and `python job.py` keep state, beside the job file."""
_ENV_POD = "KUBERNETES_SERVICE_HOST"
"""Kubernetes sets it in each container."""
_TERMINATION_BYTES = 4096
"""The kubelet keeps so many, and the operator reads no report that has lost its beginning."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger(__name__)
_given_config: ContextVar[config.JobConfig | None] = ContextVar("given_config", default=None)
_report: ContextVar[str | None] = ContextVar("requested_report", default=None)


class Role(StrEnum):
    """What a process is to the job."""

    DRIVER = "driver"
    """It claims the job and runs it."""
    STANDBY = "standby"
    """It prepares to become the driver, and becomes it when it is asked to."""


_role: ContextVar[Role] = ContextVar("requested_role")


class Display(StrEnum):
    """What a person at a terminal is shown of a job that runs."""

    LIVE = "live"
    """A display in the last rows of the terminal, where it can keep one."""
    PLAIN = "plain"
    """Lines, for screen readers and for terminals that are recorded."""


_display: ContextVar[Display | None] = ContextVar("requested_display", default=None)


class DriverEnded(SystemExit):
    """Raised by `Job.run` to end the process, after the driver has run and reported its outcome."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def is_guarded() -> bool:
    """Tell whether `run_file` runs this job and turns its exceptions into an exit code."""
    return _given_config.get() is not None


def is_interactive() -> bool:
    """Tell whether a person types Python into this process: a REPL, a notebook, or `python -i`."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def is_being_imported() -> bool:
    """Tell whether this is called while a module other than `__main__` runs its own lines, as when it is imported."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def requested_report() -> str | None:
    """Return the format of the report that is requested instead of a run; None to run the job."""
    return _report.get()


def requested_role() -> Role:
    """Return what this process is to the job."""
    return _role.get(Role.DRIVER)


def requested_display() -> Display:
    """Return what a person at a terminal is shown: what `run_file` was given, else what the environment says."""
    return _display.get() or (Display.PLAIN if os.environ.get(telemetry.ENV_PLAIN) else Display.LIVE)


def current_config(job_name: str) -> config.JobConfig:
    """Return the configuration of this process.

    Args:
        job_name: Name in the job file, for the error.

    Returns:
        The configuration that `run_file` received, or the file named by `STATEFULSPARK_CONFIG`. Without either, outside
        of a pod, the one for development: state is kept beside the job file.

    Raises:
        SpecRejectedError: `ConfigMissing` or `ConfigInvalid`.
    """
    given = _given_config.get()
    if given is not None:
        return given
    path = os.environ.get(config.ENV_CONFIG)
    if path is not None:
        return read_config(Path(path))
    if _ENV_POD in os.environ:
        raise errors.SpecRejectedError(
            "ConfigMissing",
            f"The job {job_name} has no configuration, and state on a pod's own disk is lost with the pod; start it with "
            f"`statefulspark run FILE --storage s3://...`, or name a configuration file in {config.ENV_CONFIG}.",
        )
    main_file = getattr(sys.modules["__main__"], "__file__", None)
    storage = development_storage(Path(main_file).absolute().parent if main_file else Path.cwd())
    _log.info("for development: state is kept on this machine", extra={"folder": storage.uri})
    # Any port: several jobs may be tried at a time.
    return config.JobConfig(name=job_name, storage=storage, api_port=0)


def development_storage(folder: Path) -> config.StorageConfig:
    """Return where state is kept while a job is developed on one machine.

    Args:
        folder: The folder of the job file, absolute.
    """
    return config.StorageConfig(uri=development_folder(folder).as_uri(), allow_local_files=True)


def development_folder(folder: Path) -> Path:
    """Return the same as a folder."""
    return folder / DEVELOPMENT_FOLDER


def read_config(path: Path) -> config.JobConfig:
    """Read a configuration file.

    A person's file has no field that is not known. The operator's may, since an operator is upgraded before the images of
    jobs: what a newer one says beside the known fields is ignored.

    Raises:
        SpecRejectedError: `ConfigMissing` or `ConfigInvalid`, naming the field.
    """
    try:
        body = path.read_bytes()
        _require_known_fields(path, body)
        return config.JobConfig.model_validate_json(body)
    except OSError as error:
        raise errors.SpecRejectedError(
            "ConfigMissing", f"The configuration {path} cannot be read: {error.strerror}."
        ) from error
    except ValidationError as error:
        raise config_invalid(f"The configuration {path}", error) from error


def _require_known_fields(path: Path, body: bytes) -> None:
    try:
        document = from_json(body)
    except ValueError:
        return  # The model says where it is no JSON.
    if isinstance(document, dict) and document.get("ownerId", config.NO_OWNER) != config.NO_OWNER:
        return
    unknown = next(unknownfields.find(config.JobConfig, document), None)
    if unknown is not None:
        nearest = unknownfields.nearest(config.JobConfig, unknown)
        advice = f"did you mean {nearest}?" if nearest is not None else "remove it."
        raise errors.SpecRejectedError(
            "ConfigInvalid", f"The configuration {path} has an unknown field {unknown}; {advice}"
        )


def config_invalid(what: str | None, error: ValidationError) -> errors.SpecRejectedError:
    """Return the refusal of a configuration, which names the first wrong field and its value.

    Args:
        what: The configuration, as the beginning of a sentence; None names the flag instead.
        error: The validation error.
    """
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "the document"
    why, given = first["msg"].removeprefix("Value error, "), first["input"]
    shown = f"{given.total_seconds():g} s" if isinstance(given, timedelta) else repr(given)
    where = f"{what} is wrong at {field}" if what else f"The flag {flagnames.flag_of(field)} is wrong"
    return errors.SpecRejectedError("ConfigInvalid", f"{where}: {why} (got {shown}).")


def located(error: errors.StatefulSparkError, message: str) -> str:
    """Return the message of a refusal with the line of the job that made the refused call, if there is one."""
    is_refusal = isinstance(error, errors.SpecRejectedError)
    calls = usercode.find_frames(error) if is_refusal else ()
    is_known = bool(calls) and not calls[-1].is_installed
    return f"{message} ({calls[-1].file} line {calls[-1].line})" if is_known else message


def for_reader(message: str) -> str:
    """Return a message in the words of who started the driver: flags of the command, or fields of the resource."""
    return flagnames.name_flags(message) if is_by_flags() else message


def is_by_flags() -> bool:
    """Tell whether flags alone configure this process, and no file of a resource does."""
    return config.ENV_CONFIG not in os.environ


def run_file(
    path: Path,
    job_config: config.JobConfig,
    *,
    arguments: Sequence[str] = (),
    report: str | None = None,
    role: Role = Role.DRIVER,
    display: Display | None = None,
) -> int:
    """Run a job file as `__main__` with a configuration.

    Args:
        path: The file; it declares a job and calls its `run`.
        job_config: The configuration.
        arguments: What the file finds in `sys.argv` after its own name.
        report: Format of a report on what the start would do, instead of a run; None runs the job.
        role: What the process is to the job.
        display: What a person at a terminal is shown; None leaves it to the environment.

    Returns:
        The exit code.
    """
    # Workers use this path too, in another working directory.
    file = path.absolute()

    def run() -> int:
        config_token, report_token, role_token = _given_config.set(job_config), _report.set(report), _role.set(role)
        display_token = _display.set(display)
        sys.path.insert(0, str(path.parent))
        sys.argv = [str(path), *arguments]
        try:
            parse(file)
            try:
                runpy.run_path(str(file), run_name="__main__")
            except Exception as error:
                raise _job_file_raised(file, error) from error
        except DriverEnded as ended:
            return ended.exit_code
        except SystemExit as ended:
            # Exit code 0 would mean that the job has finished, but it never ran.
            raise errors.SpecRejectedError(
                "JobFileRaised",
                f"The job file {path} ended with sys.exit({ended.code!r}) before it ran a job; end it with `job.run()`.",
            ) from ended
        finally:
            _given_config.reset(config_token)
            _report.reset(report_token)
            _role.reset(role_token)
            _display.reset(display_token)
        raise errors.SpecRejectedError(
            "NoQueries", f"The job file {path} ended without running a job; end it with `job.run()`."
        )

    return guard(run)


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a job file, without running it.

    Raises:
        SpecRejectedError: `JobFileMissing`.
        UserCodeError: `JobFileRaised`: it is no Python.
    """
    try:
        return ast.parse(file.read_bytes(), filename=str(file.absolute()))
    except OSError as error:
        raise errors.SpecRejectedError(
            "JobFileMissing",
            f"The job file {file} cannot be read: {error.strerror}; check job.file, and that the image contains it.",
        ) from error
    except (SyntaxError, ValueError) as error:
        raise _job_file_raised(file.absolute(), error) from error


def _job_file_raised(file: Path, error: Exception) -> errors.StatefulSparkError:
    if isinstance(error, errors.StatefulSparkError):
        return error
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines, what = [error.lineno], f"{type(error).__name__}: {error.msg}"
    else:
        what = usercode.format_error(error)
    location = f"{file} line {lines[-1]}" if lines else str(file)
    message = f"The job file {location} raised {what}. {usercode.CORRECT_IT}"
    return usercode.user_code_error(error, reason="JobFileRaised", message=message)


def guard(run: Callable[[], int]) -> int:
    """Run a function and return its exit code, or the exit code of its exception.

    Only a `UserCodeError` means that the job's code failed; every other unexpected exception is a bug of the product.

    Args:
        run: The function.
    """
    from statefulspark import failures

    try:
        return run()
    except errors.StatefulSparkError as error:
        if isinstance(error, errors.UserCodeError) or failures.is_a_bug(error):
            print_stack(error)
        failure = failures.classify_error(error)
        return finish(failure.code, failure.reason, located(error, failure.message))
    except Exception as error:  # noqa: BLE001 - the outermost handler: every exception becomes an exit code and a sentence
        print_stack(error)
        failure = failures.classify_unexpected(error)
        return finish(failure.code, failure.reason, failure.message)


def run_alone(run: Callable[[], int]) -> int:
    """Run a job whose file was started by Python itself, as `python job.py` or in an interactive session.

    Logging and signals are configured as by the command; the signal handlers are restored afterwards.

    Args:
        run: The function.

    Returns:
        The exit code.
    """
    if not logging.getLogger().handlers:
        verbose = bool(os.environ.get(telemetry.ENV_VERBOSE))
        telemetry.configure(
            telemetry.LogFormat.TEXT if is_interactive() else None,
            detail=telemetry.Detail.VERBOSE if verbose else telemetry.Detail.BRIEF,
        )
    previous_handlers: dict[signal.Signals, object] = {}
    if threading.current_thread() is threading.main_thread():
        previous_handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        exit_on_signals()
    try:
        return guard(run)
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what getsignal returned


def exit_on_signals() -> None:
    """Exit at once on SIGTERM and Ctrl-C until the job runs; then the driver installs its own handler.

    The next start handles an incomplete start as after a crash. Without a handler the signal would kill the process, which
    looks like a crash and leaves no reason.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        try:
            name = signal.Signals(number).name
            finish(ExitCode.SUCCESS, PlannedEnd.DRAINED, f"{name} came before the job ran; its state is unchanged.")
        finally:
            os._exit(ExitCode.SUCCESS)

    for number in STOP_SIGNALS:
        signal.signal(number, leave)


def finish(code: ExitCode, reason: str, message: str, snapshot: str | None = None) -> int:
    """Report how the process ends, in the log and in the termination log, and return the exit code."""
    message = outgoing.without_secrets(for_reader(message))
    is_clean = code is ExitCode.SUCCESS
    is_for_people = telemetry.is_for_people()
    telemetry.enable_loggers()
    extra = {"code": code.name, "reason": reason, "why": None if is_for_people else message}
    _log.log(logging.INFO if is_clean else logging.ERROR, "driver ends", extra=extra)
    if is_for_people:
        sys.stderr.write(outgoing.printable(f"{'ended' if is_clean else 'error'}: {message}\n"))
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_bytes(_short_report(code, reason, message, snapshot))
    return int(code)


def _short_report(code: ExitCode, reason: str, message: str, snapshot: str | None) -> bytes:
    """Return the report as JSON that the kubelet keeps whole; a message that is too long has an end."""
    while True:
        report = api.ExitReport(exit_code=code, reason=reason, message=message, snapshot=snapshot)
        body = report.to_json().encode()
        if len(body) <= _TERMINATION_BYTES or not message:
            return body
        # A character of the message has six bytes at most, as JSON writes it.
        message = message[: -((len(body) - _TERMINATION_BYTES) // 6 + 1)]


def print_stack(error: Exception) -> None:
    """Print the calls of the job's code; print the whole stack if there are none, or if logging is verbose."""
    source: BaseException = error.raised if isinstance(error, errors.UserCodeError) else error
    calls = usercode.find_frames(source) if isinstance(error, errors.UserCodeError) else ()
    if telemetry.is_verbose() or not (calls or isinstance(source, SyntaxError)):
        _print("".join(traceback.format_exception(source)))
        return
    is_syntax = isinstance(source, SyntaxError)  # shows file, line and caret by itself
    shown = "".join(traceback.format_exception_only(source)) if is_syntax else f"{usercode.format_error(source)}\n"
    _print((f"{usercode.format_frames(calls)}\n" if calls else "") + shown)


def _print(text: str) -> None:
    sys.stderr.write(outgoing.printable(outgoing.without_secrets(text)))
