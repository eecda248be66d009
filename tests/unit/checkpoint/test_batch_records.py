"""Side records: their names, which of them counts, and that they come back from storage."""

from __future__ import annotations

import pytest
from statefulspark import errors
from statefulspark.checkpoint import batch_records
from statefulspark.testing import stores

PREPARED, STATE = batch_records.RecordKind.PREPARED, batch_records.RecordKind.OPERATOR_STATE


def name(
    batch: int, epoch: int = 1, uid: str = "out", kind: batch_records.RecordKind = PREPARED
) -> batch_records.RecordName:
    return batch_records.RecordName(kind, uid, batch, epoch)


def test_a_name_comes_back_from_its_key() -> None:
    assert batch_records.parse_key(name(123, 7).key) == name(123, 7)


@pytest.mark.parametrize(
    "key",
    ["prepared/out/12-1.json", "prepared/00000012-00000001.json", "offsets/3", "prepared/out/x.json", "other/o/1"],
)
def test_what_is_no_record_is_none(key: str) -> None:
    assert batch_records.parse_key(key) is None


def test_of_attempts_at_a_batch_the_newest_driver_counts_and_batches_are_in_order() -> None:
    keys = [one.key for one in (name(10, 2), name(9, 1), name(9, 3), name(9, 2), name(11), name(3), name(9, 9, "log"))]

    found = batch_records.between(keys, PREPARED, after_batch=3, to_batch=10)

    assert found == (name(9, 9, "log"), name(9, 3), name(10, 2))


def test_a_log_writes_reads_and_chooses() -> None:
    log = batch_records.BatchRecordLog(stores.MemoryStore(), "generations/00000001/words")
    for one in (name(1), name(2), name(2, 2), name(5), name(4, kind=STATE)):
        log.write(one, one.key.encode())

    assert log.newest(PREPARED, "out", at_batch=4) == name(2, 2)
    assert log.newest(STATE, "out", at_batch=3) is None
    assert log.between(PREPARED, "out", after_batch=1, to_batch=5) == (name(2, 2), name(5))
    assert log.list_all(PREPARED) == (name(1), name(2), name(2, 2), name(5))
    assert log.read(name(2, 2)) == name(2, 2).key.encode()


def test_a_deleted_record_is_gone_and_deleting_again_is_fine() -> None:
    log = batch_records.BatchRecordLog(stores.MemoryStore(), "generations/00000001/words")
    log.write(name(1), b"x")

    log.delete([name(1)])
    log.delete([name(1)])

    with pytest.raises(errors.ObjectNotFoundError):
        log.read(name(1))
