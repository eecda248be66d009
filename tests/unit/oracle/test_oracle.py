"""The comparison with the truth finds every kind of fault, in the results and in the truth's own input.

The results are made by a third, deliberately naive implementation over the first ten days of the real flights, written
as Parquet behind commit files and read back the way the demo does it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow
import pyarrow.parquet
import pytest
from oracle import compare, results, truth

pytestmark = pytest.mark.slow

Row = dict[str, truth.Value]
DAYS = 10
DAYS_PER_BATCH = 2
SECOND_VERSION_FROM_BATCH = 3
CARRIERS = 15
"""Carriers that fly in the first ten days."""


class Folder:
    """A sink's folder in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def read(self, key: str) -> bytes:
        return self.objects[key]

    def read_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {key: self.objects[key] for key in keys}

    def list_names(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(key.removeprefix(f"{prefix}/") for key in self.objects if key.startswith(f"{prefix}/")))

    def commit(self, batch_id: int, rows: Sequence[Row], *, claimed_rows: int | None = None) -> None:
        path = f"data/part-{batch_id}.parquet"
        body = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), body)
        self.objects[path] = body.getvalue()
        count = len(rows) if claimed_rows is None else claimed_rows
        document = {
            "batchId": batch_id,
            "epoch": 1,
            "committedAt": "2026-01-01T00:00:00Z",
            "files": [{"path": path, "rows": count, "sizeBytes": len(self.objects[path])}],
        }
        self.objects[f"_commits/{batch_id:08d}.json"] = json.dumps(document).encode()


def test_a_withdrawn_commit_is_none_until_the_driver_that_put_it_there_has_one() -> None:
    store = Folder()
    store.commit(0, [{"flight_id": 1}])
    fence = {"batchId": 1, "epoch": 2, "committedAt": "2026-01-01T00:00:00Z", "files": [], "withdrawn": True}
    store.objects["_commits/00000001.json"] = json.dumps(fence).encode()

    assert [commit.batch_id for commit in results.read_commits(store)] == [0]
    assert results.last_batch(store) == 0
    store.commit(1, [{"flight_id": 2}, {"flight_id": 3}])
    assert [commit.rows for commit in results.read_commits(store, after_batch=0)] == [2]
    assert results.last_batch(store) == 1
    assert results.last_batch(Folder()) == -1


@pytest.fixture(scope="module")
def flights() -> tuple[truth.Flight, ...]:
    days = {(2013, 1, day) for day in range(1, DAYS + 1)}
    return tuple(flight for flight in truth.raw_flights() if flight.day in days)


@pytest.fixture(scope="module")
def computed(flights: tuple[truth.Flight, ...]) -> truth.Truth:
    return truth.compute(flights)


@pytest.fixture(scope="module")
def all_aircraft(flights: tuple[truth.Flight, ...]) -> list[list[Row]]:
    batches = _by_batch(flights)
    return [[_logbook_row(prefix) for prefix in _prefixes(flights, batch, "tail_number")] for batch in batches]


@pytest.fixture(scope="module")
def all_carriers(flights: tuple[truth.Flight, ...]) -> list[list[Row]]:
    rows: list[list[Row]] = []
    for batch_id, batch in enumerate(_by_batch(flights)):
        latest = {prefix[-1][1].carrier: prefix for prefix in _prefixes(flights, batch, "carrier")}
        rows.append([_score_row(prefix, batch_id) for prefix in latest.values()])
    return rows


@pytest.fixture
def aircraft(all_aircraft: list[list[Row]]) -> list[list[Row]]:
    """Rows of the aircraft query by batch, to be damaged."""
    return [list(rows) for rows in all_aircraft]


@pytest.fixture
def carriers(all_carriers: list[list[Row]]) -> list[list[Row]]:
    """Rows of the carriers query by batch, to be damaged."""
    return [list(rows) for rows in all_carriers]


def test_exact_results_are_found_exact(
    computed: truth.Truth, aircraft: list[list[Row]], carriers: list[list[Row]]
) -> None:
    found = _compare(computed, aircraft, carriers)

    assert found.examples == ()
    assert found.is_exact
    assert found.keys == computed.flights + CARRIERS
    assert found.rows_by_version == {1: sum(map(len, carriers[:3])), 2: sum(map(len, carriers[3:]))}


