"""What a person does when a start is refused: the ways out that the refusal and docs/howto/disaster-recovery.md name.

Each says what the person accepts by it (`Outside.allow_again`, `Outside.give_up`), so rows are judged by no more than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from restores import a_restore
from simulation import invariants
from statefulspark.contract import rights
from statefulspark.contract.config import RestoreConfig
from statefulspark.contract.rights import SinkRight

if TYPE_CHECKING:
    from simulation.outside import Outside, OutsideDriver
    from simulation.sites import Moment

DISASTER = "docs/howto/disaster-recovery.md"
TURNS = 5
"""The way out of one refusal may lead to another one: a sink that shows batches is ahead of a snapshot that is as old."""
AFTER = "what this state has after "
"""What a refusal says before the batch after which the sink goes on. A driver that ran does not know it; a start does."""
GONE = " up to "
"""What a refusal says before the last batch whose rows the job has no more; of a folder also later ones without files."""
OTHERS = " is not in this state"
"""A refusal says this of a sink that has rows of another life of the root, perhaps instead of the state's own."""
FILES = "whose files are not in "
"""A refusal says this of rows that wait in a folder which has lost them: the sink goes on without them."""
_STAGED = re.compile(r"Batch (?P<batch>\d+) of the sink \w+ was prepared in generation (?P<generation>\d+)")
"""The first batch whose files a folder has lost. It may show rows of another history under that number, until a start."""
_BATCH = re.compile(r"batch (?P<batch>\d+) \(generation (?P<generation>\d+)\)")


def follow(world: Outside, choice: int, newest: Moment, ended: OutsideDriver | None = None) -> None:
    """Start the job, and do what a refusal says, one of its ways, until a driver runs, as the page promises.

    Args:
        world: The world.
        choice: Chooses among the ways.
        newest: What state and sink had before one of them went back.
        ended: A driver that has ended with a refusal while it ran; None if the first refusal is one of a start.
    """
    world.promised = DISASTER
    world.given.clear()
    driver = ended or world.tried()
    for turn in range(TURNS):
        reason, message = driver.refusal
        if reason not in WAYS_OUT:
            break
        world.log(f"the person sees {reason}")
        WAYS_OUT[reason](world, driver, message, choice + turn, newest)
        driver = world.tried()
    if invariants.is_refused(driver) and driver.refusal[0] not in WAYS_OUT:
        world.promised = ""


def _ahead(world: Outside, driver: OutsideDriver, message: str, choice: int, newest: Moment) -> None:
    """Start from the newest state; or go on from this one, without the rows after it or beside them."""
    if choice % 3 == 0 and _asked(driver).source is None:
        world.put_state_back(dict(newest.state))
    else:
        _go_on_after(world, driver, message, world.begins_at(driver), choice)


def _opened_elsewhere(world: Outside, driver: OutsideDriver, message: str, choice: int, newest: Moment) -> None:
    """Start from the newest state; or go on from this one, after the batch that the message names."""
    if choice % 3 == 0:
        world.put_state_back(dict(newest.state))
    else:
        if AFTER not in message:
            return
        after = _give_up(world, driver, message)
        # The batches up to there may be of another life, with more records: the refusal says that these come again.
        world.site.taken_over_at = max(after, world.number_shown(_last_batch(message)))
        _go_on_after(world, driver, message, after, choice)


def _behind(world: Outside, driver: OutsideDriver, message: str, choice: int, newest: Moment) -> None:
    """Bring a newer copy of the sink; or start from a snapshot that is as old; or accept that rows in between are lost."""
    has, _, had = message.partition(", and this state knows that it had ")
    shown = world.number_shown()
    if had:
        shown = min(shown, _named(world, driver, has.rpartition(" has ")[2]))
    older = world.snapshot_up_to(shown)
    if choice % 3 == 0:
        _bring_back(world, newest)
    elif choice % 3 == 1 and older is not None:
        word = world.word("as old as the sink")
        world.allow_again(word, world.offset_of(older))
        world.restore = a_restore(snapshot=older, nonce=word)
    else:
        gone = message.partition(GONE)[2]
        begins = shown if world.withdraws else world.begins_at(driver)
        end = _named(world, driver, gone) if gone else begins
        world.give_up(shown, end)
        if OTHERS in message:
            world.site.taken_over_at = shown if world.withdraws else end
        if FILES in message:
            staged = _STAGED.match(message)
            before = world.end_of(int(staged["batch"]) - 1, int(staged["generation"]), driver) if staged else end
            world.given_up |= world.without_file(driver, min(before or 0, end))
        _give_rights(world, _asked(driver) if gone else RestoreConfig(), message)


