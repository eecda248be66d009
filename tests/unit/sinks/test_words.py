"""`takeOverSinks` that is left in the manifests of two jobs in front of one sink counts once for each of them."""

from __future__ import annotations

import pytest
from sinkdrivers import Driver
from snapshots import Clock
from statefulspark import errors
from statefulspark.contract.config import RestoreConfig
from statefulspark.driver.starting import sink_comparison
from statefulspark.testing.stores import MemoryStore
from toldsinks import MarkedSink

SAYS = RestoreConfig(take_over_sinks=True)
AGAIN = RestoreConfig(take_over_sinks=True, takes_over_as="2")
ONE, OTHER = "one", "other"
OPENS, REFUSED = True, False


@pytest.mark.parametrize(
    "starts",
    [
        pytest.param(
            [(ONE, SAYS, OPENS), (OTHER, SAYS, OPENS), (ONE, SAYS, REFUSED), (OTHER, SAYS, OPENS)], id="in turn"
        ),
        pytest.param(
            [(ONE, SAYS, OPENS), (ONE, SAYS, OPENS), (OTHER, SAYS, OPENS), (ONE, SAYS, REFUSED)],
            id="a word that its job has not needed",
        ),
        pytest.param(
            [
                (ONE, SAYS, OPENS),
                (OTHER, SAYS, OPENS),
                (ONE, AGAIN, OPENS),
                (OTHER, SAYS, REFUSED),
                (OTHER, AGAIN, OPENS),
            ],
            id="said again under a new name",
        ),
        pytest.param([(ONE, RestoreConfig(), OPENS), (OTHER, RestoreConfig(), REFUSED)], id="without the word"),
    ],
)
def test_the_one_that_lost_a_sink_does_not_take_it_again(starts: list[tuple[str, RestoreConfig, bool]]) -> None:
    bucket, clock, sink = MemoryStore("memory://bucket"), Clock(), MarkedSink(visible="checkpoint")
    for root, restore, opens in starts:
        if opens:
            driver = Driver(bucket, clock, restore, sink=sink, root=root)
            driver.batch(1)
            driver.checkpoint()
            continue
        with pytest.raises(errors.SpecRejectedError) as raised:
            Driver(bucket, clock, restore, sink=sink, root=root)
        assert raised.value.reason == "SinkTaken"


@pytest.mark.parametrize("reason", ["SinkTaken", "SinkAhead"])
@pytest.mark.parametrize(
    ("restore", "is_told"),
    [(SAYS, True), (AGAIN, False), (RestoreConfig(), False)],
    ids=["used", "said again", "not said"],
)
def test_a_refusal_tells_that_the_word_was_used(reason: str, restore: RestoreConfig, is_told: bool) -> None:
    driver = Driver(MemoryStore("memory://bucket"), Clock(), SAYS)
    again = Driver(driver.job.bucket, Clock(), SAYS)

    with pytest.raises(errors.SpecRejectedError) as raised, sink_comparison.explaining_take_over(restore, again.plan):
        raise errors.SpecRejectedError(reason, "It is another's.")

    assert raised.value.reason == reason
    assert ("change restore.nonce" in raised.value.message) is is_told


def test_another_error_is_left_as_it_is() -> None:
    driver = Driver(MemoryStore("memory://bucket"), Clock(), SAYS)

    with (
        pytest.raises(errors.SpecRejectedError, match=r"It is not there\.$"),
        sink_comparison.explaining_take_over(SAYS, driver.plan),
    ):
        raise errors.SpecRejectedError("TableMissing", "It is not there.")
