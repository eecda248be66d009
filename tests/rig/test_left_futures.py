"""Going back leaves a future behind: its snapshots stay whole as long as they are kept, and can be gone to again."""

from __future__ import annotations

import pytest
from faultrig import drivers, engine, faults
from faultrig.world import World
from restores import a_restore

GOES_BACK = a_restore(snapshot="checkpoint:1", nonce="back")
BACKUPS = "s3://rig/backups"


def goes_back(world: World, location: str | None) -> tuple[drivers.Driver, str]:
    """A job taken back to its first checkpoint, with a second one and a savepoint of batches that were not committed yet."""
    driver = world.start()
    world.settle(driver, count=2)
    world.settle(driver, count=2)
    world.batches(driver, 2)
    savepoint = world.savepoint(driver, location)
    assert savepoint is not None
    world.kill(driver)
    back = world.start(world.wish(restore=GOES_BACK))
    world.settle(back, count=1)
    return back, savepoint


@pytest.mark.parametrize("location", [None, BACKUPS], ids=["in its own root", "at another location"])
def test_a_checkpoint_and_a_savepoint_of_a_future_that_was_left_can_be_restored(
    location: str | None, world: World
) -> None:
    """Giving up the transactions after the cut deleted records that they name, and the rows behind the savepoint's."""
    back, savepoint = goes_back(world, location)
    world.kill(back)

    for number, named in enumerate(("checkpoint:2", savepoint)):
        restored = world.start(world.wish(restore=a_restore(snapshot=named, nonce=f"forward {number}")))
        assert restored.found == world.offsets(named), restored.outcome
        world.kill(restored)
    world.judge()


def test_a_checkpoint_that_arrives_while_its_future_is_being_left_has_all_its_files(world: World) -> None:
    """The start that went back had given up, at once, the transactions that the checkpoint on its way names."""
    driver = world.start()
    world.settle(driver, count=2)
    world.batches(driver, 2)
    driver.arm(faults.Kind.DELAY, matches="checkpoints/", name="create")
    world.checkpoint(driver)
    world.kill(driver)
    back = world.start(world.wish(restore=GOES_BACK))
    assert back.is_up, back.outcome

    world.deliver()

    assert world.checkpoints() == [1, 2]
    world.judge()


def test_what_was_prepared_after_the_cut_is_given_up_when_nothing_names_it_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RUNS_TWICE", 0.0)  # What such an attempt leaves nobody has recorded.
    back, savepoint = goes_back(world, None)
    world.bucket.delete_many([info.key for info in world.bucket.list(savepoint.removeprefix("s3://rig/"))])

    world.clock.forward(24 * 3600)  # What was left behind stays for a day.
    for _ in range(drivers.RETAINED + 1):
        world.settle(back)

    through_the_cut = {"00000000", "00000001"}
    records = [info.key.split("/") for info in world.bucket.list("a/default/flights/generations/00000001")]
    assert {parts[-1].split("-")[0] for parts in records if "prepared" in parts} == through_the_cut
    kept = b"".join(world.bucket.read(info.key) for info in world.bucket.list("out/_withdrawn")).decode()
    files = [info.key.split("/")[-1] for info in world.bucket.list("out/data")]
    left = [name.split("-") for name in files if name not in kept]  # What was shown once can be brought back.
    assert {batch for batch, generation, *_ in left if generation == "00000001"} == through_the_cut
