"""What a standby does with state before it is activated: it reads files to this machine, and carries them ahead.

Both end early by themselves, and an activation waits for neither.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from statefulspark.driver.starting import carrying, start_parts

if TYPE_CHECKING:
    from statefulspark.contract.manifest import QueryEntry
    from statefulspark.driver.starting import standby_control
    from statefulspark.planning import read_ahead

_POLL_S = 0.05


def until_activated(control: standby_control.StandbyControl, work: Callable[[], object]) -> None:
    """Do something that ends early by itself after an activation, which does not wait for what Spark does at that moment."""
    until(control.is_activated, work)


def until(stops: Callable[[], bool], work: Callable[[], object]) -> None:
    """Do something, and wait for its end, or until this says so: what is going on then ends by itself."""
    thread = threading.Thread(target=work, name="standby", daemon=True)
    thread.start()
    while thread.is_alive() and not stops():
        thread.join(_POLL_S)


def keep(
    control: standby_control.StandbyControl, ahead: read_ahead.ReadAhead, compared: start_parts.Comparison
) -> None:
    """Read the state's files ahead, if this version goes on in them; return at once when the job is activated."""
    changes = compared.changes.values()
    if changes and all(change.is_empty for change in changes):
        queries = [change.query for change in changes]
        _read(control, ahead, compared, queries, stops=control.is_activated)


def carry(
    control: standby_control.StandbyControl,
    carrier: carrying.Carrying,
    ahead: read_ahead.ReadAhead,
    compared: start_parts.Comparison,
    *,
    elapsed_s: Callable[[], float] = time.monotonic,
) -> None:
    """Carry the state ahead, if this version's plan differs, and read what has arrived; return at once likewise.

    Both together take as long as carrying may, so that large state does not keep the standby from being ready.
    """
    until_s = elapsed_s() + carrying.LONGEST_S
    arrived = carrier.look(compared)
    if arrived:
        _read(control, ahead, compared, arrived, stops=lambda: control.is_activated() or elapsed_s() >= until_s)


def _read(
    control: standby_control.StandbyControl,
    ahead: read_ahead.ReadAhead,
    compared: start_parts.Comparison,
    queries: Sequence[QueryEntry],
    *,
    stops: Callable[[], bool],
) -> None:
    look = functools.partial(ahead.follow, compared.root.store.uri, queries, stops=stops)
    until_activated(control, look)
