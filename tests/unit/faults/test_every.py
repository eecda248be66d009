"""Which scenarios there are: each change of a job under each trouble, and what has to go the same way on executors."""

from __future__ import annotations

import pytest
from faults import changes, commandline, every, executors

NAMES = {one.name for one in every.ALL}


def test_every_change_is_made_in_peace_and_under_every_trouble() -> None:
    wanted = {f"{change}-while-{trouble.name}" for change in changes.CHANGES for trouble in changes.TROUBLES}

    assert wanted | set(changes.CHANGES) <= NAMES


def test_what_has_to_go_the_same_way_on_executors_is_among_the_others() -> None:
    on_executors = [one for one in every.ALL if one.has_executors]

    assert len(on_executors) == len(executors.OWN) + len(executors._ALSO_ON_EXECUTORS)
    assert {one.name.removesuffix("-on-executors") for one in on_executors if one not in executors.OWN} <= NAMES


def test_what_is_only_of_packs_or_of_executors_is_in_no_other_soak() -> None:
    for (has_executors, packs_all), among in every.IN_A_SOAK.items():
        names = {one.name for one in among}
        assert ("executor-killed" in names) is has_executors
        assert ("newest-pack-missing" in names) is packs_all


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        pytest.param(["calm"], {"calm"}, id="a name is that of one, though others begin like it"),
        pytest.param(
            ["s3-gone"], {"s3-gone-for-20-s", "s3-gone-for-5-min", "s3-gone-for-20-s-on-executors"}, id="a begin"
        ),
        pytest.param(
            ["*drivers-die-on"],
            {f"{change}-while-drivers-die-on-executors" for change in ("upgrade", "rescale", "handover")},
            id="a part of names",
        ),
        pytest.param(["relocated", "calm"], {"relocated", "calm"}, id="two names"),
        pytest.param(["nothing"], set(), id="nobody's name"),
    ],
)
def test_scenarios_are_chosen_by_their_names(names: list[str], chosen: set[str]) -> None:
    assert {one.name for one in commandline.choose(every.ALL, names)} == chosen


def test_without_a_name_all_but_the_long_ones_are_chosen() -> None:
    assert {one.name for one in commandline.choose(every.ALL, [])} == NAMES - {
        one.name for one in every.ALL if one.is_long
    }
