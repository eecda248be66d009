"""Uids of queries, sinks and keyed operators follow one rule: what can name a folder for years."""

from __future__ import annotations

import pytest
from statefulspark import errors, job
from statefulspark.operators.keyed import registry

BAD = ["", "Upper", "-first", "last-", "a" * 64, "a/b", "newline\n"]


@pytest.mark.parametrize("uid", BAD)
def test_a_keyed_operator_and_a_query_refuse_the_same_uids(uid: str) -> None:
    with pytest.raises(errors.SpecRejectedError):
        registry.check_uid(uid)
    with pytest.raises(errors.SpecRejectedError):
        job.require_uid(uid, "a query")
