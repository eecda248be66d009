"""Names of packs: what is written is what is read, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from packwriting import a_name
from statefulspark.packs import names

_ATTEMPT = "0123456789abcdef"
_REFERENCE = f"4-2/00000012-00000003-{_ATTEMPT}-00000007-00000011.pack"
_NAME = names.PackName(4, 2, 12, 3, _ATTEMPT, names.Before(7, 11))


def test_a_name_is_written_as_the_formats_page_has_it() -> None:
    assert _NAME.reference == _REFERENCE
    assert names.key("mean", _NAME.reference) == f"packs/mean/{_REFERENCE}"


def test_a_name_that_was_written_is_read() -> None:
    assert names.parse(_REFERENCE) == _NAME
    assert names.of_key(f"packs/mean/{_REFERENCE}") == ("mean", _NAME)


def test_a_number_of_more_than_eight_digits_is_read() -> None:
    name = names.PackName(1, 0, 123_456_789, 3, _ATTEMPT, names.Before(99_999_999, 100_000_000))

    assert names.parse(name.reference) == name


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"packs/{_REFERENCE}", id="without an operator"),
        pytest.param(f"state/mean/{_REFERENCE}", id="in another folder"),
        pytest.param(f"packs/mean/{_REFERENCE}.crc", id="a checksum file of Hadoop"),
        pytest.param(f"packs/mean/a/{_REFERENCE}", id="a folder deeper"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("4-2", "4-4"), id="a partition that there is not"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("4-2", "04-2"), id="a number with a leading zero"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("-00000011.", "-00000013."), id="named before, and newer"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("-00000007-", "-00000012-"), id="a tail after the newest"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("00000012", "000000012"), id="a number with too many zeros"),
        pytest.param(f"packs/mean/{_REFERENCE}".replace("abcdef", "ABCDEF"), id="an attempt in capitals"),
        pytest.param("packs", id="the folder itself"),
    ],
)
def test_another_name_is_no_pack(path: str) -> None:
    assert names.of_key(path) is None


@pytest.mark.parametrize(
    "reference", ["12.pack", _REFERENCE.replace("4-2", "4-4")], ids=["another form", "numbers that do not fit"]
)
def test_the_error_names_what_is_no_pack(reference: str) -> None:
    with pytest.raises(ValueError, match=reference):
        names.parse(reference)


def test_what_a_partition_named_before_is_the_oldest_and_the_newest_batch() -> None:
    older = names.PackName(2, 1, 5, 1, _ATTEMPT, names.Before(5, 5))

    assert names.Before.summarize([_REFERENCE, older.reference], 20) == names.Before(5, 12)


def test_a_partition_that_named_no_pack_needs_those_of_its_batch_alone() -> None:
    assert names.Before.summarize([], 20) == names.Before(20, 20)


@pytest.mark.parametrize(
    ("written_by", "now", "share"),
    [(2, 2, 601), (2, 3, 400), (2, 4, 300), (4, 2, 601)],
    ids=["same", "1.5x", "2x", "half"],
)
def test_a_pack_counts_for_each_of_more_partitions_in_part(written_by: int, now: int, share: int) -> None:
    assert names.share_of(a_name(3, partitions=written_by).reference, 601, now) == share
