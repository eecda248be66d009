"""Master hooks: declared by uid, restored before the queries, refused where their state would be lost."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
import statefulspark as ss
from fakehooks import Bookmarks
from manifests import a_manifest
from startsituations import a_start_plan
from statefulspark import errors
from statefulspark.contract.manifest import MasterStateEntry
from statefulspark.driver.running import hooks
from statefulspark.hooks import HookDefinition
from statefulspark.recovery.plan import StartMode, StartPlan

_STATES = (MasterStateEntry.encode("shop", 41, b"\x00page 7"),)
_EMPTY = StartPlan(StartMode.EMPTY, 1)


def a_plan_with_hooks(states: tuple[MasterStateEntry, ...] = _STATES) -> StartPlan:
    return a_start_plan(restored_from="checkpoint 42", restored=a_manifest(42), master_states=states)


def hooks_of(*given: Bookmarks, timeout: timedelta = timedelta(seconds=10)) -> hooks.JobHooks:
    return hooks.JobHooks([HookDefinition(hook.uid, hook, timeout) for hook in given])


def test_a_hook_gets_its_state_and_the_checkpoint_at_which_it_gave_it() -> None:
    shop, other = Bookmarks("shop"), Bookmarks("other")

    hooks_of(shop, other).restore(a_plan_with_hooks())

    assert (shop.restored, other.restored) == ([(41, b"\x00page 7")], [(42, None)])
    assert shop.told == other.told == []


def test_a_job_that_starts_empty_resets_its_hooks() -> None:
    shop = Bookmarks("shop")

    hooks_of(shop).restore(_EMPTY)

    assert (shop.told, shop.restored) == (["reset"], [])


def test_state_of_a_hook_that_left_the_job_is_refused_by_name() -> None:
    with pytest.raises(
        errors.SpecRejectedError, match=r"'shop'.*job\.hook.*add 'shop' to restore\.dropState"
    ) as raised:
        hooks_of(Bookmarks("other")).require_place(_STATES)

    assert raised.value.reason == "NonRestoredState"
    hooks_of(Bookmarks("shop")).require_place(_STATES)


def test_a_hook_that_cannot_be_restored_keeps_the_job_from_starting() -> None:
    with pytest.raises(errors.UserCodeError, match="closed") as raised:
        hooks_of(Bookmarks("shop", failures=["closed"])).restore(a_plan_with_hooks())

    assert raised.value.reason == "HookFailed"


def test_hooks_are_told_of_the_end_and_one_that_hangs_does_not_hold_it_up() -> None:
    slow, shop = Bookmarks("slow", holds=threading.Event()), Bookmarks("shop")
    job, refused = hooks_of(slow, shop, timeout=timedelta(seconds=0.1)), threading.Event()
    job.trigger(1, datetime.fromtimestamp(0, UTC), answered=lambda *_: None, refused=lambda *_: refused.set())
    assert refused.wait(10)

    job.close()
    slow.holds.set()

    assert (slow.told, shop.told) == ([], ["close"])


def test_an_answer_that_is_no_bytes_is_refused() -> None:
    class Numbers(Bookmarks):
        def trigger(self, checkpoint_id: int, when: datetime) -> bytes | None:
            return 7  # type: ignore[return-value]

    told: list[errors.StatefulSparkError] = []
    heard = threading.Event()

    def refused(_: str, error: errors.StatefulSparkError) -> None:
        told.append(error)
        heard.set()

    hooks_of(Numbers("shop")).trigger(1, datetime.fromtimestamp(0, UTC), answered=lambda *_: None, refused=refused)

    assert heard.wait(10)
    assert "it returned int and not bytes or None" in told[0].message


def test_hooks_of_a_job_keep_their_order_and_their_time() -> None:
    words = ss.Job("words")

    given = [words.hook(Bookmarks("z")), words.hook(Bookmarks("a"), timeout="5s")]

    assert [(one.uid, one.hook, one.timeout) for one in words.hooks] == [
        ("z", given[0], timedelta(minutes=1)),
        ("a", given[1], timedelta(seconds=5)),
    ]


@pytest.mark.parametrize(
    ("hook", "timeout", "reason"),
    [
        (Bookmarks("same"), "1s", "UidDuplicate"),
        (Bookmarks("Not a name"), "1s", "UidInvalid"),
        (Bookmarks, "1s", "HookInvalid"),
        (Bookmarks("b"), "0", "HookInvalid"),
        (Bookmarks("b"), "10", "DurationInvalid"),
    ],
    ids=["a name twice", "no name", "a class", "no time", "no unit"],
)
def test_what_cannot_be_a_hook_is_refused(hook: Bookmarks, timeout: str, reason: str) -> None:
    words = ss.Job("words")
    words.hook(Bookmarks("same"))

    with pytest.raises(errors.SpecRejectedError) as raised:
        words.hook(hook, timeout=timeout)

    assert raised.value.reason == reason
