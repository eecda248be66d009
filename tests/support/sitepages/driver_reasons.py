"""Every reason that the runtime and its command give: what it says, how it ends, and what to do."""

from __future__ import annotations

import inspect
from pathlib import Path

import statefulspark
from sitepages import calls, markdown
from statefulspark import errors, failures
from statefulspark.contract.exit_codes import ExitCode

_KINDS = {
    kind.__name__: kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.StatefulSparkError)
}
_OTHERS = {
    "FilesAbsentError": "SnapshotCorruptError",
    "SinkBehindError": "StateUnknownError",
    "credentials_refused": "CredentialsRefusedError",
    "raised": "UserCodeError",
    "user_code_error": "UserCodeError",
}
"""What else makes an error: a subclass in a module of its own, and functions."""
_WHO = {
    "SpecRejectedError": "What was asked for cannot work as it is written.",
    "InvalidArgumentError": "A call of the library has an argument that it cannot use.",
    "ParameterMissingError": "The job asks for a parameter that is not set.",
    "InvalidTypeError": "A call of the library has an argument of a wrong type.",
    "CredentialsRefusedError": "A system refuses credentials. A file with them is read again for some minutes before that.",
    "TransientError": "Something else is away, and may come back.",
    "PreconditionFailedError": "Something changed meanwhile; nothing was done.",
    "StateUnknownError": "The state cannot be told, so nothing is assumed and nothing is changed.",
    "SnapshotCorruptError": "A snapshot is there and is damaged.",
    "FormatVersionError": "A document is whole, and of a release that this one does not know.",
    "InternalError": "A fault of the installation or of this product.",
    "UserCodeError": "The job's own code raised an exception.",
}
TOLD_HERE = {
    "StateOwnedByAnother": (
        "A resource that is made again is not the owner of the state: [rebuild a cluster](../howto/rebuild-a-cluster.md)."
    ),
    "WindowChanged": "Time windows of another length, slide or start: both kinds would lie side by side in the state.",
    "AggregationChanged": "Other aggregate functions with values of the same types: sums would be taken for maxima.",
    "JoinChanged": "Another type of join: rows in the state would be given out by the other type's rules.",
    "MaxParallelismExceeded": "There are more partitions than key groups.",
    "KeyChanged": "An operator's key has other types than its state.",
    "ValueChanged": "What an operator computes has other types than its state.",
    "OutputModeChanged": "An operator was declared with another output mode, or with timers of another clock.",
    "SystemUnreachable": "A source or a sink of Spark could not reach its system, or was refused there.",
    "QueryFailed": "A query ended with an error; the message has the line of the job, or what Spark says.",
    "StateDamaged": "Spark found a state file that is missing or damaged. The next start looks for it, and falls back.",
    "StateIncompatible": "Spark found that the state does not fit the query.",
    "InputLost": (
        "Rows that a query has not read are no longer in Kafka: they expired, or their topic was made anew. None are "
        "skipped unless the job says so, with `failOnDataLoss` of the source. Or input files are gone that a batch was "
        "planned with, and the job says `ignoreMissingFiles=false`. Exit code 18 (`INPUT_LOST`)."
    ),
    "ConcurrentDriver": "Another process wrote an entry of the query's log first; the next start goes on after it.",
    "DriverFailed": "The driver failed in a way that nobody expected.",
    "Fenced": "A newer driver owns the job, and this one wrote nothing more.",
}
"""Reasons whose sentence is made in more than one place, or that have none of their own."""


def page() -> str:
    """Return the page."""
    found = _found()
    lines = markdown.head(
        "Reasons, by the driver and its command",
        "Each error has a **reason**, one word, and a sentence. You find the word in the last lines of the "
        "driver's log "
        "(`reason=`), in its termination message, in answers of the HTTP API, and in the status of the resource. "
        "Below is each "
        "word with what is said. `…` stands for a name or a value. The sentence says what to do; where it does "
        "not, the "
        "line above it does. How a driver ends is in [exit codes](exit-codes.md).",
    )
    for reason in sorted({*found, *TOLD_HERE}):
        lines.extend(_section(reason, found.get(reason, [])))
    return markdown.finish(lines)


def _found() -> dict[str, list[calls.Call]]:
    folder = Path(statefulspark.__file__).parent
    found: dict[str, list[calls.Call]] = {}
    for call in calls.find(folder, {*_KINDS, *_OTHERS}, other_than=("testing/stores.py",)):
        found.setdefault(call.reason, []).append(call)
    return found


def _section(reason: str, places: list[calls.Call]) -> list[str]:
    lines = [f"## {reason}", ""]
    if reason in TOLD_HERE:
        lines.extend((TOLD_HERE[reason], ""))
    kinds = sorted({_kind(place) for place in places} & set(_WHO))
    for kind in kinds:
        ended = _code(kind, reason)
        lines.extend((f"*{_WHO[kind]}* What to do: {markdown.prose(_action(kind))} Exit code {ended}.", ""))
    messages = dict.fromkeys(place.message for place in places if place.message.strip(f"{calls.ELLIPSIS} "))
    lines.extend(f"> {markdown.prose(message)}\n" for message in messages)
    if _is_about_a_change(reason):
        lines.extend(("What may change, and the way out: [changing a job](../upgrading.md).", ""))
    return lines


def _is_about_a_change(reason: str) -> bool:
    return failures.classify_error(errors.SpecRejectedError(reason, "")).code is ExitCode.INCOMPATIBLE_STATE


def _kind(place: calls.Call) -> str:
    return _OTHERS.get(place.name, place.name)


def _code(kind: str, reason: str) -> str:
    if kind == "UserCodeError":
        error: errors.StatefulSparkError = errors.UserCodeError(reason, "", raised=ValueError())
    else:
        error = _KINDS[kind](reason, "")
    code = failures.classify_error(error).code
    return f"{code.value} (`{code.name}`)"


def _action(kind: str) -> str:
    """Return the paragraph "Operator action" of an error's docstring."""
    text = inspect.cleandoc(_KINDS[kind].__doc__ or "")
    paragraph = next((part for part in text.split("\n\n") if part.startswith("Operator action:")), "")
    sentence = " ".join(paragraph.removeprefix("Operator action:").split())
    return sentence.replace("none;", "nothing;", 1).replace("none if", "nothing if", 1)