def _drop(rows: list[list[Row]]) -> None:
    rows[2].pop(7)


def _double(rows: list[list[Row]]) -> None:
    rows[2].append(rows[2][7])


def _double_in_a_later_batch(rows: list[list[Row]]) -> None:
    rows[3].append(rows[2][7])


def _change(field: str, change: Callable[[truth.Value], truth.Value]) -> Callable[[list[list[Row]]], None]:
    def apply(rows: list[list[Row]]) -> None:
        rows[2][7] = {**rows[2][7], field: change(rows[2][7][field])}

    return apply


def _one_more(value: truth.Value) -> truth.Value:
    return (value or 0) + 1 if isinstance(value, int | float | None) else f"{value}X"


AIRCRAFT_FIELDS = ("flight_id", "tailnum", "flights", "cancelled", "previous_arr_delay", "total_dep_delay")
CARRIER_FIELDS = (
    "carrier",
    "last_flight_id",
    "flights",
    "cancelled",
    "delayed",
    "total_dep_delay",
    "mean_dep_delay",
    "worst_dep_delay",
)


@pytest.mark.parametrize("query", ["aircraft", "carriers"])
@pytest.mark.parametrize(
    ("damage", "kind"),
    [(_drop, "lost"), (_double, "repeated"), (_double_in_a_later_batch, "repeated")],
    ids=[
        "one removed row is lost",
        "one doubled row is repeated",
        "a row that comes again in a later batch is repeated",
    ],
)
def test_one_row_too_few_or_too_many_is_found(
    query: str,
    damage: Callable[[list[list[Row]]], None],
    kind: str,
    computed: truth.Truth,
    aircraft: list[list[Row]],
    carriers: list[list[Row]],
) -> None:
    damage(aircraft if query == "aircraft" else carriers)

    found = _compare(computed, aircraft, carriers)

    assert {"lost": found.lost, "repeated": found.repeated}[kind] == 1
    assert not found.is_exact


@pytest.mark.parametrize(
    ("query", "field"),
    [("aircraft", field) for field in AIRCRAFT_FIELDS] + [("carriers", field) for field in CARRIER_FIELDS],
)
def test_one_changed_value_of_any_field_is_found(
    query: str, field: str, computed: truth.Truth, aircraft: list[list[Row]], carriers: list[list[Row]]
) -> None:
    _change(field, _one_more)(aircraft if query == "aircraft" else carriers)

    found = _compare(computed, aircraft, carriers)

    assert found.different >= 1
    assert not found.is_exact


@pytest.mark.parametrize("field", ["delayed_share", "job_version"])
def test_a_column_of_the_new_version_that_is_wrong_or_missing_is_found(
    field: str, computed: truth.Truth, aircraft: list[list[Row]], carriers: list[list[Row]]
) -> None:
    wrong = [dict(row) for row in carriers[4]]
    wrong[0][field] = 7
    missing = [{name: value for name, value in row.items() if name != field} for row in carriers[4]]

    assert _compare(computed, aircraft, [*carriers[:4], wrong]).different >= 1
    assert _compare(computed, aircraft, [*carriers[:4], missing]).different >= CARRIERS


def test_rows_of_the_old_version_after_the_new_one_are_found(
    computed: truth.Truth, aircraft: list[list[Row]], carriers: list[list[Row]]
) -> None:
    old = [{name: row[name] for name in CARRIER_FIELDS} for row in carriers[4]]

    found = _compare(computed, aircraft, [*carriers[:4], old])

    assert found.different == 1
    assert "mixes versions" in found.examples[0]


@pytest.mark.parametrize(
    "damage",
    [lambda flights: flights[:4000] + flights[4001:], lambda flights: (*flights, flights[4000])],
    ids=["one record of the input removed", "one record of the input doubled"],
)
def test_a_truth_from_other_input_does_not_match(
    damage: Callable[[tuple[truth.Flight, ...]], tuple[truth.Flight, ...]],
    flights: tuple[truth.Flight, ...],
    aircraft: list[list[Row]],
    carriers: list[list[Row]],
) -> None:
    found = _compare(truth.compute(damage(flights)), aircraft, carriers)

    assert found.different > 1000
    assert found.lost + found.different >= found.keys - 4100


