"""Catalogs of Iceberg whose answer to a commit is not what has happened: the table survives, and each row is there once.

A commit that was carried out may be reported as a conflict: a gateway, a mesh or the client of a cloud's catalog loses the
answer and sends the request again, which meets its own result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from icebergshop import CATALOGS, FILES, Shop
from pyiceberg import exceptions as iceberg_errors
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from statefulspark import errors


@pytest.fixture
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(tmp_path, getattr(request, "param", "sql"), stack)


through_rest = pytest.mark.parametrize("shop", ["rest"], indirect=True)
through_each = pytest.mark.parametrize("shop", list(CATALOGS), indirect=True)


@through_rest
def test_a_request_that_a_gateway_sent_twice_destroys_no_table_and_counts_as_committed(shop: Shop) -> None:
    shop.gateway.sends_twice = 1
    shop.sink.open(shop.at(-1))
    shop.commit(0, 1, 2)
    shop.gateway.sends_twice = 1
    shop.commit(1, 3)
    shop.commit(2, 4)
    assert (shop.read(), shop.gateway.commits) == ([1, 2, 3, 4], [200, 409, 200, 200, 409, 200])


@through_rest
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_failure_that_is_told_after_the_success_counts_as_committed(shop: Shop, status: int) -> None:
    shop.gateway.fails_after = [status]
    shop.sink.open(shop.at(-1))
    shop.gateway.fails_after = [status]
    shop.commit(0, 1, 2)
    shop.commit(1, 3)
    assert (shop.read(), shop.gateway.commits) == ([1, 2, 3], [200, 200, 200])


After = Literal["before", "after"]
LOST: Mapping[str, Callable[[], Exception]] = {
    "conflict": lambda: iceberg_errors.CommitFailedException("detected concurrent update"),
    "validation": lambda: iceberg_errors.ValidationException("cannot find starting snapshot"),
    "unknown": lambda: iceberg_errors.CommitStateUnknownException("no answer"),
    "an error of the catalog's client": lambda: RuntimeError("the connection was closed"),
}


def answers(monkeypatch: pytest.MonkeyPatch, shop: Shop, *, error: Exception, after: After, attempt: int = 0) -> None:
    """Have the catalog raise once: before it carries a commit out, or after that, as Glue does for its repeated request."""
    kind = CATALOGS["sql" if dict(shop.sink.settings.catalog)["type"] == "sql" else "rest"]
    plain, attempts = kind.commit_table, itertools.count()

    def commit_table(*args: object) -> object:
        if next(attempts) != attempt:
            return plain(*args)  # type: ignore[arg-type]
        if after == "after":
            plain(*args)  # type: ignore[arg-type]
        raise error

    monkeypatch.setattr(kind, "commit_table", commit_table)


@through_each
@pytest.mark.parametrize("lost", list(LOST))
def test_a_commit_that_landed_counts_as_committed_whatever_the_catalog_raised(
    shop: Shop, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, shop, error=LOST[lost](), after="after", attempt=1)
    shop.sink.open(shop.at(-1))
    shop.commit(0, 1, 2)
    shop.commit(1, 3)
    assert shop.read() == [1, 2, 3]


@through_each
def test_opening_that_landed_counts_as_opened(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, shop, error=LOST["conflict"](), after="after")
    shop.sink.open(shop.at(-1))
    shop.commit(0, 1)
    assert (shop.read(), len(shop.table.snapshots())) == ([1], 2)


@through_each
def test_a_conflict_that_kept_a_commit_out_is_told_and_the_batch_is_committed_by_the_next_attempt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, shop, error=LOST["conflict"](), after="before", attempt=1)
    shop.sink.open(shop.at(-1))
    prepared = shop.prepared(0, 1, 2)
    with pytest.raises(errors.TransientError, match=r"IcebergRaced.*another writer committed at the same time"):
        shop.sink.commit(prepared, shop.at(0))
    shop.sink.commit(prepared, shop.at(0))
    assert shop.read() == [1, 2]


@through_each
def test_a_commit_whose_conflict_cannot_be_looked_into_is_tried_again_and_nothing_is_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sink.open(shop.at(-1))
    prepared = shop.prepared(0, 1, 2)
    kind = type(load_catalog("default", **{**dict(shop.sink.settings.catalog), **FILES}))
    loads, plain = itertools.count(), kind.load_table

    def load_table(self: Catalog, *args: object) -> Table:
        if raised and next(loads) == 0:
            raise OSError("the catalog is away")
        return plain(self, *args)  # type: ignore[arg-type]

    raised: list[bool] = []

    def commit_table(self: Catalog, *args: object) -> None:
        monkeypatch.setattr(kind, "commit_table", landing)
        landing(self, *args)  # type: ignore[arg-type]
        raised.append(True)
        raise LOST["conflict"]()

    landing = kind.commit_table
    monkeypatch.setattr(kind, "commit_table", commit_table)
    monkeypatch.setattr(kind, "load_table", load_table)
    with pytest.raises(errors.TransientError, match=r"IcebergUnavailable.*the catalog is away"):
        shop.sink.commit(prepared, shop.at(0))
    shop.sink.commit(prepared, shop.at(0))
    assert shop.read() == [1, 2]


def test_a_table_that_asks_for_retries_is_not_committed_to_behind_the_sinks_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.table.transaction() as transaction:
        transaction.set_properties({TableProperties.COMMIT_NUM_RETRIES: "5"})
    answers(monkeypatch, shop, error=LOST["conflict"](), after="before", attempt=1)
    shop.sink.open(shop.at(-1))
    with pytest.raises(errors.TransientError, match="IcebergRaced"):
        shop.commit(0, 1)
    assert (shop.read(), shop.table.properties[TableProperties.COMMIT_NUM_RETRIES]) == ([], "5")


class NotToldError(Exception):
    """Nobody knows whether the commit has happened."""


class Silent(NoopCatalog):
    def commit_table(self, table: Table, *_: object) -> CommitTableResponse:
        raise NotToldError(table.name())


def test_this_pyiceberg_commits_through_the_tables_catalog_and_cleans_up_after_nothing_but_its_own_conflicts(
    shop: Shop,
) -> None:
    """Name what the sink relies on: a pyiceberg that commits another way, or cleans up after any error, fails here."""
    before, table = shop.stored(), shop.table
    table.catalog = Silent("silent")
    transaction = table.transaction()
    with transaction.update_snapshot().fast_append():
        pass
    with pytest.raises(NotToldError):
        transaction.commit_transaction()
    (manifest_list,) = shop.stored() - before
    assert manifest_list.startswith("snap-")
