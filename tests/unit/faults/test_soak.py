"""A soak can be made again from its seed, and goes on where it was interrupted."""

from __future__ import annotations

from faults import every, soak


def test_the_faults_of_a_round_follow_from_the_seed_and_its_number() -> None:
    rounds = [soak.round_of(7, number) for number in range(6)]

    assert [names for _, names in rounds] == [soak.round_of(7, number)[1] for number in range(6)]
    assert [names for _, names in rounds] != [soak.round_of(8, number)[1] for number in range(6)]
    assert [scenario.name for scenario, _ in rounds] == [f"soak-7-{number}" for number in range(6)]
    assert [scenario.packs_all for scenario, _ in rounds] == [False, True] * 3
    assert [scenario.has_executors for scenario, _ in rounds] == [False, False, True, True, False, False]
    assert all(len(names) == soak.FAULTS_IN_A_ROUND for _, names in rounds)


def test_a_soak_on_the_drivers_workers_has_no_executors() -> None:
    rounds = [soak.round_of(7, number, soak.Workers.DRIVER) for number in range(8)]

    assert not any(scenario.has_executors for scenario, _ in rounds)
    assert not any("executor" in name or "node" in name for _, names in rounds for name in names)


def test_names_of_scenarios_are_unique_and_a_soak_has_none_that_ends_the_job_or_takes_it_back() -> None:
    names = [one.name for one in every.ALL]

    assert len(names) == len(set(names))
    in_soaks = [one.name for among in every.IN_A_SOAK.values() for one in among]
    assert not [
        name for name in in_soaks if name.startswith(("checkpointed", "restored", "relocated", "50-", "disk", "clock"))
    ]
