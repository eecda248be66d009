"""Of several attempts at a batch the one counts whose driver has committed it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from statefulspark.checkpoint import required_records
from statefulspark.contract import layout
from statefulspark.contract.manifest import EpochRecord
from statefulspark.storage.port import ObjectInfo
from statefulspark.testing import stores

NOW = datetime(2026, 1, 1, tzinfo=UTC)

PREPARED_7, PREPARED_8 = "prepared/out/00000004-00000007.json", "prepared/out/00000004-00000008.json"
STATE_7 = "operator-state/f/00000004-00000007.json"
UNCHANGED_8 = "unchanged/f/00000004-00000008.json"
OTHER_SINK_8 = "prepared/other/00000004-00000008.json"
OUTPUT_7, OUTPUT_8 = "output/totals/00000004-00000007.json", "output/totals/00000004-00000008.json"
NEXT_8 = "prepared/out/00000005-00000008.json"


@pytest.mark.parametrize(
    ("keys", "epochs"),
    [
        pytest.param((PREPARED_7, NEXT_8), {}, id="each batch has one"),
        pytest.param((PREPARED_7, PREPARED_8, NEXT_8), {4: {7, 8}}, id="two transactions"),
        pytest.param((STATE_7, UNCHANGED_8), {4: {7, 8}}, id="state, and a record that it did not change"),
        pytest.param((OUTPUT_7, OUTPUT_8), {}, id="what a driver writes at its start is no attempt"),
        pytest.param(("commits/4", "offsets/4", "state/0/0/5_a.zip"), {}, id="files of Spark"),
    ],
)
def test_a_batch_is_contested_if_several_drivers_have_records_of_it(
    keys: Collection[str], epochs: Mapping[int, Collection[int]]
) -> None:
    assert required_records.rivals(keys, lambda name: True) == epochs


@pytest.mark.parametrize(
    ("winners", "left"),
    [
        pytest.param({4: 7}, {PREPARED_7, STATE_7, OTHER_SINK_8, OUTPUT_7, OUTPUT_8, NEXT_8}, id="the one before wins"),
        pytest.param({4: 8}, {PREPARED_8, UNCHANGED_8, OTHER_SINK_8, OUTPUT_7, OUTPUT_8, NEXT_8}, id="the newest wins"),
        pytest.param({}, None, id="nobody knows"),
        pytest.param({4: 6}, None, id="the winner has left no record"),
    ],
)
def test_records_of_who_lost_a_batch_are_left_out(winners: Mapping[int, int], left: set[str] | None) -> None:
    listed = dict.fromkeys(
        (PREPARED_7, PREPARED_8, STATE_7, UNCHANGED_8, OTHER_SINK_8, OUTPUT_7, OUTPUT_8, NEXT_8), "info"
    )

    assert set(required_records.without_losers(listed, winners)) == (left or set(listed))


class Signing(stores.MemoryStore):
    """A store whose commits tell the claim of their driver, and which counts how often that is asked."""

    claims: Mapping[str, str]
    asked = 0

    def info(self, key: str) -> ObjectInfo | None:
        found = super().info(key)
        if found is None or "commits/" not in key:
            return found
        self.asked += 1
        return replace(found, claim=self.claims.get(key))


def a_root(claims: Mapping[str, str]) -> Signing:
    store = Signing("memory://bucket")
    store.claims = claims
    for epoch in (7, 8):
        follows = f"claim {epoch - 1}"
        record = EpochRecord(
            epoch=epoch, claimed_at=NOW, holder="pod", claim_id=f"claim {epoch}", follows=follows if epoch > 7 else None
        )
        store.write(layout.epoch(epoch), record.to_json().encode())
    store.write("q/commits/4", b"")
    return store


@pytest.mark.parametrize(
    ("claim", "winner"), [("claim 7", {4: 7}), ("claim 8", {4: 8}), ("of another life", {}), (None, {})]
)
def test_the_commit_tells_who_has_won_and_is_asked_once(claim: str | None, winner: Mapping[int, int]) -> None:
    store = a_root({"q/commits/4": claim} if claim else {})
    winners = required_records.Winners(store, "q")

    assert winners.find({4: {7, 8}}) == winners.find({4: {7, 8}}) == winner
    assert store.asked == 1


def test_a_batch_that_was_tried_once_costs_nothing() -> None:
    store = a_root({})

    assert required_records.Winners(store, "q").find({}) == {}
    assert store.asked == 0
