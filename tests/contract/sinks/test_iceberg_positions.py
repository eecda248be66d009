"""An Iceberg table whose property and snapshots were changed by others: what the sink takes for its position then."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import sinkcontexts
from icebergshop import SCHEMA, Shop
from pyarrow import Table as Rows
from statefulspark import errors
from statefulspark.contract.manifest import Position
from statefulspark.contract.rights import SinkRight
from statefulspark.sinks import standing


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Return a table with the batches 0 and 1."""
    with ExitStack() as stack:
        shop = Shop(tmp_path, "sql", stack)
        shop.sink.open(shop.at(-1))
        shop.commit(0, 1)
        shop.commit(1, 2)
        yield shop


def reached(shop: Shop) -> int | None:
    """Return the last batch that the sink takes for committed; -1 for none, None if it takes itself for new."""
    stored = shop.sink.stored_marker(shop.at(-1))
    if stored is None:
        return None
    return -1 if stored.newest is None else stored.newest.batch_id


def name_of(shop: Shop) -> str:
    return f"statefulspark.marker.{shop.at(0).transactional_id}"


def drop_the_property(shop: Shop) -> None:
    with shop.table.transaction() as transaction:
        transaction.remove_properties(name_of(shop))


def roll_back(shop: Shop, commits: int) -> None:
    """Set the table back before the last commits, as `rollback_to_snapshot` of Spark and Trino does."""
    past = shop.table.history()[-1 - commits].snapshot_id
    shop.table.manage_snapshots().rollback_to_snapshot(past).commit()


def write_as_somebody_else(shop: Shop, number: int) -> None:
    shop.table.append(Rows.from_pydict({"id": [number]}, schema=SCHEMA))


