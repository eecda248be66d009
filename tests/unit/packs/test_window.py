"""Which packs a batch needs, by their names: of each partition from the tail of its newest one on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packwriting import a_name
from statefulspark.packs import names, window

_ALONE = {
    "nothing is there": ([], []),
    "the only pack": ([a_name(3)], [3]),
    "all from the tail on": ([a_name(2), a_name(4, tail=2), a_name(7, tail=4)], [4, 7]),
    "nothing is left of what was there before": ([a_name(2), a_name(7)], [7]),
    "a pack that is not named any more and is younger than the tail": (
        [a_name(2), a_name(4, tail=2), a_name(7, tail=2, newest=4)],
        [2, 4, 7],
    ),
    "packs of later batches": ([a_name(2), a_name(10, tail=2), a_name(12)], [2, 10]),
    "an attempt that came late": ([a_name(2), a_name(8, tail=7), a_name(7), a_name(3, tail=2, epoch=9)], [7, 8]),
}


@pytest.mark.parametrize("case", _ALONE)
def test_of_one_partition_a_batch_needs_what_is_not_older_than_the_tail(case: str) -> None:
    packs, batches = _ALONE[case]

    assert sorted(pack.batch for pack in window.needed(packs, partitions=2, batch=10)) == batches


def test_both_attempts_at_a_batch_are_taken() -> None:
    both = (a_name(5), a_name(5, attempt="f" * 16))

    assert window.needed(both, partitions=2, batch=5) == both


def test_each_partition_has_its_own_tail() -> None:
    packs = (a_name(2), a_name(6), a_name(2, partition=1), a_name(6, partition=1, tail=2))

    assert window.needed(packs, partitions=2, batch=9) == packs[1:]


def test_packs_of_another_number_of_partitions_are_needed_from_the_oldest_tail_on() -> None:
    before = (a_name(2, partitions=3), a_name(4, partitions=3, partition=2))
    own = (a_name(7, tail=4), a_name(8, tail=5, partition=1))

    assert window.needed((*before, *own), partitions=2, batch=9) == (before[1], *own)


def test_while_a_partition_has_no_pack_of_its_own_it_may_need_all_of_another_number() -> None:
    packs = (a_name(0, partitions=3), a_name(2, partitions=3), a_name(7, tail=4))

    assert window.needed(packs, partitions=2, batch=9) == packs


def _needed_slowly(packs: Sequence[names.PackName], *, partitions: int, batch: int) -> tuple[names.PackName, ...]:
    """Return what `window.needed` returns, in the words of its rule: all packs are looked through for each partition."""

    def tail_of(partition: int) -> int:
        own = [pack for pack in until if (pack.partitions, pack.partition) == (partitions, partition)]
        newest = max((pack.batch for pack in own), default=None)
        return min((pack.before.tail for pack in own if pack.batch == newest), default=0)

    until = [pack for pack in packs if pack.batch <= batch]
    tails = [tail_of(partition) for partition in range(partitions)]
    return tuple(
        pack for pack in until if pack.batch >= (tails[pack.partition] if pack.partitions == partitions else min(tails))
    )


@st.composite
def _any_packs(draw: st.DrawFn) -> list[names.PackName]:
    packs = []
    for number in range(draw(st.integers(0, 14))):
        partitions, batch = draw(st.integers(1, 4)), draw(st.integers(0, 8))
        newest = draw(st.integers(0, batch))
        packs.append(
            a_name(
                batch,
                tail=draw(st.integers(0, newest)),
                newest=newest,
                partition=draw(st.integers(0, partitions - 1)),
                partitions=partitions,
                attempt=f"{number:016x}",
            )
        )
    return packs


@settings(max_examples=600)
@given(_any_packs(), st.integers(1, 5), st.integers(0, 9))
def test_one_pass_takes_what_the_rule_says(packs: list[names.PackName], partitions: int, batch: int) -> None:
    expected = _needed_slowly(packs, partitions=partitions, batch=batch)

    assert window.needed(packs, partitions=partitions, batch=batch) == expected


def test_packs_of_an_operator_that_is_not_in_the_batch_are_not_needed() -> None:
    kept, dropped = names.key("mean", a_name(3).reference), names.key("gone", a_name(3).reference)

    assert window.needed_by_operator([kept, dropped, "offsets/3"], {"mean": 2, "late": 2}, 3) == {"mean": (a_name(3),)}


_GAPS = {
    "nothing is missing": ([a_name(2), a_name(4, tail=2), a_name(7, tail=2, newest=4)], None),
    "the tail is missing": ([a_name(4, tail=2), a_name(7, tail=2, newest=4)], 2),
    "the one before is missing": ([a_name(2), a_name(7, tail=2, newest=4)], 4),
    "one in the middle is missing": ([a_name(2), a_name(6, tail=2, newest=4), a_name(7, tail=2, newest=6)], 4),
    "what is older than the tail may be gone": ([a_name(4, tail=2), a_name(7, tail=4)], None),
    "another partition does not stand in for it": ([a_name(2, partition=1), a_name(7, tail=2)], 2),
    "while there are several numbers nothing is said": ([a_name(2, partitions=3), a_name(7, tail=3)], None),
    "nothing is there": ([], None),
}


def test_a_pack_that_no_manifest_names_is_unused_up_to_the_newest_checkpoints_batch() -> None:
    assert [window.is_unused(a_name(batch), floor=5) for batch in (4, 5, 6)] == [True, True, False]


@pytest.mark.parametrize("case", _GAPS)
def test_names_tell_of_packs_that_are_missing(case: str) -> None:
    packs, missing = _GAPS[case]
    gap = window.first_gap(packs)

    assert (gap and gap.batch) == missing
    assert gap is None or missing in (gap.witness.before.tail, gap.witness.before.newest)


@pytest.mark.parametrize(
    ("packs", "owes"),
    [
        pytest.param([], False, id="no packs"),
        pytest.param([a_name(3)], False, id="none of another number"),
        pytest.param([a_name(3, partitions=3)], True, id="nothing of its own"),
        pytest.param([a_name(0, partitions=3)], True, id="nothing of its own, after the first batch"),
        pytest.param([a_name(0), a_name(0, partitions=3)], False, id="all of the first batch"),
        pytest.param([a_name(3, partitions=3), a_name(4, partition=1)], True, id="only another partition's"),
        pytest.param([a_name(2), a_name(3, partitions=3)], True, id="an older one"),
        pytest.param([a_name(3), a_name(3, partitions=3)], False, id="one of the same batch"),
        pytest.param([a_name(3, partitions=3), a_name(4)], False, id="a newer one"),
    ],
)
def test_a_partition_owes_a_pack_for_its_name_after_packs_of_another_number(
    packs: list[names.PackName], owes: bool
) -> None:
    assert window.owes_a_name(packs, partitions=2, partition=0) is owes
