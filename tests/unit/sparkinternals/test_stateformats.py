"""Which forms of state an older release of Spark takes for others."""

from __future__ import annotations

import pytest
from statefulspark.sparkinternals import releases, stateformats

MERGE = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
JOIN = "spark.sql.streaming.join.stateFormatVersion"
ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
LISTS = stateformats.StoredOperator("lists", "transformWithStateInPandasExec", "bigint", is_own=False)
OURS = stateformats.StoredOperator("count", "transformWithStateInPandasExec", "bigint", is_own=True)
DEDUPE = stateformats.StoredOperator("dedupe-0", "dedupe", "int, int, int, int, int", is_own=False)
FEW_KEYS = stateformats.StoredOperator("dedupe-0", "dedupe", "int, int, int, int", is_own=False)
KEYS_UNKNOWN = stateformats.StoredOperator("dedupe-0", "dedupeWithinWatermark", None, is_own=False)
MEETING = stateformats.StoredOperator("symmetricHashJoin-0", "symmetricHashJoin", "bigint", is_own=False)


@pytest.mark.parametrize(
    ("installed", "pinned", "operator", "is_readable"),
    [
        pytest.param("4.1.4", {MERGE: "2"}, LISTS, False, id="4.1 does not know lists without commas"),
        pytest.param("4.1.4", {MERGE: "1"}, LISTS, True, id="lists with commas are the form of 4.1"),
        pytest.param("4.1.4", {}, LISTS, True, id="4.1 has pinned nothing of it"),
        pytest.param("4.1.4", {MERGE: "2"}, OURS, True, id="keyed state has no lists of Spark's"),
        pytest.param("4.2.0", {MERGE: "2"}, LISTS, True, id="4.2 knows both forms of lists"),
        pytest.param("4.2.0", {ORDER: "true"}, DEDUPE, False, id="4.2 has another order of many keys"),
        pytest.param("4.2.0", {ORDER: "true"}, KEYS_UNKNOWN, False, id="the number of keys is not known"),
        pytest.param("4.2.0", {ORDER: "true"}, FEW_KEYS, True, id="few keys keep their order"),
        pytest.param("4.2.0", {ORDER: "false"}, DEDUPE, True, id="4.3 has kept the older order"),
        pytest.param("4.3.0", {ORDER: "true"}, DEDUPE, True, id="4.3 knows the order"),
        pytest.param("4.2.0", {JOIN: "4"}, MEETING, False, id="4.2 cannot read joins by time"),
        pytest.param("4.1.4", {JOIN: "3"}, MEETING, True, id="4.1 reads joins in one store"),
        pytest.param("4.3.0", {JOIN: "4"}, MEETING, True, id="4.3 reads joins by time"),
    ],
)
def test_a_form_that_the_installed_release_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch,
    installed: str,
    pinned: dict[str, str],
    operator: stateformats.StoredOperator,
    is_readable: bool,
) -> None:
    monkeypatch.setattr(releases, "version", lambda: installed)
    named = [form.setting for form, _ in stateformats.unreadable(pinned, [operator])]
    assert named == ([] if is_readable else [*pinned])


@pytest.mark.parametrize("installed", ["4.1.4", "4.2.0", "4.3.0"])
def test_the_settings_of_a_new_query_are_read_by_every_release(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    monkeypatch.setattr(releases, "version", lambda: installed)
    assert [*stateformats.unreadable(stateformats.readable_settings(), [LISTS, DEDUPE, MEETING])] == []
