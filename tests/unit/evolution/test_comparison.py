"""What is told of a changed job, and what its manifests remember: whole values, with more than one of each (A.149-A.169)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manifests import a_query, an_operator
from plannedqueries import a_planned_operator, a_planned_query
from statefulspark import errors
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import FileEntry, KeyedStateEntry, OperatorEntry, QueryEntry, SourceEntry
from statefulspark.evolution import comparison, keyed_states, parallelism, rewrite, sources
from statefulspark.recovery import plan
from statefulspark.state import functions, kinds, mapstate


def _source(name: str, log: int = 0, description: str | None = None) -> SourceEntry:
    return SourceEntry(name=name, description=description or name, log=log)


def _in_the_cut(*operators: OperatorEntry, sources: tuple[SourceEntry, ...] = (), batch_id: int = 6) -> QueryEntry:
    offsets = tuple(f'{{"offset":{number}}}' for number, _ in enumerate(sources))
    return a_query("q", *operators, batch_id=batch_id, path="p", sources=sources, offsets=offsets)


def _planned(
    *operators: plans.PlannedOperator, reads: tuple[str, ...] = (), partitions: int | None = None
) -> plans.PlannedQuery:
    planned = tuple(plans.PlannedSource(name, name, relation) for relation, name in enumerate(reads))
    return a_planned_query(*operators, sources=planned, partitions=partitions)


def test_an_operator_that_moved_is_told_and_its_files_move() -> None:
    """A.169."""
    found = comparison.evolve(
        _in_the_cut(an_operator("a", 0), an_operator("b", 1)),
        _planned(a_planned_operator("b", 0), a_planned_operator("a", 1)),
    )

    assert not found.is_empty
    assert found.sentences == (
        "query 'q': operator 'a' has another position in the plan",
        "query 'q': operator 'b' has another position in the plan",
    )
    assert found.rewrite == rewrite.Rewrite({0: 1, 1: 0}, (), {})


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        pytest.param(
            _planned(a_planned_operator("a"), a_planned_operator("b", 1)),
            "query 'q': operator 'b' is new and starts empty",
            id="added",
        ),
        pytest.param(_planned(), "query 'q': the state of operator 'a' is dropped", id="dropped"),
        pytest.param(
            _planned(a_planned_operator("a"), partitions=5),
            "query 'q': state is spread over 5 partitions instead of 2",
            id="another number of partitions",
        ),
    ],
)
def test_each_change_of_operators_alone_is_one(planned: plans.PlannedQuery, told: str) -> None:
    found = comparison.evolve(_in_the_cut(an_operator("a")), planned)

    assert (found.is_empty, found.sentences) == (False, (told,))


@pytest.mark.parametrize(
    ("planned", "absent"),
    [
        pytest.param((_planned(a_planned_operator("a"), reads=("s",)),), None, id="the same job"),
        pytest.param((_planned(reads=("s",)),), None, id="less than there is"),
        pytest.param(
            (_planned(a_planned_operator("a"), a_planned_operator("b", 1), reads=("s",)),),
            "operator 'b' of query 'q'",
            id="an operator",
        ),
        pytest.param((_planned(a_planned_operator("a"), reads=("s", "t")),), "source 't' of query 'q'", id="a source"),
        pytest.param(
            (_planned(a_planned_operator("a"), reads=("s",)), plans.PlannedQuery("p", (), ())),
            "query 'p'",
            id="a query",
        ),
    ],
)
def test_what_a_rollback_would_start_without_state_is_refused_by_name(
    planned: tuple[plans.PlannedQuery, ...], absent: str | None
) -> None:
    cut = _in_the_cut(an_operator("a"), sources=(_source("s"),))
    found = comparison.compare([cut], planned, label="checkpoint 7", drop_state=("a", "s"))

    if absent is None:
        comparison.require_state_for_all(found, planned, "checkpoint 7")
        return
    with pytest.raises(errors.SpecRejectedError, match=rf"checkpoint 7 holds no state of {absent}\.") as refused:
        comparison.require_state_for_all(found, planned, "checkpoint 7")
    assert refused.value.reason == "StateAbsent"


def test_a_query_that_never_committed_a_batch_loses_nothing_in_a_rollback() -> None:
    planned = (_planned(a_planned_operator("a"), reads=("s",)),)
    found = comparison.compare([_in_the_cut(batch_id=-1)], planned, label="it")

    comparison.require_state_for_all(found, planned, "it")


@pytest.mark.parametrize(
    ("reads", "told"),
    [
        pytest.param(("a", "b"), (), id="the same"),
        pytest.param(("b", "a"), ("sources have another order",), id="another order"),
        pytest.param(
            ("a", "b", "c", "d"),
            (
                "source 'c' is new and starts where its options say",
                "source 'd' is new and starts where its options say",
            ),
            id="new ones at the end",
        ),
        pytest.param(("c", "a", "b"), ("source 'c' is new and starts where its options say",), id="a new one in front"),
        pytest.param(("a",), ("the position of source 'b' is dropped",), id="the last one gone"),
        pytest.param(
            ("c", "b", "a"),
            ("source 'c' is new and starts where its options say", "sources have another order"),
            id="a new one and another order",
        ),
    ],
)
def test_each_change_of_sources_is_told(reads: tuple[str, ...], told: tuple[str, ...]) -> None:
    """A.150: a position follows its name."""
    found = comparison.evolve(_in_the_cut(sources=(_source("a"), _source("b", 1))), _planned(reads=reads))

    assert found.sentences == tuple(f"query 'q': {sentence}" for sentence in told)
    assert found.is_empty is (not told)


def test_a_source_that_moved_takes_its_line_and_its_log() -> None:
    found = comparison.evolve(_in_the_cut(sources=(_source("a"), _source("b", 1))), _planned(reads=("c", "b", "a")))

    assert found.rewrite == rewrite.Rewrite({}, (None, 1, 0), {0: 2, 1: 1})


def test_a_query_that_committed_nothing_fits_as_it_is() -> None:
    query, planned = _in_the_cut(an_operator("a"), batch_id=-1), _planned(a_planned_operator("b"))

    assert comparison.evolve(query, planned) == comparison.Evolution(query, planned, {}, (), (), (), (), None)


def test_what_may_be_dropped_is_dropped_by_name() -> None:
    lost = _in_the_cut(an_operator("a"), an_operator("b", 1))

    with pytest.raises(errors.SpecRejectedError) as refused:
        comparison.compare([lost], [_planned()], label="checkpoint 7")

    assert refused.value.reason == "NonRestoredState"
    assert refused.value.message.startswith(
        "checkpoint 7 holds state of operator 'a' of query 'q', operator 'b' of query 'q', which the job does not have."
    )
    assert refused.value.message.endswith(
        "Give the job back those uids and source names, or add 'a', 'b' to restore.dropState to start without that "
        "state; it stays in the snapshot."
    )


def test_only_state_of_the_named_uids_is_dropped() -> None:
    """One word for all state let a uid go that was lost by mistake."""
    lost = _in_the_cut(an_operator("a"), an_operator("b", 1))

    with pytest.raises(
        errors.SpecRejectedError, match=r"state of operator 'b' of query 'q', which.* add 'b' to restore\.dropState"
    ):
        comparison.compare([lost], [_planned()], label="checkpoint 7", drop_state=("a", "other"))
    (dropped,) = comparison.compare([lost], [_planned()], label="checkpoint 7", drop_state=("a", "b"))

    assert [part.uid for part in dropped.lost] == ["a", "b"]


def test_a_new_query_with_more_partitions_than_key_groups_is_refused_though_it_has_no_state() -> None:
    """A.66."""
    planned = _planned(a_planned_operator("a", max_parallelism=4), partitions=5)

    with pytest.raises(errors.SpecRejectedError, match=r"max_parallelism=4 and asks for .*=5") as refused:
        comparison.compare([], [planned], label="nothing")

    assert refused.value.reason == "MaxParallelismExceeded"


def test_state_with_fewer_key_groups_than_partitions_is_refused_as_state() -> None:
    """A.66: the state of its own query is looked at, so that the sentence tells a way that its state allows."""
    planned = _planned(a_planned_operator("a", max_parallelism=4), partitions=5)
    restored = _in_the_cut(an_operator("a", max_parallelism=4))

    with pytest.raises(errors.SpecRejectedError, match="The state of operator 'a' of query 'q' can not be restored"):
        comparison.compare([restored], [planned], label="checkpoint 7")


@pytest.mark.parametrize("asked", [1, 2, 200])
def test_a_whole_number_of_partitions_is_what_was_asked_for(asked: int) -> None:
    assert parallelism.requested_partitions({parallelism.SHUFFLE_PARTITIONS: str(asked)}) == asked


@pytest.mark.parametrize("asked", ["0", "-1", "many", "1.5", "", "²", "9" * 5000])
def test_any_other_number_of_partitions_is_refused_by_reason(asked: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match="must be a whole number, 1 or more") as refused:
        parallelism.requested_partitions({parallelism.SHUFFLE_PARTITIONS: asked})

    assert refused.value.reason == "PartitionsInvalid"


@pytest.mark.parametrize(
    ("batch_id", "lost"),
    [(-1, ()), (0, ("query 'q'",)), (1, ("query 'q'",))],
    ids=["nothing committed", "the first batch", "more"],
)
def test_a_query_has_state_to_lose_from_its_first_batch_on(batch_id: int, lost: tuple[str, ...]) -> None:
    """A.167."""
    found = plan.lost_queries([_in_the_cut(batch_id=batch_id)], query_uids=["other"])
    assert tuple(part.name for part in found) == lost


def test_all_queries_without_a_place_are_named() -> None:
    queries = [_in_the_cut(), _in_the_cut().model_copy(update={"uid": "r"})]

    with pytest.raises(errors.SpecRejectedError) as refused:
        plan.require_no_lost_state(queries, "savepoint 3", query_uids=[])

    assert refused.value.reason == "NonRestoredState"
    assert refused.value.message.startswith(
        "savepoint 3 holds state of query 'q', query 'r', which the job does not have."
    )


_KNOWN = {
    "max_parallelism": 128,
    "key": "string",
    "value": "bigint",
    "mode": "update",
    "definition": {"window": "5 minutes"},
    "states": (KeyedStateEntry(name="n", kind="ValueState", type="int"),),
}


def test_everything_the_plan_says_is_written_into_a_closure() -> None:
    """What is not written is not compared at the next start."""
    planned = _planned(a_planned_operator("a", **_KNOWN), reads=("clicks",))
    closed = _in_the_cut(an_operator("a"), sources=(_source("?"),)).model_copy(update={"sources": ()})

    assert plans.annotate(closed, planned) == closed.model_copy(
        update={
            "operators": (an_operator("a", **_KNOWN),),
            "sources": (_source("clicks"),),
            "time_zone": "UTC",
        }
    )


def test_sources_of_a_plan_with_another_number_of_them_are_not_written() -> None:
    assert plans.annotate(_in_the_cut(), _planned(reads=("clicks",))).sources == ()


def test_everything_an_earlier_manifest_knew_is_carried_over() -> None:
    previous = _in_the_cut(an_operator("a", **_KNOWN), sources=(_source("clicks"),)).model_copy(
        update={"time_zone": "UTC"}
    )
    closed = _in_the_cut(an_operator("a"), sources=(_source("?"),)).model_copy(update={"sources": (), "batch_id": 9})

    assert plans.inherit([closed], [previous]) == (previous.model_copy(update={"batch_id": 9}),)


@pytest.mark.parametrize(
    ("offsets", "kept"), [((), True), (("1",), True), (("1", "2"), False)], ids=["no offsets", "as many", "more"]
)
def test_sources_are_carried_over_to_a_closure_with_as_many(offsets: tuple[str, ...], *, kept: bool) -> None:
    previous = _in_the_cut(sources=(_source("clicks"),))
    closed = _in_the_cut().model_copy(update={"offsets": offsets})

    (inherited,) = plans.inherit([closed], [previous])

    assert inherited.sources == (previous.sources if kept else ())


def test_a_source_with_other_options_is_still_the_only_one_of_its_format() -> None:
    before = _in_the_cut(sources=(_source("kafka(subscribe=a)"), _source("files(/in(1))", 1)))
    after = _planned(reads=("files(/out(2))", "kafka(subscribe=b)"))

    assert sources.match(before, after) == (1, 0)


def test_a_kept_log_is_that_of_a_source_the_snapshot_names() -> None:
    nameless = _in_the_cut(sources=(_source("a"),)).model_copy(update={"sources": ()})

    assert sources.logs(nameless, _planned(reads=("a",)), (0,)) == {}
    assert sources.logs(_in_the_cut(sources=(_source("a", 3),)), _planned(reads=("b", "a")), (None, 0)) == {3: 1}


def test_one_name_twice_is_found_behind_sources_without_names() -> None:
    reads = (
        plans.PlannedSource("files(/x)"),
        plans.PlannedSource("files(/a)", "clicks", 1),
        plans.PlannedSource("files(/c)", "views", 2),
        plans.PlannedSource("files(/b)", "clicks", 3),
    )

    with pytest.raises(errors.SpecRejectedError, match=r"files\(/a\) and files\(/b\)") as refused:
        sources.require_distinct(plans.PlannedQuery("q", (), reads))

    assert refused.value.reason == "SourceNameTaken"
    sources.require_distinct(plans.PlannedQuery("q", (), reads[:3]))


def test_what_manifests_and_chunks_say_of_a_state_is_the_same() -> None:
    entry = KeyedStateEntry(name="n", kind="MapState", type="map<int,str>", has_ttl=True)

    assert keyed_states.meta_of(entry) == kinds.StateMeta("n", mapstate.MAP, "map<int,str>", has_ttl=True)
    assert keyed_states.entry_of(keyed_states.meta_of(entry)) == entry


class _Declares(functions.KeyedProcessFunction):
    """Declares one value of a type."""

    def __init__(self, type_: type) -> None:
        self._type = type_

    def open(self, ctx: functions.BatchContext) -> None:
        ctx.value_state("n", self._type)


def _keyed(*types: tuple[str, type]) -> tuple[comparison.Evolution, dict[str, object]]:
    stored = (KeyedStateEntry(name="n", kind="ValueState", type="int"),)
    names = [uid for uid, _ in types]
    query = _in_the_cut(
        an_operator("unknown", 7), an_operator("undeclared", 8, states=stored),
        *(an_operator(uid, place, states=stored) for place, uid in enumerate(names)),
    )  # fmt: skip
    planned = _planned(
        a_planned_operator("unknown", 7),
        a_planned_operator("undeclared", 8),
        *(a_planned_operator(uid, place) for place, uid in enumerate(names)),
    )
    declared = {uid: functions.declarations_of(_Declares(type_), uid).states for uid, type_ in types}
    return comparison.evolve(query, planned), {"unknown": (), **declared}


def test_every_keyed_operator_is_compared_whatever_is_known_of_the_others() -> None:
    change, declared = _keyed(("a", float), ("b", float))

    found = keyed_states.compare(change, declared)  # type: ignore[arg-type]

    assert found.state_changes == tuple(
        f"operator {uid!r} of query 'q': state 'n' is migrated from int to float, each key group when it is next used"
        for uid in ("a", "b")
    )


def test_a_state_that_does_not_fit_is_refused_behind_operators_that_do() -> None:
    change, declared = _keyed(("a", int), ("b", str))

    with pytest.raises(errors.SpecRejectedError, match="operator 'b' of query 'q'"):
        keyed_states.compare(change, declared)  # type: ignore[arg-type]


def test_warnings_of_all_operators_are_told_after_those_there_were() -> None:
    change, _ = _keyed(("a", int), ("b", int))
    opened: dict[str, object] = {"undeclared": None, "a": (), "b": ()}

    found = keyed_states.compare(replace(change, warnings=("before",)), opened)  # type: ignore[arg-type]

    unused = "state 'n' is no longer declared; what it holds is kept until it is declared again"
    assert found.warnings == (
        "before",
        "operator 'undeclared' of query 'q': it could not be opened on the driver; its types are compared when the first "
        "batch reads them",
        f"operator 'a' of query 'q': {unused}",
        f"operator 'b' of query 'q': {unused}",
    )


def _twins(*others: str) -> QueryEntry:
    """Build a snapshot with a source that is read twice, both at one position, and other sources behind it."""
    names = (_source("files(/a)"), _source("files(/a)#2", 1, "files(/a)"))
    more = tuple(_source(name, place) for place, name in enumerate(others, 2))
    return _in_the_cut(sources=(*names, *more)).model_copy(update={"offsets": ("7",) * (2 + len(others))})


def _reading(*descriptions: str) -> plans.PlannedQuery:
    reads = tuple(plans.PlannedSource(one, None, relation) for relation, one in enumerate(descriptions))
    return plans.PlannedQuery("q", (), reads)


@pytest.mark.parametrize(
    ("reads", "lines"),
    [
        pytest.param(("kafka(b)",), (2,), id="both are gone"),
        pytest.param(("files(/a)", "files(/a)", "kafka(b)", "rate()"), (0, 1, 2, None), id="as many, and another one"),
    ],
)
def test_sources_that_read_the_same_do_not_hinder_a_change_of_others(
    reads: tuple[str, ...], lines: tuple[int | None, ...]
) -> None:
    assert sources.match(_twins("kafka(b)"), _reading(*reads)) == lines


def test_one_of_two_sources_that_read_the_same_cannot_be_taken_away() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"had 2 sources files\(/a\) and has 1 now") as refused:
        sources.match(_twins("kafka(b)"), _reading("files(/a)", "kafka(b)"))

    assert refused.value.reason == "SourcesAmbiguous"


def test_sources_that_read_the_same_at_different_positions_are_refused_when_others_change() -> None:
    before = _twins("kafka(b)").model_copy(update={"offsets": ("7", "8", "9")})

    with pytest.raises(
        errors.SpecRejectedError, match=r"several sources files\(/a\) at different positions"
    ) as refused:
        sources.match(before, _reading("files(/a)", "files(/a)"))

    assert refused.value.reason == "SourcesAmbiguous"


def test_sources_of_a_snapshot_without_offsets_are_matched_by_name() -> None:
    before = _twins("kafka(b)").model_copy(update={"offsets": ()})

    assert sources.match(before, _reading("kafka(b)", "files(/a)", "files(/a)")) == (2, 0, 1)


def test_another_number_of_sources_than_a_snapshot_without_names_has_is_refused_with_all_of_them() -> None:
    nameless = _twins().model_copy(update={"sources": ()})

    with pytest.raises(errors.SpecRejectedError, match=r"had 2 sources and has 3 now \(a, b, c\)") as refused:
        sources.match(nameless, _reading("a", "b", "c"))

    assert refused.value.reason == "SourcesAmbiguous"


def test_logs_of_sources_without_names_stay_where_they_are() -> None:
    files = (FileEntry(path="sources/0/3", size_bytes=1), FileEntry(path="state/0/0/x", size_bytes=1))
    nameless = _twins().model_copy(update={"sources": (), "files": files})

    assert comparison.evolve(nameless, _reading("a", "b")).rewrite.source_logs == {0: 0}


def test_state_of_the_first_batch_is_compared() -> None:
    query = _in_the_cut(an_operator("a", key="string"), batch_id=0)

    with pytest.raises(errors.SpecRejectedError, match="operator 'a'") as refused:
        comparison.evolve(query, _planned(a_planned_operator("a", key="bigint")))

    assert refused.value.reason == "KeyChanged"


def test_partitions_are_those_of_the_operator_that_has_most() -> None:
    assert plans.partitions_of(_in_the_cut()) == 0
    assert plans.partitions_of(_in_the_cut(an_operator("a", partitions=3), an_operator("b", 1, partitions=2))) == 3


_OF_ALL_ROWS = [
    pytest.param(("stateStoreSave", ""), id="an aggregation without a key"),
    pytest.param(("globalLimit", None), id="a limit"),
]


@pytest.mark.parametrize("of_all_rows", _OF_ALL_ROWS)
def test_one_group_of_all_rows_goes_on_where_it_is_whatever_number_of_partitions_is_set(
    of_all_rows: tuple[str, str | None],
) -> None:
    """Each restart asked Spark to repartition it to the number that it had, which Spark refuses."""
    name, key = of_all_rows
    alone = _in_the_cut(an_operator(f"{name}-0", name=name, key=key, partitions=1))
    planned = _planned(a_planned_operator(None, name=name, key=key), partitions=4)

    (found,) = comparison.compare([alone], [planned], label="checkpoint 7")

    comparison.require_spreadable([found])
    assert found.is_empty


@pytest.mark.parametrize("of_all_rows", _OF_ALL_ROWS)
def test_one_group_of_all_rows_is_not_moved_with_other_state(of_all_rows: tuple[str, str | None]) -> None:
    """Spark moves it to the partition of its hash, and looks for it in the first one: it began to count at zero."""
    name, key = of_all_rows
    group = an_operator(f"{name}-1", 1, name=name, key=key, partitions=1)
    cut = _in_the_cut(an_operator("a"), group)
    keyed, nameless = a_planned_operator("a"), a_planned_operator(None, 1, name=name, key=key)

    kept = comparison.evolve(cut, _planned(keyed, nameless, partitions=4))
    dropped = comparison.evolve(cut, _planned(keyed, partitions=4))
    as_it_was = comparison.evolve(cut, _planned(keyed, nameless, partitions=2))

    comparison.require_spreadable([dropped, as_it_was])
    with pytest.raises(
        errors.SpecRejectedError, match=rf"'{name}-1' of query 'q' .*partitions=4\. .* set it to 2\."
    ) as refused:
        comparison.require_spreadable([kept])
    assert refused.value.reason == "PartitionsChanged"


def _engines(*keys: str | None) -> tuple[OperatorEntry, ...]:
    return tuple(
        OperatorEntry(uid=f"dedupe-{place}", operator_id=place, name="dedupe", partitions=2, key=key)
        for place, key in enumerate(keys)
    )


def _dedupes(*keys: str | None) -> plans.PlannedQuery:
    return _planned(*(plans.PlannedOperator(place, "dedupe", key=key) for place, key in enumerate(keys)))


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        pytest.param(("a", "b"), ("b", "a"), {0: 1, 1: 0}, id="by keys that tell them apart"),
        pytest.param(("a", None), (None, "a"), {0: 0, 1: 1}, id="by order if a key is unknown"),
        pytest.param(("a", "a"), ("a", "a"), {0: 0, 1: 1}, id="by order if keys are equal"),
        pytest.param(("a", "b"), ("b",), {1: 0}, id="by keys although one is gone"),
        pytest.param(("b",), ("a", "b"), {0: 1}, id="by keys although one is new"),
        pytest.param(("a",), (), {}, id="all gone"),
    ],
)
def test_operators_of_the_engine_are_matched(
    before: tuple[str | None, ...], after: tuple[str | None, ...], places: dict[int, int]
) -> None:
    assert comparison.evolve(_in_the_cut(*_engines(*before)), _dedupes(*after)).operators == places


def test_operators_of_the_engine_that_nothing_tells_apart_are_refused_with_their_keys() -> None:
    with pytest.raises(errors.SpecRejectedError, match="had 1 operators 'dedupe' and has 2 now") as refused:
        comparison.evolve(_in_the_cut(*_engines(None)), _dedupes("a", "b"))

    assert refused.value.reason == "OperatorsAmbiguous"
    assert "their keys are (unknown) and (a) / (b)." in refused.value.message


def test_a_query_that_committed_nothing_tells_everything_that_was_declared() -> None:
    assert plans.declared(_planned(a_planned_operator("a", **_KNOWN), reads=("clicks",)), "p") == QueryEntry(
        uid="q",
        batch_id=-1,
        path="p",
        operators=(an_operator("a", partitions=0, **_KNOWN),),
        sources=(_source("clicks"),),
        time_zone="UTC",
    )
