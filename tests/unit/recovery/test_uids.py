"""What becomes of a query's state when the job has changed: matched by uid and name, else refused by name (A.149-A.169)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import a_query
from plannedqueries import a_planned_query
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import OperatorEntry, QueryEntry, SourceEntry
from statefulspark.evolution import comparison
from statefulspark.recovery import plan

TWS = "transformWithStateInPandasExec"
SAVE = "stateStoreSave"


def ours(uid: str, place: int = 0, **known: object) -> plans.PlannedOperator:
    return plans.PlannedOperator(place, TWS, uid=uid, **{"max_parallelism": 128, "key": "string", **known})


def engines(place: int, name: str = SAVE, key: str | None = None, value: str | None = None) -> plans.PlannedOperator:
    return plans.PlannedOperator(place, name, key=key, value=value)


def placed(*operators: plans.PlannedOperator) -> tuple[plans.PlannedOperator, ...]:
    return tuple(replace(operator, operator_id=place) for place, operator in enumerate(operators))


def reads(*names: str) -> tuple[plans.PlannedSource, ...]:
    """Build sources; `clicks|files(/a)` gives a name, the same text twice in a row with `!` is another relation."""
    relations: dict[str, int] = {}
    found = []
    for name in names:
        given_name, _, description = name.rpartition("|")
        relation = relations.setdefault(name, len(relations))
        found.append(plans.PlannedSource(description.rstrip("!"), given_name or None, relation))
    return tuple(found)


def a_plan(
    *operators: plans.PlannedOperator,
    sources: tuple[str, ...] = ("kafka(subscribe=flights)",),
    partitions: int | None = None,
    time_zone: str = "UTC",
) -> plans.PlannedQuery:
    return a_planned_query(*placed(*operators), sources=reads(*sources), time_zone=time_zone, partitions=partitions)


def state_of(planned: plans.PlannedQuery, *, partitions: int = 2, batch_id: int = 6) -> QueryEntry:
    """Build the snapshot that a job with this plan leaves behind."""
    declared = plans.declared(planned, "generations/00000001/q")
    return declared.model_copy(
        update={
            "batch_id": batch_id,
            "operators": tuple(one.model_copy(update={"partitions": partitions}) for one in declared.operators),
            "offsets": tuple(f'{{"offset":{source.log}}}' for source in declared.sources),
        }
    )


def changed(before: plans.PlannedQuery, after: plans.PlannedQuery) -> comparison.Evolution:
    return comparison.evolve(state_of(before), after)


def refusal(before: plans.PlannedQuery, after: plans.PlannedQuery) -> errors.SpecRejectedError:
    with pytest.raises(errors.SpecRejectedError) as refused:
        comparison.compare([state_of(before)], [after], label="checkpoint 7")
    return refused.value


def test_an_unchanged_job_uses_its_state_as_it_is() -> None:
    plan = a_plan(ours("a"), ours("b"), engines(2), sources=("clicks|kafka(subscribe=c)", "files(/in)", "files(/in)!"))

    found = changed(plan, plan)

    assert found.is_empty
    assert (found.sentences, found.lost) == ((), ())


@given(st.permutations([ours("a"), ours("b"), ours("c"), engines(0), engines(0, "dedupe")]))
def test_in_any_order_every_operator_finds_its_own_state(order: list[plans.PlannedOperator]) -> None:
    """A.169: reordered stateful operators are fine with uids."""
    before = a_plan(ours("a"), ours("b"), ours("c"), engines(0), engines(0, "dedupe"))
    after = a_plan(*order)

    found = changed(before, after)

    assert (found.added, found.dropped) == ((), ())
    assert {before.operators[old].name: after.operators[new].name for old, new in found.operators.items()} == {
        name: name for name in (TWS, SAVE, "dedupe")
    }
    assert all(before.operators[old].uid == after.operators[new].uid for old, new in found.operators.items())


def test_a_new_uid_starts_empty_and_moves_the_others() -> None:
    """A.168, A.169."""
    found = changed(a_plan(ours("a"), ours("b")), a_plan(ours("b"), ours("c"), ours("a")))

    assert dict(found.operators) == {0: 2, 1: 0}
    assert [(operator.uid, operator.operator_id) for operator in found.added] == [("c", 1)]
    assert "query 'q': operator 'c' is new and starts empty" in found.sentences


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        pytest.param(a_plan(ours("a"), ours("b")), a_plan(ours("b")), "operator 'a' of query 'q'", id="an operator of ours"),
        pytest.param(a_plan(ours("b"), engines(0)), a_plan(ours("b")), "operator 'stateStoreSave-1'", id="an aggregation"),
        pytest.param(a_plan(ours("a")), a_plan(ours("renamed")), "operator 'a'", id="a uid that was changed"),
        pytest.param(a_plan(ours("a"), sources=("kafka(subscribe=x)", "files(/in)")),
                     a_plan(ours("a"), sources=("kafka(subscribe=x)",)), "source 'files(/in)'", id="a source"),
    ],
)  # fmt: skip
def test_it_is_refused_without_a_word_and_left_behind_with_it(
    before: plans.PlannedQuery, after: plans.PlannedQuery, named: str
) -> None:
    """A.167, A.168."""
    error = refusal(before, after)
    (found,) = comparison.compare(
        [state_of(before)], [after], label="x", drop_state=[part.uid for part in changed(before, after).lost]
    )

    assert error.reason == "NonRestoredState"
    assert named in error.message
    assert "checkpoint 7" in error.message
    assert "restore.dropState" in error.message
    assert any(named in lost.name for lost in found.lost)
    assert not found.is_empty


def test_all_that_is_lost_is_named_at_once() -> None:
    message = refusal(a_plan(ours("a"), ours("b"), ours("c")), a_plan(ours("c"))).message

    assert "'a'" in message
    assert "'b'" in message


def test_a_query_without_a_commit_fits_any_plan() -> None:
    before = state_of(a_plan(ours("a")), batch_id=-1)

    assert comparison.evolve(before, a_plan(ours("z", max_parallelism=7), engines(1))).is_empty


@pytest.mark.parametrize(
    ("before", "after", "reason", "values"),
    [
        pytest.param(ours("a", key="string"), ours("a", key="bigint"), "KeyChanged", ("(string)", "(bigint)"), id="its key"),
        pytest.param(engines(0, key="string", value="string, bigint"), engines(0, key="bigint", value="bigint, bigint"),
                     "KeyChanged", ("(string)", "(bigint)"), id="the key of an aggregation"),
        pytest.param(engines(0, key="string", value="string, bigint"), engines(0, key="string", value="string, double"),
                     "ValueChanged", ("(string, bigint)", "(string, double)"), id="what an aggregation computes"),
        pytest.param(ours("a", mode="update"), ours("a", mode="append"), "OutputModeChanged", ("(update)", "(append)"),
                     id="its output mode"),
        pytest.param(ours("a", max_parallelism=128), ours("a", max_parallelism=64), "MaxParallelismChanged", ("128", "64"),
                     id="its number of key groups (A.67)"),
    ],
)  # fmt: skip
def test_an_operator_that_could_not_read_its_state_is_refused_for(
    before: plans.PlannedOperator, after: plans.PlannedOperator, reason: str, values: tuple[str, str]
) -> None:
    error = refusal(a_plan(before), a_plan(after))

    assert error.reason == reason
    assert all(value in error.message for value in values)
    assert before.entry_uid in error.message
    assert "'q'" in error.message


def test_what_the_snapshot_does_not_know_is_left_to_spark() -> None:
    known = state_of(a_plan(ours("a")))
    unknown = [one.model_copy(update={"key": None, "mode": None, "max_parallelism": None}) for one in known.operators]

    assert comparison.evolve(
        known.model_copy(update={"operators": tuple(unknown)}), a_plan(ours("a", mode="append"))
    ).is_empty


def test_another_time_zone_is_refused_with_both() -> None:
    error = refusal(a_plan(ours("a")), a_plan(ours("a"), time_zone="Europe/Oslo"))

    assert error.reason == "TimeZoneChanged"
    assert "UTC" in error.message
    assert "Europe/Oslo" in error.message


def test_aggregations_are_told_apart_by_their_keys() -> None:
    text, number, day = (engines(0, key=key, value="x") for key in ("string", "bigint", "date"))

    found = changed(a_plan(text, number), a_plan(number, day, text))

    assert dict(found.operators) == {0: 2, 1: 0}
    assert [operator.key for operator in found.added] == ["date"]


def test_aggregations_that_look_the_same_are_refused_when_their_number_changes() -> None:
    """A.151: an id that comes from the topology does not survive its change."""
    twin = engines(0, key="string", value="x")

    error = refusal(a_plan(twin, twin), a_plan(twin, twin, twin))

    assert error.reason == "OperatorsAmbiguous"
    assert "had 2 operators 'stateStoreSave' and has 3 now" in error.message
    assert "ss.keyed_process" in error.message


K, F, G = "kafka(subscribe=x)", "files(/in)", "files(/other)"


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param((K, F), (F, K), (1, 0), id="swapped sources keep their positions"),
        pytest.param((K,), (F, K), (None, 0), id="a new source starts where its options say"),
        pytest.param((K, F), (F, K, F), (1, 0, 1), id="one stream used twice goes on from its one position"),
        pytest.param((K, F, K), (K, F), (0, 1), id="a stream that is used once less keeps its position"),
        pytest.param((f"a|{F}", f"b|{F}"), (f"b|{F}", f"a|{F}"), (1, 0), id="names tell apart what reads the same"),
        pytest.param((f"a|{F}", f"b|{K}"), (f"b|{K}", f"a|{G}"), (1, 0), id="a named source may read something else"),
        pytest.param((F, K), (K, f"a|{F}"), (1, 0), id="a name given later does not lose the position"),
        pytest.param((f"a|{F}", K), (K, F), (1, 0), id="nor does a name taken away"),
        pytest.param((F, K), (K, G), (1, 0), id="the only source of its format is the same source"),
        pytest.param((K,), (K, F, G), (0, None, None), id="several new ones"),
    ],
)
def test_of_sources(before: tuple[str, ...], after: tuple[str, ...], lines: tuple[int | None, ...]) -> None:
    assert changed(a_plan(ours("a"), sources=before), a_plan(ours("a"), sources=after)).lines == lines


def test_logs_of_sources_follow_them() -> None:
    found = changed(a_plan(ours("a"), sources=(K, F, K)), a_plan(ours("a"), sources=(F, K)))

    assert dict(found.rewrite.source_logs) == {0: 1, 1: 0}


def test_sources_that_read_the_same_are_refused_when_their_number_changes() -> None:
    error = refusal(a_plan(ours("a"), sources=(F, f"{F}!", K)), a_plan(ours("a"), sources=(F, K)))

    assert error.reason == "SourcesAmbiguous"
    assert "had 2 sources files(/in) and has 1 now" in error.message
    assert "ss.named_source" in error.message


def test_sources_that_read_the_same_from_other_positions_are_refused_when_others_move() -> None:
    error = refusal(a_plan(ours("a"), sources=(F, f"{F}!", K)), a_plan(ours("a"), sources=(K, F, f"{F}!")))

    assert error.reason == "SourcesAmbiguous"


def test_one_name_for_two_different_sources_is_refused() -> None:
    error = refusal(a_plan(ours("a")), a_plan(ours("a"), sources=(f"a|{F}", f"a|{K}")))

    assert error.reason == "SourceNameTaken"
    assert "files(/in)" in error.message
    assert "kafka(subscribe=x)" in error.message


@pytest.mark.parametrize(("after", "fits"), [((F, K), True), ((F, K, G), False)])
def test_a_snapshot_that_names_no_sources_fits_the_same_number(after: tuple[str, ...], *, fits: bool) -> None:
    query = state_of(a_plan(ours("a"), sources=(K, F))).model_copy(update={"sources": ()})
    if fits:
        assert comparison.evolve(query, a_plan(ours("a"), sources=after)).is_empty
    else:
        with pytest.raises(errors.SpecRejectedError, match="had 2 sources and has 3 now"):
            comparison.evolve(query, a_plan(ours("a"), sources=after))


def test_what_a_driver_planned_is_written_into_a_closure() -> None:
    planned = a_plan(ours("a"), engines(1, key="string", value="x"), sources=(f"clicks|{K}",))
    bare = QueryEntry(
        uid="q",
        batch_id=3,
        path="p",
        offsets=("{}",),
        operators=(
            OperatorEntry(uid="a", operator_id=0, name=TWS, partitions=2),
            OperatorEntry(uid="stateStoreSave-1", operator_id=1, name=SAVE, partitions=2),
        ),
    )

    entry = plans.annotate(bare, planned)

    assert [(one.max_parallelism, one.key, one.value) for one in entry.operators] == [
        (128, "string", None),
        (None, "string", "x"),
    ]
    assert entry.sources == (SourceEntry(name="clicks", description=K, log=0),)
    assert plans.inherit([bare], [entry]) == (entry,)


@pytest.mark.parametrize(
    ("queries", "query_uids", "lost"),
    [
        pytest.param([a_query("q")], ["q", "r"], (), id="added queries are fine"),
        pytest.param([a_query("q"), a_query("r")], ["r", "q"], (), id="reordered queries are fine"),
        pytest.param(
            [a_query("q"), a_query("r"), a_query("s")], ["r"], ("query 'q'", "query 's'"), id="removed ones are named"
        ),
        pytest.param([a_query("q", batch_id=-1)], ["r"], (), id="a removed query without a commit is not"),
    ],
)
def test_of_queries(queries: list[QueryEntry], query_uids: list[str], lost: tuple[str, ...]) -> None:
    assert tuple(part.name for part in plan.lost_queries(queries, query_uids=query_uids)) == lost


def test_a_lost_query_is_refused_with_the_snapshot_the_uid_and_the_way_out() -> None:
    """A.167."""
    with pytest.raises(errors.SpecRejectedError, match=r"checkpoint 7 .*query 'q'.*add 'q' to restore\.dropState"):
        plan.require_no_lost_state([a_query("q")], "checkpoint 7", query_uids=["r"])
