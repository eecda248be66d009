"""Waits for a checkpoint, savepoint or stop of a driver, and prints its outcome.

A request id makes a repeated request harmless: after a lost connection or a timeout, the same command with the same id
continues to wait for the same operation.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

from pydantic import ValidationError

from statefulspark import errors
from statefulspark.cli import progress
from statefulspark.commandline import commands, output, values
from statefulspark.commandline.output import OutputFormat
from statefulspark.contract import api
from statefulspark.contract.base import WireModel
from statefulspark.contract.manifest import SnapshotFormat

POLL_WAIT_S = 1
"""Longest wait of one request, so that the progress line is updated."""
RETRY_S = 0.5
_MAX_UNREACHABLE_S = 10.0
"""How long a driver may be unreachable while a command waits for it, for example while a port-forward reconnects."""

_Model = TypeVar("_Model", bound=WireModel)


class OperationClient(Protocol):
    """The part of a driver's client that waiting needs."""

    def operation(self, request_id: str, *, wait_s: int) -> api.Operation:
        """Return a savepoint or stop by its request id, as soon as it has ended or after `wait_s` seconds."""
        ...


class Time(Protocol):
    """A clock that can wait."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True)
class AskedSavepoint:
    """What a savepoint is to be like.

    Attributes:
        name: A part of its folder's name.
        location: The folder in which it is created.
        format: Its format; None for a native one.
    """

    name: str | None
    location: str | None
    format: SnapshotFormat | None


request_option = commands.option(
    "--request-id",
    metavar="ID",
    default=lambda: f"cli-{uuid.uuid4()}",
    help="names this request; a random one when omitted",
)
savepoint_options = commands.bundle(
    "asked",
    AskedSavepoint,
    commands.option("--name", metavar="NAME", help="becomes part of the name of the savepoint's folder: a-z, 0-9 and '-'"),
    commands.option("--location", metavar="URI", help="folder for the savepoint; the job's default when omitted"),
    commands.option("--format", type=values.Word(SnapshotFormat),
                    help="of the savepoint: native (default: fast, for the same number of key groups) or canonical "
                    "(Parquet, for any)"),
)  # fmt: skip
"""Adds what a savepoint is like; the command gets `asked`."""


def build_request(model: type[_Model], **fields: object) -> _Model:
    """Build a request from flags.

    Raises:
        SpecRejectedError: `RequestInvalid`, which names the flag.
    """
    try:
        return model.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
        flag = {"--requestId": "--request-id"}.get(flag, flag)
        raise errors.SpecRejectedError(
            "RequestInvalid", f"The value {first['input']!r} of {flag} is wrong: {first['msg']}."
        ) from error


def follow(
    driver: OperationClient, operation: api.Operation, timeout: timedelta | None, printing: output.Printing
) -> None:
    """Wait for an operation unless there is no time for it, and write its outcome."""
    if timeout is None:
        printing.note(
            f"The {operation.kind.lower()} was requested; `statefulspark savepoint wait {operation.request_id}` waits for "
            "it, and so does the same command with this --request-id."
        )
        _write(operation, printing)
        return
    ended = wait_until_ended(driver, operation, timeout_s=timeout.total_seconds(), quiet=printing.quiet)
    if ended.state is api.OperationState.FAILED:
        if printing.output in (OutputFormat.JSON, OutputFormat.YAML):
            _write(ended, printing)
        raise errors.PreconditionFailedError(
            ended.reason or "OperationFailed", f"The {ended.kind.lower()} failed with {ended.reason}: {ended.message}"
        )
    _write(ended, printing)


def wait_until_ended(
    driver: OperationClient, operation: api.Operation, *, timeout_s: float, quiet: bool = False, clock: Time = time
) -> api.Operation:
    """Poll an operation until it has ended.

    Args:
        driver: The driver that executes it.
        operation: The first answer of the driver.
        timeout_s: Longest wait.
        quiet: Show no progress.
        clock: For tests.

    Raises:
        TransientError: `StillInProgress`, or `DriverUnreachable` for a savepoint.
        StateUnknownError: `StopUnseen`: the driver ended before it reported the outcome of its stop.
    """
    started_at_s = answered_at_s = clock.monotonic()
    with progress.Bar(f"{operation.kind.lower()} {operation.request_id}", quiet=quiet) as bar:
        while operation.state is api.OperationState.IN_PROGRESS:
            elapsed_s = clock.monotonic() - started_at_s
            if elapsed_s >= timeout_s:
                raise errors.TransientError(
                    "StillInProgress",
                    f"The {operation.kind.lower()} is still in progress after {timeout_s:g} s and continues; run the same "
                    f"command with --request-id {operation.request_id} to wait longer.",
                )
            if operation.progress is not None:
                bar.report(operation.progress)
            else:
                bar.wait(elapsed_s)
            try:
                operation = driver.operation(operation.request_id, wait_s=POLL_WAIT_S)
                answered_at_s = clock.monotonic()
            except errors.TransientError as error:
                if clock.monotonic() - answered_at_s >= _MAX_UNREACHABLE_S:
                    if operation.kind is not api.OperationKind.STOP:
                        raise
                    raise errors.StateUnknownError(
                        "StopUnseen",
                        f"The driver ended before it reported the outcome of the stop {operation.request_id}; see its exit "
                        "code and log, and `statefulspark savepoint list` for the savepoint.",
                    ) from error
                clock.sleep(RETRY_S)
    return operation


def _write(operation: api.Operation, printing: output.Printing) -> None:
    snapshot = operation.snapshot
    name = f"{snapshot.kind.value}/{snapshot.id}" if snapshot is not None else f"request/{operation.request_id}"
    sentence = snapshot.location if snapshot is not None else operation.request_id
    printing.write(output.Result(operation, [name], lambda _: f"{sentence}\n"))
