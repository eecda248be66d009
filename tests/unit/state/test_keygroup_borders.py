"""The borders of key groups: what is allowed, and who owns the first and the last group of a range (A.63, A.64)."""

from __future__ import annotations

import pytest
from statefulspark import errors
from statefulspark.state import keygroups


@pytest.mark.parametrize("allowed", [1, 2, keygroups.MAX_PARALLELISM_LIMIT])
def test_a64_the_smallest_and_the_largest_number_of_groups_are_allowed(allowed: int) -> None:
    keygroups.check_max_parallelism(allowed)


def test_a64_a_number_out_of_range_is_refused_by_reason() -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        keygroups.check_max_parallelism(0)

    assert refused.value.reason == "MaxParallelismInvalid"
