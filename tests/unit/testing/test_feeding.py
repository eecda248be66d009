"""Rows of a test become files that a source reads as batches, in the order in which they were added."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from statefulspark.planning.fed_sources import FedSource
from statefulspark.testing.failures import JobTestError
from statefulspark.testing.feeding import Feed

COLUMNS = pa.schema([("customer", pa.string()), ("amount", pa.int32())])


def fed(folder: Path, **sources: str) -> tuple[Feed, dict[str, Path]]:
    """Return a feed with a source for each query, and their folders."""
    feed = Feed(folder)
    folders = {query: feed.folder_of(query, name) for query, name in sources.items()}
    for query, name in sources.items():
        feed.use(query, [FedSource(query, name, folders[query], COLUMNS)])
    return feed, folders


def seen(folder: Path) -> list[list[dict[str, object]]]:
    """Return the batches that Spark sees: it takes files by their time, and none whose name begins with `_`."""
    files = sorted(folder.glob("[!_]*"), key=lambda file: file.stat().st_mtime)
    return [parquet.read_table(file).to_pylist() for file in files]


def test_rows_wait_until_they_are_released_and_each_time_is_a_batch(tmp_path: Path) -> None:
    feed, folders = fed(tmp_path, totals="orders")
    feed.add("orders", [{"customer": "ada", "amount": 1}, {"customer": "bob"}])
    feed.add(None, [{"customer": "ada", "amount": 2}])
    before = seen(folders["totals"])

    feed.release()

    assert before == []
    assert seen(folders["totals"]) == [
        [{"customer": "ada", "amount": 1}, {"customer": "bob", "amount": None}],
        [{"customer": "ada", "amount": 2}],
    ]
    assert not feed.has_waiting


def test_every_query_that_reads_a_name_gets_its_rows(tmp_path: Path) -> None:
    feed, folders = fed(tmp_path, totals="shop/orders", archive="shop/orders", clicks="clicks")
    feed.add("shop/orders", [{"customer": "ada"}])

    feed.release()

    assert feed.names == ("clicks", "shop/orders")
    assert {query: len(seen(folder)) for query, folder in folders.items()} == {"totals": 1, "archive": 1, "clicks": 0}


def test_sources_that_a_new_version_does_not_read_are_forgotten(tmp_path: Path) -> None:
    feed, folders = fed(tmp_path, totals="orders")

    feed.use("totals", [FedSource("totals", "sales", folders["totals"], COLUMNS)])

    assert feed.names == ("sales",)


@pytest.mark.parametrize(
    ("name", "row", "why"),
    [
        (None, {}, "The job reads 'clicks', 'orders'; say which of them gets the rows, by source=."),
        ("order", {}, "No source of the job is named 'order'; it reads 'clicks', 'orders'."),
        ("orders", {"amuont": 1}, "of query 'totals' has no column 'amuont'; it has customer, amount."),
        ("orders", {"amount": "1"}, "The rows do not fit the source 'orders' of query 'totals': "),
        ("orders", {"amount": 2**31}, "Its columns are customer string, amount int32."),
    ],
    ids=["no name", "wrong name", "wrong column", "wrong type", "too large"],
)
def test_rows_that_no_source_can_have_are_refused(
    name: str | None, row: dict[str, object], why: str, tmp_path: Path
) -> None:
    feed, folders = fed(tmp_path, totals="orders", counts="clicks")

    with pytest.raises(JobTestError) as refused:
        feed.add(name, [row])

    feed.release()
    assert why in str(refused.value)
    assert seen(folders["totals"]) == []
