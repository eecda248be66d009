"""Set what came out against the truth: every row of every sink, and every value of the final state.

Each difference is a `Finding` that names the output, the key and the number:

- lost: it must be there and is not;
- repeated: it is there once more;
- reordered: it comes after a later one of its key;
- different: it is not what the truth says, or the truth does not know it;
- stale: a value of the state is not the one that the events lead to.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from load.truth import Account, LedgerRow, Truth

REMEMBERED_MS = 2_000

Row = Mapping[str, object]


class Fault(enum.StrEnum):
    """What is wrong with a row or a value."""

    LOST = "lost"
    REPEATED = "repeated"
    REORDERED = "reordered"
    DIFFERENT = "different"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference.

    Attributes:
        fault: What is wrong.
        output: Name of the sink's output or of the state.
        key: Whose it is.
        number: Which one of the key.
        detail: What was found, and what must be there.
    """

    fault: Fault
    output: str
    key: str
    number: int
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The finding for people."""
        return f"{self.fault}: {self.output} {self.key} {self.number} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Results:
    """What came out, as a consumer reads it.

    Attributes:
        ledger: Rows of the topic, each key's in the order of its partition.
        windows: Rows of the table, in any order.
        confirmed: Rows of the files, in any order.
        counter: Rows of the Iceberg table, in any order.
        accounts: Final state by key; None if it was not read.
        counted: Final state of the counter, the next number of each subtask; None if it was not read.
        unreported: Final state of the reports, how many events each key has had since the last one; None if it was not read.
        has_memory: Whether the ledger has what goes by the clock: a value with a time to live, and reports.
    """

    ledger: Sequence[Row] = ()
    windows: Sequence[Row] = ()
    confirmed: Sequence[Row] = ()
    counter: Sequence[Row] = ()
    accounts: Mapping[str, Account] | None = None
    counted: Sequence[int] | None = None
    unreported: Mapping[str, int] | None = None
    has_memory: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the comparison found.

    Attributes:
        findings: All of them.
        rows: How many rows were compared.
        values: How many keys of the state.
    """

    findings: tuple[Finding, ...]
    rows: int
    values: int
    counts: Mapping[Fault, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Tell whether there is no difference at all."""
        return not self.findings

    def count(self, *faults: Fault) -> int:
        """Return how many findings there are of some kinds."""
        return sum(self.counts.get(fault, 0) for fault in faults)


def compare(truth: Truth, results: Results) -> Comparison:
    """Compare everything that was committed, and the final state, with the truth."""
    findings = (
        *_check_ledger(truth, results.ledger),
        *_check_periods(truth, results.ledger),
        *(_check_memory(results.ledger) if results.has_memory else ()),
        *(_check_reports(truth.accounts, results) if results.has_memory else ()),
        *_check_table("windows", _windows(results.windows), truth.windows),
        *_check_table("confirmed", _confirmed(results.confirmed), _by_key(truth.confirmed)),
        *_check_counter(results.counter, results.counted),
        *_check_accounts(truth.accounts, results.accounts),
    )
    rows = sum(map(len, (results.ledger, results.windows, results.confirmed, results.counter)))
    counts = Counter(finding.fault for finding in findings)
    return Comparison(findings, rows, len(results.accounts or ()), counts)


def _check_ledger(truth: Truth, rows: Sequence[Row]) -> Iterator[Finding]:
    seen: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    for row in rows:
        if row["row"] != "event":
            continue
        key, sequence = str(row["key"]), _int(row["sequence"])
        if (key, sequence) in seen:
            yield Finding(Fault.REPEATED, "ledger", key, sequence)
        elif sequence < newest.get(key, 0):
            yield Finding(Fault.REORDERED, "ledger", key, sequence, f"comes after {newest[key]}")
        seen.add((key, sequence))
        newest[key] = max(sequence, newest.get(key, 0))
        yield from _differences("ledger", key, sequence, _ledger_row(row), truth.ledger.get((key, sequence)))
    for key, sequence in truth.ledger:
        if (key, sequence) not in seen:
            yield Finding(Fault.LOST, "ledger", key, sequence)


def _check_periods(truth: Truth, rows: Sequence[Row]) -> Iterator[Finding]:
    found = [
        ((str(row["key"]), _int(row["due_ms"])), (_int(row["fired"]), _int(row["in_period"])))
        for row in rows
        if row["row"] == "period"
    ]
    yield from _check_table("periods", found, truth.periods)


def _check_memory(rows: Sequence[Row]) -> Iterator[Finding]:
    """A value with a time to live is there until it has lived, and gone from then on, by the batches' own clock."""
    before: dict[str, Row] = {}
    for row in rows:
        if row["row"] != "event":
            continue
        key, now_ms = str(row["key"]), _int(row["processed_ms"])
        previous, before[key] = before.get(key), row
        # What came twice, or in another order, is named elsewhere.
        if previous is None or _int(row["sequence"]) != _int(previous["sequence"]) + 1:
            continue
        then_ms = _int(previous["processed_ms"])
        expected = then_ms if now_ms < then_ms + REMEMBERED_MS else None
        yield from _differences("remembered", key, _int(row["sequence"]), row["remembered_ms"], expected)


def _check_reports(accounts: Mapping[str, Account], results: Results) -> Iterator[Finding]:
    """When a timer by the clock fires is nobody's to know; each event is in one report, and reports are numbered."""
    reports: dict[str, list[tuple[int, int]]] = {key: [] for key in accounts}
    for row in results.ledger:
        if row["row"] == "report":
            reports.setdefault(str(row["key"]), []).append((_int(row["fired"]), _int(row["in_period"])))
    for key, told in sorted(reports.items()):
        numbers = Counter(number for number, _ in told)
        newest = max(numbers, default=0)
        misnumbered = [Finding(Fault.REPEATED, "reports", key, number) for number in numbers if numbers[number] > 1]
        misnumbered += [
            Finding(Fault.LOST, "reports", key, number) for number in range(1, newest) if not numbers[number]
        ]
        yield from misnumbered
        if misnumbered or results.unreported is None:
            continue
        reported, waiting = sum(events for _, events in told), results.unreported.get(key, 0)
        must = accounts[key].events if key in accounts else 0
        yield from _differences("reports", key, newest, reported + waiting, must)


def _check_table(
    output: str,
    found: Iterable[tuple[tuple[str, int], object]],
    expected: Mapping[tuple[str, int], object],
) -> Iterator[Finding]:
    seen: set[tuple[str, int]] = set()
    for place, values in found:
        if place in seen:
            yield Finding(Fault.REPEATED, output, *place)
        seen.add(place)
        yield from _differences(output, *place, values, expected.get(place))
    for place in expected:
        if place not in seen:
            yield Finding(Fault.LOST, output, *place)


def _check_counter(rows: Sequence[Row], counted: Sequence[int] | None) -> Iterator[Finding]:
    found = Counter((f"subtask-{row['subtask']}", _int(row["number"])) for row in rows)
    for place, times in sorted(found.items()):
        if times > 1:
            yield Finding(Fault.REPEATED, "counter", *place, f"is there {times} times")
    ends = _ends(found) if counted is None else {f"subtask-{place}": count for place, count in enumerate(counted)}
    for key, end in ends.items():
        for number in range(end):
            if (key, number) not in found:
                yield Finding(Fault.LOST, "counter", key, number)
    for key, number in sorted(found):
        if number >= ends.get(key, 0):
            yield Finding(Fault.STALE, "counter", key, number, f"is there, and the state says {ends.get(key, 0)}")


def _ends(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for key, number in found:
        ends[key] = max(number + 1, ends.get(key, 0))
    return ends


def _check_accounts(truth: Mapping[str, Account], found: Mapping[str, Account] | None) -> Iterator[Finding]:
    if found is None:
        return
    for key in sorted({*truth, *found}):
        expected, value = truth.get(key), found.get(key)
        if value is None and expected is not None:
            yield Finding(Fault.LOST, "state", key, expected.sequence)
        elif value is not None and expected is None:
            yield Finding(Fault.DIFFERENT, "state", key, value.sequence, "is not known")
        elif value is not None and expected is not None:
            yield from _stale_values(key, value, expected)


def _stale_values(key: str, value: Account, expected: Account) -> Iterator[Finding]:
    for name in Account.__dataclass_fields__:
        has, must = getattr(value, name), getattr(expected, name)
        if has != must:
            yield Finding(Fault.STALE, f"state {name}", key, expected.sequence, f"is {has}, must be {must}")


def _differences(output: str, key: str, number: int, found: object, expected: object) -> Iterator[Finding]:
    if found != expected:
        yield Finding(Fault.DIFFERENT, output, key, number, f"is {found}, must be {expected}")


def _ledger_row(row: Row) -> LedgerRow:
    latest = row["latest"]
    assert isinstance(latest, (list, tuple))
    return LedgerRow(
        number=_int(row["number"]),
        balance=_int(row["balance"]),
        largest=_int(row["largest"]),
        of_kind=_int(row["of_kind"]),
        latest=tuple(map(_int, latest)),
    )


def _windows(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, int], tuple[int, int]]]:
    for row in rows:
        yield (str(row["key"]), _int(row["begin_ms"])), (_int(row["events"]), _int(row["total"]))


def _confirmed(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, int], tuple[int, int, int]]]:
    for row in rows:
        values = (_int(row["sequence"]), _int(row["amount"]), _int(row["confirmed_ms"]))
        yield (str(row["key"]), _int(row["number"])), values


def _by_key(confirmed: Mapping[int, tuple[str, int, int, int]]) -> dict[tuple[str, int], tuple[int, int, int]]:
    return {(key, number): tuple(values) for number, (key, *values) in confirmed.items()}  # type: ignore[misc]


def _int(value: object) -> int:
    assert isinstance(value, int), f"{value!r} is no number"
    return value
