"""Namespaces take turns on the operator's thread: who floods it with passes waits for the others, and not they for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from datetime import timedelta

import pytest
from statefulspark_operator.cluster.gateway import JobKey
from statefulspark_operator.engine import queue
from statefulspark_operator.engine.turns import FairShare, Turns

STEPS = 10
MANY = 200


@pytest.mark.parametrize(
    ("used", "waiting", "chosen"),
    [
        pytest.param({}, "ab", "a", id="nobody has used anything: the first"),
        pytest.param({"a": 2.0, "b": 1.0}, "ab", "b", id="who has used less"),
        pytest.param({"a": 2.0, "b": 1.0}, "a", "a", id="who does not wait has no turn"),
        pytest.param({"a": 1.0, "b": 1.0}, "ba", "b", id="both have used as much: the first"),
        pytest.param({"a": 2.0, "b": 1.0, "c": 0.5}, "abc", "c", id="of several"),
    ],
)
def test_the_namespace_that_has_used_the_least_is_next(used: dict[str, float], waiting: str, chosen: str) -> None:
    share = FairShare()
    for namespace, seconds in used.items():
        share.charge(namespace, seconds)

    assert share.choose(waiting) == chosen


@pytest.mark.parametrize(
    ("costs", "turns"),
    [
        pytest.param({"a": 1, "b": 1}, "abababab", id="steps of the same length take turns"),
        pytest.param({"a": 3, "b": 1}, "abbbabbb", id="long steps are fewer"),
        pytest.param({"a": 2, "b": 1, "c": 1}, "abcbcabc", id="three"),
    ],
)
def test_who_waits_all_the_time_gets_the_same_share_of_time(costs: dict[str, int], turns: str) -> None:
    share, given = FairShare(), ""
    for _ in turns:
        chosen = share.choose(costs)
        share.charge(chosen, costs[chosen])
        given += chosen

    assert given == turns


def test_who_has_used_nothing_for_a_while_has_saved_nothing_up() -> None:
    share = FairShare()
    for _ in range(5):
        share.charge(share.choose("a"), 1.0)
    given = ""
    for _ in range(6):
        chosen = share.choose("ab")
        share.charge(chosen, 1.0)
        given += chosen

    assert given == "bababa"


def test_a_namespace_without_work_is_forgotten_unless_it_has_used_more_than_its_share() -> None:
    share = FairShare()
    for namespace, used_s in (("idle", 1.0), ("greedy", 9.0), ("waits", 2.0)):
        share.charge(namespace, used_s)
    share.choose(["waits"])
    share.forget_others(["waits"])

    assert share._used_s == {"greedy": 9.0, "waits": 2.0}


async def a_pass(told: list[str], namespace: str, steps: int = STEPS) -> str:
    for _ in range(steps):
        told.append(namespace)
        await asyncio.sleep(0)
    return namespace


async def in_turn(turns: Turns, namespace: str, work: Coroutine[object, object, object]) -> object:
    """Run work as a task can have it: since Python 3.12 a task takes no other coroutine than that of an `async def`."""
    return await turns.run(namespace, work)


def test_a_pass_beside_many_of_another_namespace_is_done_after_as_many_steps_of_theirs_as_its_own() -> None:
    told: list[str] = []

    async def scene() -> None:
        turns = Turns(itertools.count().__next__)
        flood = [asyncio.create_task(in_turn(turns, "abusive", a_pass(told, "abusive"))) for _ in range(MANY)]
        await asyncio.sleep(0)
        await turns.run("honest", a_pass(told, "honest"))
        told.append("done")
        await asyncio.gather(*flood)

    asyncio.run(scene())

    # While a step ends, and its pass comes back for the next one, the others have a turn or two.
    assert told.count("honest") < told.index("done") <= 3 * (STEPS + 2)
    assert told.count("abusive") == MANY * STEPS


def test_work_returns_raises_and_is_cancelled_as_without_turns() -> None:
    ended: list[str] = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("a reason")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def heeds_a_timeout() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "too late"

    async def scene() -> None:
        turns = Turns()
        assert await turns.run("a", a_pass([], "a")) == "a"
        assert await turns.run("a", heeds_a_timeout()) == "in time"
        with pytest.raises(KeyError, match="a reason"):
            await turns.run("a", fails())
        waiting = asyncio.create_task(in_turn(turns, "a", waits()))
        await asyncio.sleep(0.01)
        unstarted = asyncio.create_task(in_turn(turns, "a", waits()))
        await asyncio.sleep(0)
        for task in (waiting, unstarted):
            task.cancel()
        results = await asyncio.gather(waiting, unstarted, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2

    asyncio.run(scene())

    assert ended == ["waits"]


def test_passes_of_a_namespace_that_hang_keep_nobody_waiting() -> None:
    async def scene() -> None:
        done = asyncio.Event()

        async def one_pass(key: JobKey) -> timedelta | None:
            await asyncio.Event().wait() if key.namespace == "hung" else done.set()
            return timedelta(hours=1)

        work = queue.WorkQueue(one_pass)
        for number in range(MANY):
            work.wake(JobKey("hung", f"job-{number}"))
        work.wake(JobKey("well", "job"))
        await asyncio.wait_for(done.wait(), 20)
        await work.close()

    asyncio.run(scene())
