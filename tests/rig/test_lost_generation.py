"""A generation whose record is gone was in use all the same, if completed checkpoints are of it."""

from __future__ import annotations

from faultrig.world import World


def test_a_generation_in_use_is_not_taken_for_a_half_made_one_when_its_record_is_gone(world: World) -> None:
    """It was closed off, its files and with them its checkpoints were deleted, and the job fell back to the one before."""
    driver = world.start()
    world.settle(driver)
    world.kill(driver)
    driver = world.start(world.wish(is_changed=True))
    world.settle(driver, count=2)
    world.batches(driver)
    head = world.head()
    world.kill(driver)
    world.bucket.delete_many(["a/default/flights/generations/00000002/generation.json"])

    successor = world.start()

    assert successor.found == head
    assert successor.plan is not None
    assert "generation.json does not exist" in (successor.plan.fallback or "")
    world.settle(successor, count=2)