def test_a_commit_that_claims_other_row_counts_than_its_files_is_refused() -> None:
    folder = Folder()
    folder.commit(0, [{"flight_id": 1}], claimed_rows=2)

    with pytest.raises(ValueError, match="committed with 2 rows; its files hold 1"):
        results.read_batches(folder)


def test_the_truth_has_the_known_figures_of_the_whole_year() -> None:
    """The counts that the data set's documentation and every other tool give for it."""
    raw = truth.raw_flights()
    whole = truth.compute(raw)
    last = {carrier: list(history.values())[-1] for carrier, history in whole.carriers.items()}

    assert whole.flights == 336_776
    assert len(whole.day_ends) == 365
    assert len({row["tailnum"] for row in whole.aircraft.values()}) == 4_044
    assert sum(int(row["cancelled"] or 0) for row in last.values()) == 8_255
    assert last["UA"]["flights"] == 58_665
    assert max(int(row["worst_dep_delay"] or 0) for row in last.values()) == 1_301
    assert sum(flight.arrival_delay_min is None for flight in raw) == 9_430


def _compare(
    expected: truth.Truth, aircraft: Sequence[Sequence[Row]], carriers: Sequence[Sequence[Row]]
) -> compare.Comparison:
    return compare.compare(
        expected,
        aircraft=results.read_batches(_folder(aircraft)),
        carriers=results.read_batches(_folder(carriers)),
    )


def _folder(batches: Sequence[Sequence[Row]]) -> Folder:
    folder = Folder()
    for batch_id, rows in enumerate(batches):
        folder.commit(batch_id, rows)
    return folder


Numbered = tuple[int, truth.Flight]


def _by_batch(flights: Iterable[truth.Flight]) -> list[list[Numbered]]:
    ordered = sorted(flights, key=lambda f: (f.day, f.scheduled, f.carrier, f.number, f.origin))
    batches: list[list[Numbered]] = [[] for _ in range(DAYS // DAYS_PER_BATCH)]
    for flight_id, flight in enumerate(ordered, start=1):
        batches[(flight.day[2] - 1) // DAYS_PER_BATCH].append((flight_id, flight))
    return batches


def _prefixes(flights: Iterable[truth.Flight], batch: Sequence[Numbered], key: str) -> Iterable[list[Numbered]]:
    """Yield, for each flight of the batch, all flights of its key up to and including it."""
    of_key: dict[str, list[Numbered]] = {}
    first = batch[0][0]
    for every in _by_batch(flights):
        for flight_id, flight in every:
            prefix = of_key.setdefault(getattr(flight, key), [])
            prefix.append((flight_id, flight))
            if first <= flight_id <= batch[-1][0]:
                yield list(prefix)


def _logbook_row(prefix: Sequence[Numbered]) -> Row:
    flight_id, flight = prefix[-1]
    arrivals = [f.arrival_delay_min for _, f in prefix[:-1] if f.arrival_delay_min is not None]
    return {
        "flight_id": flight_id,
        "tailnum": flight.tail_number,
        "flights": len(prefix),
        "cancelled": sum(f.departure_delay_min is None for _, f in prefix),
        "previous_arr_delay": arrivals[-1] if arrivals else None,
        "total_dep_delay": sum(f.departure_delay_min or 0 for _, f in prefix),
    }


def _score_row(prefix: Sequence[Numbered], batch_id: int) -> Row:
    delays = [f.departure_delay_min for _, f in prefix if f.departure_delay_min is not None]
    delayed = sum(delay > 15 for delay in delays)
    row: Row = {
        "carrier": prefix[-1][1].carrier,
        "last_flight_id": prefix[-1][0],
        "flights": len(prefix),
        "cancelled": len(prefix) - len(delays),
        "delayed": delayed,
        "total_dep_delay": sum(delays),
        "mean_dep_delay": sum(delays) / len(delays) if delays else None,
        "worst_dep_delay": max(delays, default=None),
    }
    if batch_id < SECOND_VERSION_FROM_BATCH:
        return row
    return {**row, "delayed_share": delayed / len(delays) if delays else None, "job_version": 2}
