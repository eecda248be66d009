"""The events that the operator writes, from where it writes them."""

from __future__ import annotations

from pathlib import Path

import statefulspark_operator
from sitepages import calls, markdown


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Events",
        "What `kubectl describe ssj JOB` and `kubectl statefulspark why JOB` show as events. One is written for "
        "each transition, after the status; what an operator could not tell before it died is not told later. `…` "
        "stands for a name or a value. An end of a driver and a stall are told with the reason of the driver or of the "
        "operator: [by the operator](../trouble/operator-reasons.md), [by the driver](../trouble/driver-reasons.md).",
    )
    rows: dict[tuple[str, ...], None] = {}
    for call in calls.find(Path(statefulspark_operator.__file__).parent, {"Announcement", "EventNote"}):
        kind = "Warning" if call.is_warning else "Normal"
        rows[(markdown.code(call.reason), kind, markdown.prose(call.message) or calls.ELLIPSIS)] = None
    lines.extend(markdown.table(("reason", "type", "message"), sorted(rows)))
    lines.extend(("What each of an upgrade's events means: [changing a job](../upgrading.md).", ""))
    return markdown.finish(lines)
