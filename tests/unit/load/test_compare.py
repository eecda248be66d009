"""The checker of the load names every planted fault by key and number, and finds nothing where there is nothing.

Results are made here from the truth of real events, in the form in which a consumer reads them, and then one row or
value of them is spoiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from load import compare, events, truth

Rows = list[compare.Row]
COUNT, KEYS, SEED = 900, 5, 11
KEY, NUMBER = "key-002", 7
REPORTED = 40
"""Events in each report."""


def the_input() -> tuple[list[events.Event], dict[int, int]]:
    """Return what a generator sends, with the event that closes it."""
    steps = [*itertools.islice(events.steps(SEED, keys=KEYS), COUNT), events.closing(COUNT)]
    sent = [event for step in steps for event in (step.event, *step.copies)]
    return sent, {step.confirmation.number: step.confirmation.at_ms for step in steps if step.confirmation}


def the_truth() -> truth.Truth:
    return truth.compute(*the_input())


def right_results(known: truth.Truth) -> compare.Results:
    """Return outputs in which nothing is wrong, each key processed in a batch of ten events every second."""
    return compare.Results(
        ledger=[*_event_rows(known), *_period_rows(known), *_report_rows(known)],
        windows=[
            {"key": key, "begin_ms": begin_ms, "events": count, "total": total}
            for (key, begin_ms), (count, total) in known.windows.items()
        ],
        confirmed=[
            {"number": number, "key": key, "sequence": sequence, "amount": amount, "confirmed_ms": at_ms}
            for number, (key, sequence, amount, at_ms) in known.confirmed.items()
        ],
        counter=[{"subtask": subtask, "number": number} for subtask in (0, 1) for number in range(50)],
        accounts=dict(known.accounts),
        counted=[50, 50],
        unreported={key: max(1, account.events - REPORTED * 2) for key, account in known.accounts.items()},
    )


def _event_rows(known: truth.Truth) -> Rows:
    rows: Rows = []
    for (key, sequence), row in known.ledger.items():
        now_ms = sequence // 10 * 1_000
        rows.append(
            {
                "row": "event",
                "key": key,
                "sequence": sequence,
                "number": row.number,
                "balance": row.balance,
                "largest": row.largest,
                "of_kind": row.of_kind,
                "latest": list(row.latest),
                "processed_ms": now_ms,
                "remembered_ms": None if sequence == 1 else (sequence - 1) // 10 * 1_000,
            }
        )
    return rows


def _period_rows(known: truth.Truth) -> Rows:
    return [
        {"row": "period", "key": key, "due_ms": due_ms, "fired": fired, "in_period": count}
        for (key, due_ms), (fired, count) in known.periods.items()
    ]


def _report_rows(known: truth.Truth) -> Rows:
    """Two reports of each key, after which some events wait for the next one; that which closes the run is in none."""
    return [
        {"row": "report", "key": key, "due_ms": 0, "fired": number, "in_period": REPORTED}
        for key in known.accounts
        if key != events.CLOSING_KEY
        for number in (1, 2)
    ]


def _place(rows: Rows, **wanted: object) -> int:
    """Return where the only row is that has some values."""
    (place,) = (
        place for place, row in enumerate(rows) if all(row.get(name) == value for name, value in wanted.items())
    )
    return place


Spoil = Callable[[compare.Results], compare.Results]


def _lose(output: str, **wanted: object) -> Spoil:
    def spoil(results: compare.Results) -> compare.Results:
        rows = list(getattr(results, output))
        del rows[_place(rows, **wanted)]
        return replace(results, **{output: rows})

    return spoil


def _repeat(output: str, **wanted: object) -> Spoil:
    def spoil(results: compare.Results) -> compare.Results:
        rows = list(getattr(results, output))
        return replace(results, **{output: [*rows, rows[_place(rows, **wanted)]]})

    return spoil


def _change(output: str, change: dict[str, object], **wanted: object) -> Spoil:
    def spoil(results: compare.Results) -> compare.Results:
        rows = list(getattr(results, output))
        place = _place(rows, **wanted)
        rows[place] = {**rows[place], **change}
        return replace(results, **{output: rows})

    return spoil


def _swap(sequence: int) -> Spoil:
    """Let an event's row come after the next one's of its key."""

    def spoil(results: compare.Results) -> compare.Results:
        rows = list(results.ledger)
        one = _place(rows, row="event", key=KEY, sequence=sequence)
        two = _place(rows, row="event", key=KEY, sequence=sequence + 1)
        rows[one], rows[two] = rows[two], rows[one]
        return replace(results, ledger=rows)

    return spoil


def _stale(**values: object) -> Spoil:
    def spoil(results: compare.Results) -> compare.Results:
        accounts = dict(results.accounts or {})
        accounts[KEY] = replace(accounts[KEY], **values)  # type: ignore[arg-type]
        return replace(results, accounts=accounts)

    return spoil


def _forget_account(results: compare.Results) -> compare.Results:
    accounts = dict(results.accounts or {})
    del accounts[KEY]
    return replace(results, accounts=accounts)


EVENT = {"row": "event", "key": KEY, "sequence": NUMBER}
DUE_MS = events.BEGIN_MS + 5_000
LAST = 193
"""How many events the key has."""
CONFIRMED_KEY = next(step.event.key for step in events.steps(SEED, keys=KEYS) if step.event.number == 9)
Named = set[tuple[compare.Fault, str, str, int]]


def named(results: compare.Results) -> Named:
    found = compare.compare(the_truth(), results).findings
    return {(one.fault, one.output, one.key, one.number) for one in found}


def test_results_that_are_right_have_no_findings() -> None:
    found = compare.compare(the_truth(), right_results(the_truth()))

    assert (found.findings, found.is_exact) == ((), True)
    assert found.rows > 2 * COUNT / 3
    assert found.values == KEYS + 1


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(_lose("ledger", **EVENT), (compare.Fault.LOST, "ledger", KEY, NUMBER), id="a lost record"),
        pytest.param(
            _repeat("ledger", **EVENT), (compare.Fault.REPEATED, "ledger", KEY, NUMBER), id="a repeated record"
        ),
        pytest.param(
            _swap(NUMBER), (compare.Fault.REORDERED, "ledger", KEY, NUMBER), id="records out of their key's order"
        ),
        pytest.param(
            _change("ledger", {"balance": 12_345}, **EVENT),
            (compare.Fault.DIFFERENT, "ledger", KEY, NUMBER),
            id="a row made from stale state",
        ),
        pytest.param(
            _change("ledger", {"remembered_ms": 5}, **EVENT),
            (compare.Fault.DIFFERENT, "remembered", KEY, NUMBER),
            id="a value that outlived its time to live",
        ),
        pytest.param(
            _lose("ledger", row="period", key=KEY, due_ms=DUE_MS),
            (compare.Fault.LOST, "periods", KEY, DUE_MS),
            id="a timer that never fired",
        ),
        pytest.param(
            _repeat("ledger", row="period", key=KEY, due_ms=DUE_MS),
            (compare.Fault.REPEATED, "periods", KEY, DUE_MS),
            id="a timer that fired twice",
        ),
        pytest.param(
            _lose("ledger", row="report", key=KEY, fired=1),
            (compare.Fault.LOST, "reports", KEY, 1),
            id="a timer by the clock that never fired",
        ),
        pytest.param(
            _repeat("ledger", row="report", key=KEY, fired=2),
            (compare.Fault.REPEATED, "reports", KEY, 2),
            id="a timer by the clock that fired twice",
        ),
        pytest.param(
            _change("ledger", {"in_period": REPORTED + 1}, row="report", key=KEY, fired=2),
            (compare.Fault.DIFFERENT, "reports", KEY, 2),
            id="an event in two reports",
        ),
        pytest.param(
            lambda results: replace(results, unreported={**(results.unreported or {}), KEY: 0}),
            (compare.Fault.DIFFERENT, "reports", KEY, 2),
            id="events that wait for a report are forgotten",
        ),
        pytest.param(
            _change("windows", {"total": 1}, key=KEY, begin_ms=events.BEGIN_MS),
            (compare.Fault.DIFFERENT, "windows", KEY, events.BEGIN_MS),
            id="a wrong window",
        ),
        pytest.param(
            _lose("windows", key=KEY, begin_ms=events.BEGIN_MS),
            (compare.Fault.LOST, "windows", KEY, events.BEGIN_MS),
            id="a lost window",
        ),
        pytest.param(
            _lose("confirmed", number=9), (compare.Fault.LOST, "confirmed", CONFIRMED_KEY, 9), id="a lost pair"
        ),
        pytest.param(
            _repeat("confirmed", number=9),
            (compare.Fault.REPEATED, "confirmed", CONFIRMED_KEY, 9),
            id="a repeated pair",
        ),
        pytest.param(
            _lose("counter", subtask=1, number=3), (compare.Fault.LOST, "counter", "subtask-1", 3), id="a lost number"
        ),
        pytest.param(
            _repeat("counter", subtask=1, number=3),
            (compare.Fault.REPEATED, "counter", "subtask-1", 3),
            id="a repeated number",
        ),
        pytest.param(
            lambda results: replace(results, counted=[50, 49]),
            (compare.Fault.STALE, "counter", "subtask-1", 49),
            id="operator state behind its output",
        ),
        pytest.param(_stale(balance=1), (compare.Fault.STALE, "state balance", KEY, LAST), id="a stale value"),
        pytest.param(_stale(latest=(1,)), (compare.Fault.STALE, "state latest", KEY, LAST), id="a stale list"),
        pytest.param(_stale(kinds={}), (compare.Fault.STALE, "state kinds", KEY, LAST), id="a stale map"),
        pytest.param(_stale(largest=1), (compare.Fault.STALE, "state largest", KEY, LAST), id="a stale reducing state"),
        pytest.param(_stale(spent=1), (compare.Fault.STALE, "state spent", KEY, LAST), id="a stale aggregating state"),
        pytest.param(
            _stale(open_periods={1: 1}), (compare.Fault.STALE, "state open_periods", KEY, LAST), id="a timer too many"
        ),
        pytest.param(_forget_account, (compare.Fault.LOST, "state", KEY, LAST), id="lost state"),
    ],
)
def test_a_planted_fault_is_named_with_its_key_and_number(
    spoil: Spoil, expected: tuple[compare.Fault, str, str, int]
) -> None:
    spoiled = spoil(right_results(the_truth()))

    assert named(spoiled) == {expected}
    (found,) = compare.compare(the_truth(), spoiled).findings
    assert found.sentence.startswith(" ".join(f"{expected[0]}: {expected[1]} {expected[2]} {expected[3]}".split()))


def test_an_event_that_was_never_sent_is_no_fault_of_the_job() -> None:
    sent, confirmations = the_input()

    with pytest.raises(truth.BrokenInputError, match="number 5"):
        truth.compute([event for event in sent if event.number != 5], confirmations)


def test_events_of_a_key_that_lie_in_another_order_are_no_input_to_compare_with() -> None:
    sent, confirmations = the_input()
    of_key = [place for place, event in enumerate(sent) if event.key == KEY][:2]
    sent[of_key[0]], sent[of_key[1]] = sent[of_key[1]], sent[of_key[0]]

    with pytest.raises(truth.BrokenInputError, match=KEY):
        truth.compute(sent, confirmations)
