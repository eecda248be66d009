"""Set what came out against the truth: every key, every field, every batch.

- lost: a flight without its row, or a carrier without its row in a batch in which it flew;
- repeated: a row more than once, or a carrier's row that goes back behind an earlier one;
- different: a row whose fields are not exactly the truth's, or a row that the truth does not know.

Numbers are compared exactly, floating point too: both sides divide the same two integers.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.results import Batch
from oracle.truth import Fields, Truth

EXAMPLES_MAX = 10
SECOND_VERSION_FIELDS = frozenset({"delayed_share", "job_version"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the comparison found.

    Attributes:
        lost: Rows that must be there and are not.
        repeated: Rows that are there once too often.
        different: Rows that are not what the truth says.
        keys: Distinct keys compared: flights and carriers.
        fields: Single values compared.
        rows_by_version: Rows of the carriers by the version of the job that wrote them.
        examples: The first few findings, each a sentence.
    """

    lost: int
    repeated: int
    different: int
    keys: int
    fields: int
    rows_by_version: Mapping[int, int]
    examples: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Tell whether nothing is lost, repeated or different."""
        return self.lost == self.repeated == self.different == 0


@dataclass(frozen=True, slots=True)
class _Finding:
    kind: str
    sentence: str


def compare(truth: Truth, *, aircraft: Sequence[Batch], carriers: Sequence[Batch]) -> Comparison:
    """Compare everything that was committed with the truth.

    Args:
        truth: What must come out.
        aircraft: Batches of the query `aircraft`, in order.
        carriers: Batches of the query `carriers`, in order.
    """
    findings = [*_check_aircraft(truth, aircraft), *_check_carriers(truth, carriers)]
    kinds = Counter(finding.kind for finding in findings)
    rows = [row for batches in (aircraft, carriers) for batch in batches for row in batch.rows]
    return Comparison(
        lost=kinds["lost"],
        repeated=kinds["repeated"],
        different=kinds["different"],
        keys=len(truth.aircraft) + len(truth.carriers),
        fields=sum(map(len, rows)),
        rows_by_version=dict(sorted(Counter(_version(row) for batch in carriers for row in batch.rows).items())),
        examples=tuple(f"{finding.kind}: {finding.sentence}" for finding in findings[:EXAMPLES_MAX]),
    )


def _check_aircraft(truth: Truth, batches: Sequence[Batch]) -> Iterator[_Finding]:
    seen: Counter[object] = Counter()
    for batch in batches:
        for row in batch.rows:
            flight_id = row.get("flight_id")
            seen[flight_id] += 1
            if seen[flight_id] > 1:
                yield _Finding("repeated", f"flight {flight_id} came out again in batch {batch.batch_id}")
            expected = truth.aircraft.get(flight_id) if isinstance(flight_id, int) else None
            yield from _differences(f"flight {flight_id} in batch {batch.batch_id}", row, expected)
    for flight_id in truth.aircraft:
        if flight_id not in seen:
            yield _Finding("lost", f"flight {flight_id} never came out")


def _check_carriers(truth: Truth, batches: Sequence[Batch]) -> Iterator[_Finding]:
    yield from _check_versions(batches)
    flown = {carrier: tuple(history) for carrier, history in truth.carriers.items()}
    latest = dict.fromkeys(flown, 0)
    start = 0
    for batch in batches:
        end = max((_last_flight(row) for row in batch.rows), default=start)
        if end not in truth.day_ends and batch.rows:
            yield _Finding("lost", f"batch {batch.batch_id} of the carriers ends at flight {end}, inside a day")
        for row in batch.rows:
            yield from _check_carrier_row(truth, batch.batch_id, row, latest)
        for carrier, flights in flown.items():
            due = _last_up_to(end, flights)
            if latest[carrier] < due:
                yield _Finding("lost", f"carrier {carrier} has no row in batch {batch.batch_id} for flight {due}")
                latest[carrier] = due
        start = max(start, end)
    for carrier, flights in flown.items():
        if latest[carrier] < flights[-1]:
            yield _Finding("lost", f"carrier {carrier} ends at flight {latest[carrier]} instead of {flights[-1]}")


def _last_up_to(end: int, flights: Sequence[int]) -> int:
    """Return the last of the ordered flights that is not after `end`, 0 if there is none."""
    place = bisect.bisect_right(flights, end)
    return flights[place - 1] if place else 0


def _check_carrier_row(truth: Truth, batch_id: int, row: Fields, latest: dict[str, int]) -> Iterator[_Finding]:
    carrier, last_flight = str(row.get("carrier")), _last_flight(row)
    where = f"carrier {carrier} at flight {last_flight} in batch {batch_id}"
    expected = truth.carriers.get(carrier, {}).get(last_flight)
    yield from _differences(where, row, _as_written_by(_version(row), expected))
    if carrier not in latest:
        return
    if last_flight <= latest[carrier]:
        yield _Finding("repeated", f"{where} came out after the row for flight {latest[carrier]}")
    latest[carrier] = max(latest[carrier], last_flight)


def _check_versions(batches: Sequence[Batch]) -> Iterator[_Finding]:
    newest = 1
    for batch in batches:
        versions = {_version(row) for row in batch.rows}
        if len(versions) > 1 or any(version < newest for version in versions):
            yield _Finding("different", f"batch {batch.batch_id} of the carriers mixes versions {sorted(versions)}")
        newest = max({newest} | versions)


def _as_written_by(version: int, expected: Fields | None) -> Fields | None:
    """Return the fields that a version of the job writes: the second adds some, the first has none of them."""
    if expected is None:
        return None
    if version == 1:
        return {name: value for name, value in expected.items() if name not in SECOND_VERSION_FIELDS}
    return {**expected, "job_version": 2}


def _differences(where: str, row: Fields, expected: Fields | None) -> Iterator[_Finding]:
    if expected is None:
        yield _Finding("different", f"{where} is unknown to the truth")
        return
    names = sorted(row.keys() | expected.keys())
    wrong = [name for name in names if not _is_same(name, row, expected)]
    if not wrong:
        return
    details = ", ".join(f"{name} is {row.get(name, 'absent')}, not {expected.get(name, 'absent')}" for name in wrong)
    yield _Finding("different", f"{where}: {details}")


def _is_same(name: str, row: Fields, expected: Fields) -> bool:
    """Tell whether both sides have the same value of the same type; 1 is neither 1.0 nor True."""
    if name not in row or name not in expected:
        return False
    return type(row[name]) is type(expected[name]) and row[name] == expected[name]


def _last_flight(row: Fields) -> int:
    value = row.get("last_flight_id")
    return value if isinstance(value, int) else 0


def _version(row: Fields) -> int:
    value = row.get("job_version", 1)
    return value if isinstance(value, int) else 0
