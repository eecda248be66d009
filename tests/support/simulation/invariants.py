"""What must be true in every run, one function each: its docstring is the promise, and what it yields breaks it.

`AT_EVERY_EFFECT` are asked before each change of the bucket, `WHEN_SHOWN` when rows become visible, `OF_A_START` when a
query has found its state, and `AT_REST` once everybody has come to rest; `OUTSIDE` at the end of a run in which the world
around the job changes. docs/recovery.md has the same list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from simulation.drivers import QUERY, SimulatedDriver
from simulation.record import ROOT, Effect, LogEntry, Record, Shown, Snapshot

if TYPE_CHECKING:
    from simulation.outside import Outside
    from simulation.world import Simulation


def one_writer_per_generation(record: Record, effect: Effect) -> Iterator[str]:
    """Along the log of a generation the epochs of the writers never decrease, and no entry is written twice.

    A driver that was replaced may still win the one entry that it had looked at the fence for; nothing after its successor's
    first entry is its own. A request that is late may bring back an entry that pruning has deleted, which nobody needs.
    """
    entry = LogEntry.of(effect.key)
    if entry is None or effect.verb == "delete" or entry.generation not in record.published:
        return
    if effect.existed and effect.verb != "create" and not _is_same(record, effect):
        yield f"{effect.who} overwrites {effect.key}"
    epoch, batch = record.newest_entry(entry)
    if effect.takes_place and effect.process.epoch < epoch and entry.batch > batch:
        yield f"{effect.who} writes {effect.key} after epoch {epoch} has written {batch} to the same log"


def a_generation_is_filled_by_who_reserved_it(record: Record, effect: Effect) -> Iterator[str]:
    """Until a generation is in use, files below it come from the process that has reserved its number, and nobody else."""
    parts = effect.key.removeprefix(f"{ROOT}/").split("/")
    if parts[0] != "generations" or len(parts) < 4 or effect.verb == "delete":
        return
    number = int(parts[1])
    if number not in record.published and record.reservers.get(number) != effect.process.name:
        yield f"{effect.who} writes {effect.key}, and {record.reservers.get(number, 'nobody')} has reserved {number}"


def a_write_follows_a_look_at_the_fence(record: Record, effect: Effect) -> Iterator[str]:
    """Each entry of a log in use, manifest and record of a generation follows a look that found no newer epoch.

    One look vouches for one write, so a driver that was replaced completes at most what it was about to write.
    """
    entry = LogEntry.of(effect.key)
    is_record = effect.key.endswith("/generation.json") and not effect.document.get("abandoned")
    is_of_log = entry is not None and entry.generation in record.published
    is_fenced = is_of_log or is_record or effect.key.endswith("/_metadata.json")
    if is_fenced and effect.writes and not effect.has_looked:
        yield f"{effect.who} creates {effect.key} without a look at the fence"


def no_retained_snapshot_loses_a_file(record: Record, effect: Effect) -> Iterator[str]:
    """Every file that the manifest of a completed snapshot names exists, unchanged, for as long as the manifest does.

    Exempt is a checkpoint whose manifest arrives when a later one is complete, since retention has dropped it already, and
    a manifest whose request comes again when its snapshot has been deleted.
    """
    snapshot = Snapshot.of(effect.key, effect.body) if effect.writes else None
    if snapshot is not None and not record.is_overtaken(effect, snapshot):
        absent = [key for key in snapshot.files if not record.holds(snapshot, key)]
        if absent:
            yield f"{effect.who} completes {effect.key}, and {absent[0]} is not there"
    if effect.verb == "create" or not effect.existed:
        return
    for manifest in sorted(record.needed.get(effect.key, set()) - record.overtaken):
        if effect.verb == "delete" or not _is_same(record, effect):
            yield f"{effect.who} {effect.verb}s {effect.key}, which {manifest} needs"


def numbers_never_go_back(record: Record, effect: Effect) -> Iterator[str]:
    """Epochs follow each other without a gap, a number once taken stays taken, and later drivers use higher ones.

    That is: records of epochs, lineages and reservations are created once and never deleted; a generation that comes into
    use has a higher number and no older epoch than the one before; a checkpoint has a higher number than every checkpoint
    that was complete when its driver claimed its epoch.
    """
    is_for_ever = effect.key.endswith("/reserved.json") or f"{ROOT}/epochs/" in effect.key or "/lineages/" in effect.key
    is_renewed = effect.key.endswith("/reserved.json") and effect.verb == "replace"
    if is_for_ever and effect.existed and effect.verb != "create" and not is_renewed:
        yield f"{effect.who} {effect.verb}s {effect.key}"
    if not effect.writes:
        return
    yield from _of_epoch(record, effect)
    yield from _of_generation(record, effect)
    yield from _of_checkpoint(record, effect)


def the_newest_checkpoints_are_kept(record: Record, effect: Effect) -> Iterator[str]:
    """The manifest of a checkpoint is deleted only once as many later ones as are retained have been completed."""
    snapshot = record.snapshots.get(effect.key)
    if effect.verb != "delete" or snapshot is None or not snapshot.is_checkpoint:
        return
    later = [number for number in record.completed if number > snapshot.id]
    if len(later) < record.retained:
        yield f"{effect.who} deletes {effect.key}, and only {len(later)} later ones were completed"


def nobody_deletes_what_a_successor_made(record: Record, effect: Effect) -> Iterator[str]:
    """A driver that was replaced deletes no manifest of a newer epoch, however late its request arrives."""
    snapshot = record.snapshots.get(effect.key)
    if effect.verb == "delete" and snapshot is not None and 0 < effect.process.epoch < snapshot.epoch:
        yield f"{effect.who} deletes {effect.key} of epoch {snapshot.epoch}"


def output_of_a_batch_is_visible_once(record: Record, shown: Shown) -> Iterator[str]:
    """No row becomes visible twice, and records become visible in order, without a gap.

    Where older state was asked for, records after it come again in another generation; within one none does.
    """
    before = Counter(row if record.has_gone_back else row[0] for row in record.visible)
    twice = [row for row in shown.rows if before[row if record.has_gone_back else row[0]]]
    if twice:
        yield f"{twice[0]} of batch {shown.batch} is visible twice"
    numbers = [number for number, _ in (*record.visible, *shown.rows)]
    if not record.has_gone_back and numbers != list(range(len(numbers))):
        gap = next(number for number, _ in enumerate(numbers) if numbers[number] != number)
        yield f"record {gap} is not visible, and {numbers[gap]} is"


def output_is_visible_only_with_its_state(record: Record, shown: Shown, *, shows_batches: bool) -> Iterator[str]:
    """What is visible is in a completed snapshot; of a sink that shows each batch, in a committed batch."""
    bound = max(record.covered, max(record.committed.values(), default=0) if shows_batches else 0)
    beyond = [number for number, _ in shown.rows if number >= bound]
    if beyond:
        yield f"record {beyond[0]} of batch {shown.batch} is visible, and only {bound} records are durable"


def a_start_goes_on_from_the_newest_state(record: Record, driver: SimulatedDriver) -> Iterator[str]:
    """A driver begins at or after everything that was committed when it claimed, or exactly where it was asked to.

    One that was replaced before it looked may find what its successor has committed; it writes nothing.
    """
    begun = driver.found[QUERY]
    is_replaced = driver.epoch < record.newest_epoch
    if driver.must_begin_at is not None and begun != driver.must_begin_at and not is_replaced:
        yield f"{driver.name} begins at {begun}, and {driver.must_begin_at} was asked for"
    if driver.must_begin_at is None and begun < (driver.head_at_claim or 0):
        yield f"{driver.name} begins at {begun}, and {driver.head_at_claim} records were committed when it claimed"
    if driver.plan is not None and driver.plan.fallback is not None:
        yield f"{driver.name} falls back although nothing is damaged: {driver.plan.fallback}"


def who_was_replaced_has_ended(world: Simulation) -> Iterator[str]:
    """Once it has tried to write, a driver that was replaced has ended."""
    for driver in world.processes:
        if driver.is_up and driver.epoch < world.record.newest_epoch:
            yield f"{driver.name} goes on under epoch {driver.epoch}, and epoch {world.record.newest_epoch} exists"


def an_epoch_has_one_holder(world: Simulation) -> Iterator[str]:
    """No two processes hold the same epoch."""
    held = [driver.epoch for driver in world.processes if driver.epoch]
    for epoch, count in Counter(held).items():
        if count > 1:
            yield f"{count} processes hold epoch {epoch}"


def the_job_goes_on(world: Simulation) -> Iterator[str]:
    """When the faults are over, one start is enough, and its first checkpoint completes."""
    driver = world.last
    if not driver.is_up:
        yield f"the last start, undisturbed, does not come up: {driver.outcome}"
    elif driver.last_checkpoint is None or driver.last_checkpoint.id <= world.highest_before_the_end:
        yield f"{driver.name} completes no checkpoint: {driver.outcome}"


def state_and_output_are_the_truth(world: Simulation) -> Iterator[str]:
    """At rest the state is what the records make of it, and exactly the records in the newest checkpoint are visible."""
    driver = world.last
    if not driver.is_up or driver.last_checkpoint is None:
        return
    cut = world.cut_of(driver)
    if cut.problem:
        yield cut.problem
    rows = Counter(world.record.visible)
    missing = [row for row in cut.rows if not rows[row]]
    if missing:
        yield f"{len(missing)} rows of the newest checkpoint are not visible, first {missing[0]}"
    if not world.record.has_gone_back and len(world.record.visible) != cut.offset:
        yield f"{len(world.record.visible)} rows are visible, and the newest checkpoint has {cut.offset} records"


def nobody_crashes(world: Simulation) -> Iterator[str]:
    """No code of ours ends by an exception of its own, and no state that is loaded is wrong."""
    for driver in world.processes:
        yield from driver.bugs
        yield from driver.violations
        if driver.failure is not None and driver.failure.reason == "InternalError":
            yield f"{driver.name}: {driver.outcome}"


def no_row_is_lost_or_repeated_without_a_word(world: Outside) -> Iterator[str]:
    """Whatever was put back, copied or done twice: a reader sees each record once, in the history that the last state has.

    Where that cannot be, a start or a commit has been refused by name, and what is visible has no gap. A word lets records
    come again once: of a person (a restore of older state, empty state, sinks that are taken over), or of a start that tells
    of a fallback. A person may also give up what a sink has lost. In a folder that two histories have taken from each other
    it holds from the last time on.
    """
    visible = world.rows_shown()
    yield from (*world.wrong, *world.oracle.violations)
    counts = Counter(number for number, _ in visible)
    told, seam = world.repeats(), world.seam
    repeated = [
        number
        for number, count in sorted(counts.items())
        if number >= seam and count > 1 + sum(start <= number for start in told)
    ]
    if repeated:
        yield f"{len(repeated)} records are repeated, first {repeated[0]}: {counts[repeated[0]]} times"
    expected = (number for number in range(seam, max(counts, default=0)) if number not in world.given_up)
    gap = next((number for number in expected if not counts[number]), None)
    if gap is not None:
        yield f"record {gap} is lost, and {max(counts)} is visible"
    rows = set(visible)
    for site in world.running_sites:
        driver = world.newest_of(site)
        own = world.cut_of(driver).rows if is_settled(driver) else []
        absent = [row for row in own if row not in rows and row[0] >= seam and row[0] not in world.given_up]
        lost = [row for row in absent if row[0] >= site.taken_over_at or not counts[row[0]]]
        if lost:
            yield f"{driver.name} goes on, and {len(lost)} of its rows are lost, first {lost[0]}"


def the_steps_of_a_page_end_with_a_running_job(world: Outside) -> Iterator[str]:
    """What a page says how to do ends with a job that runs; any other end is a refusal by name."""
    for site in world.running_sites:
        driver = world.newest_of(site)
        if not is_settled(driver) and (world.promised or not is_refused(driver)):
            yield f"{driver.name} is not up: {driver.outcome}{world.promised and f', and {world.promised} promises it'}"


def is_settled(driver: SimulatedDriver) -> bool:
    """Tell whether a driver has completed a checkpoint and goes on."""
    newest = driver.last_checkpoint
    return driver.is_up and driver.plan is not None and newest is not None and newest.id >= driver.plan.next_snapshot_id


def is_refused(driver: SimulatedDriver) -> bool:
    """Tell whether a driver, or its start, has ended with a difference that it names."""
    ended = driver.failure or driver.ending
    return ended is not None and ended.reason in REFUSALS


REFUSALS = frozenset(
    (
        *("SinkAhead", "SinkBehind", "SinkTaken", "SinkFolderTaken", "StagedRowsMissing"),
        *("SinkMarkerMissing", "SinkOpenedElsewhere", "SinkHistoryForgotten", "SinkOfAnotherJob"),
        *("NoCheckpointVerifies", "StateMissing", "StateWithoutCheckpoint", "SnapshotNotFound", "SnapshotBroken"),
    )
)
"""What a driver says when it, its storage and its sink do not know the same."""

AT_EVERY_EFFECT: tuple[Callable[[Record, Effect], Iterator[str]], ...] = (
    one_writer_per_generation,
    a_generation_is_filled_by_who_reserved_it,
    a_write_follows_a_look_at_the_fence,
    no_retained_snapshot_loses_a_file,
    numbers_never_go_back,
    the_newest_checkpoints_are_kept,
    nobody_deletes_what_a_successor_made,
)
WHEN_SHOWN = (output_of_a_batch_is_visible_once, output_is_visible_only_with_its_state)
OF_A_START = (a_start_goes_on_from_the_newest_state,)
AT_REST: tuple[Callable[[Simulation], Iterator[str]], ...] = (
    nobody_crashes,
    an_epoch_has_one_holder,
    who_was_replaced_has_ended,
    the_job_goes_on,
    state_and_output_are_the_truth,
)
OUTSIDE: tuple[Callable[[Outside], Iterator[str]], ...] = (
    no_row_is_lost_or_repeated_without_a_word,
    the_steps_of_a_page_end_with_a_running_job,
)
OUTSIDE_NAMES = tuple(rule.__name__ for rule in OUTSIDE)
NAMES = tuple(rule.__name__ for rule in (*AT_EVERY_EFFECT, *WHEN_SHOWN, *OF_A_START, *AT_REST, *OUTSIDE))


def _is_same(record: Record, effect: Effect) -> bool:
    """Tell whether a write or a copy leaves a file as it was, as one that comes twice does."""
    return record.bucket.read(effect.key) == effect.body


def _of_epoch(record: Record, effect: Effect) -> Iterator[str]:
    if f"{ROOT}/epochs/" not in effect.key or effect.key.endswith("/began.json"):
        return
    number = int(effect.key.rsplit("/", 1)[1].removesuffix(".json"))
    if number != record.newest_epoch + 1:
        yield f"{effect.who} claims epoch {number} after {record.newest_epoch}"


def _of_generation(record: Record, effect: Effect) -> Iterator[str]:
    if not effect.key.endswith("/generation.json") or effect.document.get("abandoned"):
        return
    number = int(effect.key.split("/")[-2])
    if effect.is_late and number in record.published and number < record.in_use:
        return  # Repeated after pruning has deleted it; no start looks at a record below the one in use.
    if number in record.closed:
        yield f"{effect.who} completes generation {number}, which is closed off"
    if number <= record.in_use or effect.process.epoch < record.published.get(record.in_use, 0):
        yield f"{effect.who} brings generation {number} into use after {record.in_use}"


def _of_checkpoint(record: Record, effect: Effect) -> Iterator[str]:
    snapshot = Snapshot.of(effect.key, effect.body)
    if snapshot is None or not snapshot.is_checkpoint:
        return
    before = record.checkpoints_at_claim.get(effect.process.epoch, 0)
    if snapshot.id <= before:
        yield f"{effect.who} completes checkpoint {snapshot.id}, and {before} was complete when it claimed"
