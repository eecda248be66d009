"""Few may work on storage at a time: whoever holds the least is next, and no flood takes the last place."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from statefulspark_operator.cluster.shares import Holder, Limits, Places, next_to_begin

EIGHT = Limits(most=8, most_at_store=4)


def held(*who: str) -> Counter[Holder]:
    """Return how many places each holds, from `namespace@store`."""
    return Counter(map(one, who))


def one(who: str) -> Holder:
    namespace, _, store = who.partition("@")
    return Holder(namespace, store)


@pytest.mark.parametrize(
    ("holding", "waiting", "chosen"),
    [
        pytest.param([], ["a@s"], "a@s", id="all places are free"),
        pytest.param([], ["b@s", "a@s"], "b@s", id="who came first"),
        pytest.param(["a@s"], ["a@s", "b@s"], "b@s", id="whose namespace holds less"),
        pytest.param(["a@s", "b@t", "b@u"], ["b@s", "a@s"], "a@s", id="whose namespace holds less at all stores"),
        pytest.param(["a@s"], ["a@s", "a@t"], "a@t", id="of one namespace, the store at which it holds less"),
        pytest.param(["a@s", "a@s"], ["a@s"], None, id="half of a store"),
        pytest.param(["a@s", "a@s", "a@t", "a@t"], ["a@u"], None, id="half of all"),
        pytest.param(["a@s", "a@s"], ["a@s", "b@s"], "b@s", id="the other half of the store is for others"),
        pytest.param(["a@s", "a@s", "b@s"], ["b@s"], None, id="half of what the others leave of a store"),
        pytest.param(["a@s", "a@s", "b@s"], ["b@s", "c@s"], "c@s", id="and there is one left for the next"),
        pytest.param(["a@s", "b@s", "c@s", "d@s"], ["e@s", "e@t"], "e@t", id="a store is full"),
        pytest.param([f"{name}@{name}" for name in "abcdefgh"], ["i@i"], None, id="all places are taken"),
    ],
)
def test_next_to_begin_is(holding: list[str], waiting: list[str], chosen: str | None) -> None:
    expected = one(chosen) if chosen is not None else None

    assert next_to_begin(list(map(one, waiting)), held(*holding), EIGHT) == expected


@pytest.mark.parametrize(
    ("holding", "waiting", "chosen"),
    [
        pytest.param(["a@"] * 7, ["a@"], "a@", id="a namespace gets every place that nobody else wants"),
        pytest.param(["a@"] * 7, ["a@", "b@"], "b@", id="and not the next one if somebody does"),
        pytest.param(["a@"] * 8, ["a@", "b@"], None, id="all places are taken"),
    ],
)
def test_where_nothing_hangs_no_place_stays_free(holding: list[str], waiting: list[str], chosen: str | None) -> None:
    expected, limits = one(chosen) if chosen is not None else None, Limits(8, 8, leaves_half=False)

    assert next_to_begin(list(map(one, waiting)), held(*holding), limits) == expected


@pytest.mark.parametrize("floods", [1, 2, 3])
def test_there_is_a_place_at_once_for_who_comes_after_floods_of_others(floods: int) -> None:
    async def scene() -> None:
        places, ends = Places(EIGHT), asyncio.Event()

        async def hang(who: str) -> None:
            async with places.held(one(who)):
                await ends.wait()

        hung = [asyncio.create_task(hang(f"{flood}@s-{number}")) for flood in range(floods) for number in range(20)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20), places.held(one("honest@s-0")):
            ends.set()
        await asyncio.gather(*hung)
        assert not places._held
        assert not places._waiting

    asyncio.run(scene())


def test_who_is_cancelled_gives_back_what_it_holds_or_waits_for() -> None:
    async def scene() -> None:
        places = Places(Limits(most=1, most_at_store=1))
        got: list[str] = []

        async def hold(who: str) -> None:
            async with places.held(one(who)):
                got.append(who)
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(hold(f"{name}@s")) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        assert got == ["a@s", "c@s"]
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not places._held
        assert not places._waiting

    asyncio.run(scene())