def expire_all_but_the_current_one(shop: Shop) -> None:
    table = shop.table
    old = [one.snapshot_id for one in table.snapshots() if one != table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def test_a_marker_that_a_tool_dropped_is_found_in_the_snapshots_and_nothing_is_repeated(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    last = shop.prepared(1, 2)
    drop_the_property(shop)
    with caplog.at_level(logging.WARNING):
        shop.sink.commit(last, shop.at(1))
    shop.commit(2, 3)
    drop_the_property(shop)
    shop.sink.open(shop.at(2, epoch=2))
    shop.sink.commit(last, shop.at(1, epoch=2))
    assert shop.read() == [1, 2, 3]
    assert name_of(shop) in shop.table.properties
    (told,) = {vars(record)["why"] for record in caplog.records if "a sink has committed" in record.getMessage()}
    assert told == "the property of the table is missing, and a snapshot has the marker"


def test_a_driver_that_was_replaced_is_still_fenced_when_the_property_is_gone(shop: Shop) -> None:
    late = shop.prepared(2, 3)
    shop.sink.open(shop.at(1, epoch=2))
    drop_the_property(shop)
    with pytest.raises(errors.FencedError, match="Epoch 2 writes to the table"):
        shop.sink.commit(late, shop.at(2))


def test_a_marker_that_is_gone_with_its_snapshots_is_refused_with_the_true_reason(shop: Shop) -> None:
    write_as_somebody_else(shop, 100)
    expire_all_but_the_current_one(shop)
    drop_the_property(shop)
    with pytest.raises(
        errors.StateUnknownError, match=r"SinkMarkerMissing: The sink 'out' has no marker in the table shop"
    ):
        shop.commit(2, 3)
    assert shop.read() == [1, 2, 100]


def test_a_property_that_was_set_back_does_not_repeat_what_followed(shop: Shop) -> None:
    old = shop.table.properties[name_of(shop)]
    last = shop.prepared(2, 3)
    shop.sink.commit(last, shop.at(2))
    with shop.table.transaction() as transaction:
        transaction.set_properties({name_of(shop): old})
    shop.sink.commit(last, shop.at(2))
    assert (reached(shop), shop.read()) == (2, [1, 2, 3])


def test_a_table_that_was_rolled_back_tells_the_batches_that_it_has(shop: Shop) -> None:
    roll_back(shop, 1)
    assert (reached(shop), shop.read()) == (0, [1])
    write_as_somebody_else(shop, 100)
    assert reached(shop) == 0


def test_a_table_that_was_rolled_back_still_fences_who_was_replaced(shop: Shop) -> None:
    late = shop.prepared(2, 3)
    shop.sink.open(shop.at(1, epoch=2))
    roll_back(shop, 2)
    with pytest.raises(errors.FencedError, match="Epoch 2 writes to the table"):
        shop.sink.commit(late, shop.at(2))


def test_a_table_that_was_rolled_back_to_before_the_sink_has_nothing_of_it(shop: Shop) -> None:
    roll_back(shop, 3 - 1)
    assert (reached(shop), shop.read()) == (-1, [])


def test_a_rollback_whose_snapshots_have_expired_is_noticed_as_long_as_the_earlier_ones_are_there(shop: Shop) -> None:
    left = shop.table.current_snapshot()
    roll_back(shop, 1)
    write_as_somebody_else(shop, 100)
    assert left is not None
    shop.table.maintenance.expire_snapshots().by_id(left.snapshot_id).commit()
    assert (reached(shop), shop.read()) == (0, [1, 100])


def test_a_rollback_that_leaves_nothing_to_tell_the_position_is_refused_and_the_word_goes_on(shop: Shop) -> None:
    table = shop.table
    left = table.current_snapshot()
    assert left is not None
    older = [one.snapshot_id for one in table.snapshots()]
    write_as_somebody_else(shop, 100)
    write_as_somebody_else(shop, 101)
    roll_back(shop, 1)
    write_as_somebody_else(shop, 102)
    shop.commit(2, 3)
    roll_back(shop, 1)
    shop.table.maintenance.expire_snapshots().by_ids(older).commit()
    with pytest.raises(errors.StateUnknownError, match=r"IcebergMarkerMissing.*the table was set back to a snapshot"):
        shop.sink.open(shop.at(2, epoch=2))
    word = replace(shop.at(2, epoch=2), descent=standing.SinkLineage(sinkcontexts.OWN, rights=frozenset(SinkRight)))
    shop.sink.open(word)
    assert reached(shop) == -1


def test_snapshots_that_expired_are_no_rollback(shop: Shop) -> None:
    write_as_somebody_else(shop, 100)
    write_as_somebody_else(shop, 101)
    expire_all_but_the_current_one(shop)
    assert (reached(shop), shop.read()) == (1, [1, 2, 100, 101])
    shop.commit(2, 3)
    assert (reached(shop), shop.read()) == (2, [1, 2, 3, 100, 101])


def test_a_batch_that_a_rollback_took_away_is_committed_again_in_files_of_its_own(shop: Shop) -> None:
    lost = shop.prepared(2, 3)
    shop.sink.commit(lost, shop.at(2))
    left = shop.table.current_snapshot()
    assert left is not None
    files = {file["file_path"] for file in shop.table.inspect.files().to_pylist()}
    roll_back(shop, 1)
    shop.sink.commit(lost, shop.at(2))
    again = {file["file_path"] for file in shop.table.inspect.files().to_pylist()}
    shop.table.maintenance.expire_snapshots().by_id(left.snapshot_id).commit()
    assert (reached(shop), shop.read(), len(again & files)) == (2, [1, 2, 3], 2)


def test_batches_of_one_snapshot_that_a_rollback_took_away_are_committed_again_in_files_of_their_own(
    shop: Shop,
) -> None:
    """Each of them alone, as the next driver does."""
    second, third = shop.prepared(2, 3), shop.prepared(3, 4)
    merged = shop.sink.merge(second, third)
    assert merged is not None
    shop.sink.commit(merged, replace(shop.at(3), merged_from=2))
    files = {file["file_path"] for file in shop.table.inspect.files().to_pylist()}
    together = (reached(shop), shop.read())
    roll_back(shop, 1)
    for batch, transaction in ((2, second), (3, third)):
        shop.sink.commit(transaction, shop.at(batch))
    again = {file["file_path"] for file in shop.table.inspect.files().to_pylist()}

    assert together == (3, [1, 2, 3, 4])
    assert (reached(shop), shop.read(), len(again & files)) == (*together, 2)


def test_a_batch_that_is_aborted_keeps_its_files_if_a_snapshot_of_several_has_them(shop: Shop) -> None:
    second, third = shop.prepared(2, 3), shop.prepared(3, 4)
    merged = shop.sink.merge(second, third)
    assert merged is not None
    shop.sink.commit(merged, replace(shop.at(3), merged_from=2))

    shop.sink.abort(second, shop.at(2))

    assert shop.read() == [1, 2, 3, 4]


def test_a_batch_whose_own_files_the_store_of_the_table_has_lost_meanwhile_is_refused(shop: Shop) -> None:
    """The folder of the table goes back to a replica that lags while the catalog stays: no commit lists what is gone."""
    fresh = shop.prepared(2, 3)
    (file,) = shop.files_of(fresh)
    shop.table.io.delete(file)
    committed = Position(lineage=sinkcontexts.OWN, generation=1, batch_id=1)
    with pytest.raises(errors.StateUnknownError, match=r"StagedRowsMissing.*1 of 1 are missing"):
        shop.sink.commit(fresh, replace(shop.at(2), expected=standing.Expected(committed, was_opened=True)))
    assert shop.read() == [1, 2]


def test_a_batch_whose_files_were_removed_as_orphans_is_refused_and_the_table_stays_readable(shop: Shop) -> None:
    waiting = shop.prepared(2, 3)
    (file,) = shop.files_of(waiting)
    shop.table.io.delete(file)
    shop.sink.open(shop.at(1, epoch=2))
    with pytest.raises(errors.StateUnknownError, match=r"StagedRowsMissing.*1 of 1 are missing.*removed as an orphan"):
        shop.sink.commit(waiting, replace(shop.at(2), committing_epoch=2, claim=shop.at(2, epoch=2).claim))
    assert shop.read() == [1, 2]
