"""What a job file declares: names that keep state for years."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
import statefulspark as ss
from statefulspark import errors, job


@pytest.mark.parametrize("uid", ["a", "words", "word-count_2", "0", "a" * 63])
def test_a_uid_that_can_be_a_folder_is_taken(uid: str) -> None:
    assert job.require_uid(uid, "a query") == uid


@pytest.mark.parametrize("uid", ["", "Words", "a b", "-a", "a-", "_a", "a/b", "a.b", "ä", "a" * 64, "a\n"])
def test_any_other_uid_is_refused_by_value(uid: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        job.require_uid(uid, "a query")

    assert raised.value.reason == "UidInvalid"
    assert repr(uid) in raised.value.message


def test_an_output_mode_that_spark_does_not_have_is_refused_and_the_default_is_sparks() -> None:
    with pytest.raises(errors.SpecRejectedError, match="'upsert'; use one of 'append', 'update', 'complete'") as raised:
        ss.write(None, sink=None, uid="out", output_mode="upsert")

    assert raised.value.reason == "OutputModeInvalid"
    assert ss.write(None, sink=None, uid="out").output_mode == "append"


@pytest.mark.parametrize(
    ("given", "trigger"),
    [
        ("1s500ms", timedelta(seconds=1.5)),
        (timedelta(minutes=1), timedelta(minutes=1)),
        (ss.AVAILABLE_NOW, ss.AVAILABLE_NOW),
        (None, None),
    ],
)
def test_a_trigger_is_a_duration_in_the_grammar_of_the_resource_or_available_now(
    given: object, trigger: object
) -> None:
    assert ss.write(None, sink=None, uid="out", trigger=given).trigger == trigger


def test_a_trigger_in_sparks_words_is_refused() -> None:
    with pytest.raises(errors.SpecRejectedError, match="'5 seconds' must be a number with a unit"):
        ss.write(None, sink=None, uid="out", trigger="5 seconds")


def test_queries_keep_the_order_of_their_declaration() -> None:
    words = ss.Job("words")

    for uid in ("z", "a"):
        words.query(uid=uid)(lambda spark, ctx: None)  # type: ignore[arg-type,return-value]

    assert [query.uid for query in words.queries] == ["z", "a"]


def test_two_queries_with_one_uid_are_refused() -> None:
    """A.152."""
    words = ss.Job("words")
    words.query(uid="same")(lambda spark, ctx: None)  # type: ignore[arg-type,return-value]

    with pytest.raises(errors.SpecRejectedError, match="'same'") as raised:
        words.query(uid="same")

    assert raised.value.reason == "UidDuplicate"


def test_a_cell_of_a_notebook_could_not_be_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time its query was refused as a duplicate; the newer function replaces the older one."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    words = ss.Job("words")

    for function in (print, repr):
        words.query(uid="counts")(function)  # type: ignore[arg-type]

    assert [query.function for query in words.queries] == [repr]


def test_a_declared_function_can_still_be_called() -> None:
    words = ss.Job("words")

    @words.query(uid="counts")
    def counts(spark: object, ctx: object) -> str:  # type: ignore[type-var]
        return "called"

    assert counts(None, None) == "called"  # type: ignore[arg-type,comparison-overlap]


def test_a_parameter_is_found_by_name() -> None:
    context = ss.QueryContext("words", "default", {"input": "/data"})

    assert context.parameter("input") == "/data"
    assert context.parameter("mode", "fast") == "fast"


def test_a_parameter_has_the_type_of_its_default() -> None:
    context = ss.QueryContext("words", "default", {"rows": "4", "fast": "true", "gap": "1h30m", "rate": "0.5"})

    assert context.parameter("rows", 20) == 4
    assert context.parameter("fast", default=False) is True
    assert context.parameter("gap", timedelta(0)) == timedelta(minutes=90)
    assert context.parameter("rate", 1.0) == 0.5
    assert context.parameter("keys", 7) == 7


def test_a_parameter_that_does_not_fit_its_default_is_refused_with_both() -> None:
    context = ss.QueryContext("words", "default", {"rows": "four"})

    with pytest.raises(errors.InvalidArgumentError, match=r"'rows' is 'four', which is no int.*its default 20"):
        context.parameter("rows", 20)


def test_a_job_that_declares_its_parameters_reads_them_in_one_way() -> None:
    context = ss.QueryContext("words", "default", object())

    with pytest.raises(errors.InvalidArgumentError, match=r"read ctx\.parameters\.rows"):
        context.parameter("rows")


def test_a_missing_parameter_says_which_there_are_and_how_to_set_it() -> None:
    context = ss.QueryContext("words", "default", {"input": "/data"})

    with pytest.raises(errors.SpecRejectedError) as raised:
        context.parameter("output")

    assert raised.value.reason == "ParameterMissing"
    assert "'output'" in raised.value.message
    assert "given are: input" in raised.value.message
    assert "--parameter output=VALUE" in raised.value.message
