"""Whose restored state nobody has loaded yet."""

from __future__ import annotations

import pytest
from manifests import a_query, an_operator
from statefulspark.contract import manifest


@pytest.mark.parametrize(
    ("batches", "untried"),
    [
        pytest.param({"a": 4, "b": 8}, ("a",), id="one has committed nothing since"),
        pytest.param({"a": 5, "b": 8}, (), id="both have"),
        pytest.param({"a": 3, "b": 7}, ("a", "b"), id="neither has"),
        pytest.param({"b": 8}, ("a",), id="one is not in the snapshot"),
    ],
)
def test_a_state_is_untried_until_its_query_has_committed_a_batch(
    batches: dict[str, int], untried: tuple[str, ...]
) -> None:
    assert manifest.untried({"b": 7, "a": 4}, batches) == untried


def test_only_a_query_with_state_has_to_load_it() -> None:
    queries = (
        a_query("stateful", an_operator(), batch_id=7, files=("commits/7",)),
        a_query("stateless", batch_id=7, files=("commits/7",)),
        a_query("begins", an_operator(), batch_id=-1),
    )

    assert manifest.restored_batches(queries) == {"stateful": 7}
