"""Every reason that the operator and kubectl's plugin give."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import statefulspark_operator
from sitepages import advice, calls, markdown
from statefulspark import errors
from statefulspark_operator.cluster import judgements
from statefulspark_operator.lifecycle.decision import Reason

_ERRORS = {
    name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.StatefulSparkError)
}
ANSWERS = {
    "NotStalled": "`Stalled` is `False`: nothing waits for a person.",
    "NotRunning": "No batch of this driver is committed yet, or no queries run.",
    "InputProcessed": "Batches are committed, or there is no input.",
    "BatchRunning": "A batch runs for longer than `health.unavailableAfter`. Look at the source, the sinks and "
    "the size of batches.",
    "DriverSilent": "The driver has not answered for `health.unavailableAfter`. Look at its log and its memory.",
    "NoCheckpointYet": "Wait for the first one.",
    "CheckpointCompleted": "The latest checkpoint completed.",
    "StorageRead": "The last read of storage succeeded.",
    "NotLooked": "Storage has not been read yet.",
    "NoUpgrade": "No change is being carried out.",
    "NotBlocked": "What the spec says runs.",
    "StandbyGone": "The standby's pod was removed. The next one is started.",
    "DriverEnded": "The driver ended and left no reason.",
    "DriverRestarted": "The driver is restarted, and there is no other reason.",
}
"""Words that are no member of an enum: answers of conditions, and ends that nobody explained."""


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Reasons, by the operator",
        "The `reason` of conditions, events and the status, one word each. What the driver itself says, which "
        "the operator passes "
        "on, is in [reasons, by the driver](driver-reasons.md).",
    )
    lines.extend(("## Decisions", "", "What the operator does, and why.", ""))
    for reason in sorted(Reason, key=lambda each: each.word):
        lines.extend((f"### {reason.word}", "", reason.value, "", f"**What to do:** {advice.REASON[reason]}", ""))
    lines.extend(("## Answers of conditions", ""))
    for word, meaning in sorted(ANSWERS.items()):
        lines.extend((f"### {word}", "", meaning, ""))
    lines.extend(("## Refusals of the API server", "", "It answered 403; its own words are in the message.", ""))
    for refusal in sorted(judgements.REFUSALS, key=lambda each: each.reason):
        words = ", ".join(f"`{marker.strip()}`" for marker in refusal.markers)
        besides = f", and {refusal.besides}" if refusal.besides else ""
        lines.extend((f"### {refusal.reason}", "", f"The API server says {words}{besides}.", ""))
        lines.extend((f"**What to do:** {refusal.advice[0].upper()}{refusal.advice[1:]}.", ""))
    lines.extend(("## Refusals and failures", "", "`…` stands for a name or a value.", ""))
    for word, messages in sorted(_found().items()):
        lines.extend((f"### {word}", "", *(f"> {markdown.prose(message)}\n" for message in messages)))
    return markdown.finish(lines)


def _found() -> dict[str, tuple[str, ...]]:
    """Return the reasons of errors and refused specs with their sentences, but for those told above."""
    known = {reason.word for reason in Reason} | set(ANSWERS)
    found: dict[str, dict[str, None]] = {}
    for call in _calls():
        if call.reason not in known and call.message.strip(f"{calls.ELLIPSIS} "):
            found.setdefault(call.reason, {})[call.message] = None
    return {word: tuple(messages) for word, messages in found.items()}


def _calls() -> Iterator[calls.Call]:
    names = {*_ERRORS, "Rejection", "StorageUnreadable", "DriverEnd", "StallStatus", "Obstacle", "Hindrance"}
    yield from calls.find(Path(statefulspark_operator.__file__).parent, names)