def _marker_missing(world: Outside, driver: OutsideDriver, message: str, choice: int, newest: Moment) -> None:
    """Bring back the sink with its marker; or go on after the batch that the refusal of a start names."""
    if choice % 3 == 0:
        _bring_back(world, newest)
    elif AFTER in message:
        _go_on_after(world, driver, message, _give_up(world, driver, message), choice)


def _taken(world: Outside, driver: OutsideDriver, message: str, choice: int, newest: Moment) -> None:
    """Restore the state that wrote the output; or start from a savepoint of it; or write to the sink beside it."""
    if choice % 3 == 0 and "Restore that state" in message:
        world.put_state_back(dict(newest.state))
    elif choice % 3 == 1 and world.backup is not None:
        world.restore = a_restore(snapshot=world.backup, nonce=world.word("the state that wrote the output"))
    else:
        after = _give_up(world, driver, message)
        world.site.taken_over_at = world.begins_at(driver) if world.withdraws else after
        _go_on_after(world, driver, message, after, choice)


def _give_up(world: Outside, driver: OutsideDriver, message: str) -> int:
    """Accept that rows are missing, if a refusal asks for it; return the records after which the sink then goes on."""
    after = _named(world, driver, message.rpartition(AFTER)[2])
    if SinkRight.LOSE in rights.offered(message):
        world.give_up(world.number_shown(_last_batch(message)), after)
        if FILES in message:
            world.given_up |= world.without_file(driver, after)
    return after


def _last_batch(message: str) -> int | None:
    """Return the batch after which a refusal says that the sink goes on; None if it names none."""
    words = message.rpartition(AFTER)[2]
    named = _BATCH.match(words)
    return int(named["batch"]) if named else -1 if words.startswith("nothing") else None


def _bring_back(world: Outside, newest: Moment) -> None:
    """Restore the sink, and take back the rights that were given for what it had before."""
    world.let_requests_expire()
    world.put_sink_back(newest.content)
    world.given.clear()
    world.restore = world.restore.model_copy(update={"repeat_output_of": (), "lose_output_of": ()})


def _give_rights(world: Outside, restore: RestoreConfig, message: str) -> None:
    """Start with the rights that a refusal offers, beside those that were given for a refusal before it."""
    world.given |= rights.offered(message).keys()
    world.take_the_sink(restore, *world.given)


def _asked(driver: OutsideDriver) -> RestoreConfig:
    """Return the restore that a refused start was to make, so that the next one makes it; an empty one if it made none."""
    asked = driver.wish.restore
    return asked if asked.source is not None and driver.sought.restore_skipped is None else RestoreConfig()


def _go_on_after(world: Outside, driver: OutsideDriver, message: str, offset: int, choice: int) -> None:
    """Start as the refused start would have, and name the sink; its rows from a record on were removed, or come again."""
    if choice % 2:
        world.remove_rows(offset)
    else:
        world.allow_again(world.word("rows that stay"), offset)
    _give_rights(world, _asked(driver), message)


def _named(world: Outside, driver: OutsideDriver, words: str) -> int:
    """Return how many records there are up to the batch with which the words begin; what is shown if nobody knows it."""
    named = _BATCH.match(words)
    if words.startswith("nothing"):
        return 0
    records = 0 if named is None else world.end_of(int(named["batch"]), int(named["generation"]), driver)
    return world.number_shown() if records is None else records


WAYS_OUT: Mapping[str, Callable[[Outside, OutsideDriver, str, int, Moment], None]] = {
    "SinkAhead": _ahead,
    "SinkOpenedElsewhere": _opened_elsewhere,
    "SinkBehind": _behind,
    "StagedRowsMissing": _behind,
    "SinkMarkerMissing": _marker_missing,
    "SinkTaken": _taken,
}
"""By the reason of the refusal."""
