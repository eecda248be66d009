"""What has to come out, computed from the events as they were sent; plain Python, no line shared with the job.

A copy is an event whose number was there before. Event time passes everything but the event that closes the run.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from load import events

PERIOD_MS = 5_000
WINDOW_MS = 10_000
LATEST = 3


@dataclass(frozen=True, slots=True)
class Account:
    """What a key has to remember in the end.

    Attributes:
        events: How many events it had, without copies.
        sequence: The newest one's.
        balance: Sum of the amounts.
        latest: The newest amounts.
        kinds: Events by kind.
        largest: Largest amount.
        copies: How many copies came; None for none.
        fired: How many periods have ended; None for none.
        spent: Sum of the amounts below zero, as a positive number; None where the job does not keep it.
        open_periods: Events of periods that have not ended, by their end.
    """

    events: int
    sequence: int
    balance: int
    latest: tuple[int, ...]
    kinds: Mapping[str, int]
    largest: int
    copies: int | None
    fired: int | None
    open_periods: Mapping[int, int]
    spent: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What the row of an event has to say."""

    number: int
    balance: int
    largest: int
    of_kind: int
    latest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """What has to come out.

    Attributes:
        ledger: Row of each event, by key and sequence.
        periods: By key and end of the period: the how manieth it is, and how many events it had.
        windows: By key and begin of the window: number of events, and their sum.
        confirmed: By number: key, sequence, amount and time of the confirmation.
        accounts: Final state by key.
    """

    ledger: Mapping[tuple[str, int], LedgerRow]
    periods: Mapping[tuple[str, int], tuple[int, int]]
    windows: Mapping[tuple[str, int], tuple[int, int]]
    confirmed: Mapping[int, tuple[str, int, int, int]]
    accounts: Mapping[str, Account] = field(default_factory=dict)


class BrokenInputError(Exception):
    """The input is not what the generator makes: nothing can be said about the output."""


def compute(sent: Iterable[events.Event], confirmations: Mapping[int, int]) -> Truth:
    """Compute everything from what was sent.

    Args:
        sent: Events with their copies, each key's in the order of its partition.
        confirmations: Times by number.

    Raises:
        BrokenInputError: An event is missing, or out of its key's order.
    """
    by_number: dict[int, events.Event] = {}
    copies: Counter[str] = Counter()
    for event in sent:
        copies[event.key] += event.number in by_number
        by_number.setdefault(event.number, event)
    by_key: dict[str, list[events.Event]] = defaultdict(list)
    for event in by_number.values():
        by_key[event.key].append(event)
    _check(by_number, by_key)
    passed_ms = max((event.at_ms for event in by_number.values() if event.key == events.CLOSING_KEY), default=0)
    periods = {key: _counts(rows, PERIOD_MS) for key, rows in by_key.items()}
    return Truth(
        ledger={(key, row[0]): row[1] for key, rows in by_key.items() for row in _ledger(rows)},
        periods={
            (key, begin_ms + PERIOD_MS): (place, counted[0])
            for key, counts in periods.items()
            for place, (begin_ms, counted) in enumerate(_over(counts, PERIOD_MS, passed_ms), 1)
        },
        windows={
            (key, begin_ms): counted
            for key, rows in by_key.items()
            for begin_ms, counted in _over(_counts(rows, WINDOW_MS), WINDOW_MS, passed_ms)
        },
        confirmed={
            number: (by_number[number].key, by_number[number].sequence, by_number[number].amount, at_ms)
            for number, at_ms in confirmations.items()
        },
        accounts={key: _account(rows, copies[key] or None, periods[key], passed_ms) for key, rows in by_key.items()},
    )


def _check(by_number: Mapping[int, events.Event], by_key: Mapping[str, Sequence[events.Event]]) -> None:
    if missing := set(range(len(by_number))) - set(by_number):
        raise BrokenInputError(f"{len(missing)} events were never sent, the first is number {min(missing)}")
    for key, rows in by_key.items():
        sequences = [row.sequence for row in rows]
        if sequences != list(range(1, len(rows) + 1)):
            raise BrokenInputError(f"the events of {key} are not in order in the topic: {sequences[:20]}")


def _ledger(rows: Sequence[events.Event]) -> Iterable[tuple[int, LedgerRow]]:
    kinds: Counter[str] = Counter()
    balances = itertools.accumulate(row.amount for row in rows)
    largest = itertools.accumulate((row.amount for row in rows), max)
    for place, (row, balance, most) in enumerate(zip(rows, balances, largest, strict=True)):
        kinds[row.kind] += 1
        latest = tuple(one.amount for one in rows[max(0, place + 1 - LATEST) : place + 1])
        yield row.sequence, LedgerRow(row.number, balance, most, kinds[row.kind], latest)


def _counts(rows: Sequence[events.Event], length_ms: int) -> dict[int, tuple[int, int]]:
    """Return number and sum of the events of each stretch of event time, by its begin."""
    counts: dict[int, tuple[int, int]] = {}
    for row in rows:
        begin_ms = row.at_ms // length_ms * length_ms
        count, total = counts.get(begin_ms, (0, 0))
        counts[begin_ms] = (count + 1, total + row.amount)
    return dict(sorted(counts.items()))


def _over(
    counts: Mapping[int, tuple[int, int]], length_ms: int, passed_ms: int
) -> Sequence[tuple[int, tuple[int, int]]]:
    """Return those that event time has passed, in their order; that of the closing event is never one of them."""
    return [(begin_ms, counted) for begin_ms, counted in counts.items() if begin_ms + length_ms < passed_ms]


def _account(
    rows: Sequence[events.Event], copies: int | None, periods: Mapping[int, tuple[int, int]], passed_ms: int
) -> Account:
    over = _over(periods, PERIOD_MS, passed_ms)
    ended = {begin_ms for begin_ms, _ in over}
    return Account(
        events=len(rows),
        sequence=rows[-1].sequence,
        balance=sum(row.amount for row in rows),
        latest=tuple(row.amount for row in rows[-LATEST:]),
        kinds=dict(Counter(row.kind for row in rows)),
        largest=max(row.amount for row in rows),
        copies=copies,
        fired=len(over) or None,
        open_periods={begin + PERIOD_MS: counted[0] for begin, counted in periods.items() if begin not in ended},
        spent=sum(-row.amount for row in rows if row.amount < 0),
    )
