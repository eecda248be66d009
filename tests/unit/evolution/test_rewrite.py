"""A cut rewritten for another plan: state follows uids, offsets follow names, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import a_query, an_operator
from statefulspark import errors
from statefulspark.checkpoint import sparklog
from statefulspark.contract.manifest import OperatorEntry, QueryEntry, SourceEntry
from statefulspark.evolution import rewrite

A, B, C = (
    "5c2b2e97-aa09-4dc5-b1bc-44286ac849a9",
    "911fc677-491e-4594-a198-e104704f8a4f",
    "d" * 8 + "-1982-4b65-99d1-c808b7357fcf",
)
OFFSETS = b'v1\n{"batchWatermarkMs":7,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"logOffset":4}\n-\n{"t":{"0":9}}'


def a_commit(ids: dict[str, list[list[str]]]) -> bytes:
    return f"v2\n{json.dumps({'nextBatchWatermarkMs': 5, 'stateUniqueIds': ids})}".encode()


def metadata(operator: int, *, version: int = 2, root: str = "s3a://b/old") -> bytes:
    store: dict[str, object] = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}
    if version == 2:
        store["stateSchemaFilePaths"] = [f"{root}/state/{operator}/_stateSchema/default/0_{A}"]
    body = {
        "operatorInfo": {"operatorId": operator, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": '{"timeMode":"NoTime"}',
    }
    return f"v{version}\n{json.dumps(body)}".encode()


def an_entry(*paths: str, operators: int = 2, offsets: tuple[str, ...] = ('{"a":1}', '{"b":2}')) -> QueryEntry:
    return a_query(
        "q",
        *(an_operator(name, number) for number, name in enumerate("ab"[:operators])),
        batch_id=6,
        files=dict.fromkeys(paths, 1),
        offsets=offsets,
        sources=tuple(SourceEntry(name=f"s{index}", description="d", log=index) for index in range(len(offsets))),
    )


SWAPPED = rewrite.Rewrite({0: 1, 1: 0}, (1, 0), {0: 1, 1: 0})
DROPPED = rewrite.Rewrite({1: 0}, (1,), {1: 0})


@pytest.mark.parametrize(
    ("path", "swapped", "dropped"),
    [
        pytest.param("metadata", "metadata", "metadata", id="the query's own metadata stays"),
        pytest.param(f"state/0/1/7_{A}.zip", f"state/1/1/7_{A}.zip", None, id="a state file follows its operator"),
        pytest.param(f"state/1/0/left/7_{A}.zip.crc", f"state/0/0/left/7_{A}.zip.crc", f"state/0/0/left/7_{A}.zip.crc",
                     id="a checksum follows its file"),
        pytest.param("state/1/_metadata/v2/0", "state/0/_metadata/v2/0", "state/0/_metadata/v2/0", id="metadata, too"),
        pytest.param("sources/0/3.compact", "sources/1/3.compact", None, id="a source's log follows the source"),
        pytest.param("offsets/6", "offsets/6", "offsets/6", id="logs stay where they are"),
        pytest.param("prepared/out/00000006-00000001.json", "prepared/out/00000006-00000001.json",
                     "prepared/out/00000006-00000001.json", id="records of ours have no position"),
    ],
)  # fmt: skip
def test_a_file_goes(path: str, swapped: str, dropped: str | None) -> None:
    assert (SWAPPED.new_path(path), DROPPED.new_path(path)) == (swapped, dropped)


def test_an_unchanged_plan_rewrites_nothing_but_absolute_paths_and_the_id() -> None:
    entry = an_entry(
        "metadata",
        "offsets/6",
        "commits/6",
        "state/0/_metadata/v2/0",
        "state/1/_metadata/metadata",
        f"state/0/0/1_{A}.zip",
    )
    identity = rewrite.Rewrite.identity(entry)

    assert rewrite.files_to_rewrite(entry, identity) == (
        ("metadata", "metadata"),
        ("state/0/_metadata/v2/0", "state/0/_metadata/v2/0"),
    )
    assert [place for _, place in rewrite.files_to_copy(entry, identity)] == [
        "offsets/6", "commits/6", "state/1/_metadata/metadata", f"state/0/0/1_{A}.zip",
    ]  # fmt: skip
    assert rewrite.entry_after(entry, identity) == entry


def test_checksums_of_rewritten_files_are_left_behind_and_those_of_copies_are_not() -> None:
    entry = an_entry("commits/6", "commits/.6.crc", "metadata", ".metadata.crc", "sources/0/3", "sources/0/.3.crc")

    assert [file.path for file, _ in rewrite.files_to_copy(entry, SWAPPED)] == ["sources/0/3", "sources/0/.3.crc"]


def test_only_the_operators_moved_so_the_offsets_stay() -> None:
    entry = an_entry("commits/6", "offsets/6")
    moved = rewrite.Rewrite({0: 1, 1: 0}, (0, 1), {})

    assert [old for old, _ in rewrite.files_to_rewrite(entry, moved)] == ["commits/6"]


def test_only_the_sources_moved_so_the_commits_stay() -> None:
    entry = an_entry("commits/6", "offsets/6")

    assert [old for old, _ in rewrite.files_to_rewrite(entry, rewrite.Rewrite({0: 0, 1: 1}, (1, 0), {}))] == [
        "offsets/6"
    ]


def test_an_operator_is_left_behind_so_commits_forget_it() -> None:
    entry = an_entry("commits/6", operators=2)

    assert [old for old, _ in rewrite.files_to_rewrite(entry, rewrite.Rewrite({0: 0}, (0, 1), {}))] == ["commits/6"]


def test_metadata_gets_the_new_operator_id_and_root() -> None:
    moved = sparklog.parse_operator(rewrite.relocate_operator(metadata(0), "x", {0: 3}, "s3a://b/new"), "x")

    assert moved.operator_id == 3
    assert moved.schema_paths == (f"s3a://b/new/state/3/_stateSchema/default/0_{A}",)


def test_metadata_of_version_one_gets_the_new_operator_id() -> None:
    body = rewrite.relocate_operator(metadata(0, version=1), "x", {0: 3}, "s3a://b/new")

    assert body.startswith(b"v1\n")
    assert sparklog.parse_operator(body, "x").operator_id == 3


def test_metadata_tells_another_number_of_partitions_in_every_store() -> None:
    body = rewrite.set_partitions(metadata(0, version=1), "x", 5)

    assert sparklog.parse_operator(body, "x").partitions == 5


def test_a_commit_names_each_operators_state_under_its_new_id() -> None:
    commit = a_commit({"0": [[A], [A]], "1": [[B], [B]], "2": [[C], [C]]})

    body = rewrite.renumber_commit(commit, "x", {0: 1, 1: 0})

    assert sparklog.parse_commit(6, body, "x").state_ids == {0: ((B,), (B,)), 1: ((A,), (A,))}
    assert json.loads(body.split(b"\n", 1)[1])["nextBatchWatermarkMs"] == 5


def test_a_commit_without_ids_stays_without() -> None:
    assert rewrite.renumber_commit(b"v1\n{}", "x", {}) == b"v1\n{}"


def test_empty_state_is_named_beside_what_the_commit_has() -> None:
    body = rewrite.add_to_commit(a_commit({"1": [[A], [A]]}), "x", {0: [[B], [C]]})

    assert sparklog.parse_commit(6, body, "x").state_ids == {0: ((B,), (C,)), 1: ((A,), (A,))}


def test_offsets_have_a_line_per_source_of_the_new_plan() -> None:
    body = rewrite.reorder_offsets(OFFSETS, "x", (2, None, 0, 2))

    assert sparklog.parse_offsets(body, "x") == ('{"t":{"0":9}}', "-", '{"logOffset":4}', '{"t":{"0":9}}')
    assert body.split(b"\n")[:2] == OFFSETS.split(b"\n")[:2]


@pytest.mark.parametrize("body", [b"", b"v1", b"v1\n{}", OFFSETS[:70], OFFSETS.replace(b"v1", b"x")])
def test_damaged_offsets_are_refused(body: bytes) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="offsets/6"):
        rewrite.reorder_offsets(body, "offsets/6", (0,))


def test_lines_that_the_log_does_not_have_are_refused() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="lines for 3 sources"):
        rewrite.reorder_offsets(OFFSETS, "offsets/6", (3,))


@given(st.permutations(range(5)))
def test_a_rewrite_and_its_reverse_give_the_same_bytes(order: list[int]) -> None:
    ids = {str(number): [[f"{number:08d}-1982-4b65-99d1-c808b7357fcf"]] for number in range(5)}
    lines = [f'{{"offset":{number}}}' for number in range(5)]
    commit, offsets = a_commit(ids), "\n".join(["v1", "{}", *lines]).encode()
    there = dict(enumerate(order))
    back = {new: old for old, new in there.items()}

    moved = rewrite.renumber_commit(commit, "x", there)
    assert sparklog.parse_commit(0, moved, "x").state_ids == {there[int(old)]: (tuple(p[0]),) for old, p in ids.items()}
    assert json.loads(rewrite.renumber_commit(moved, "x", back)[3:]) == json.loads(commit[3:])
    shuffled = rewrite.reorder_offsets(offsets, "x", order)
    assert rewrite.reorder_offsets(shuffled, "x", [order.index(number) for number in range(5)]) == offsets


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param(
            f"state/2/0/1_{A}.zip", f"state/2/0/7_{A}.zip", id="an empty store gets the version of the others"
        ),
        pytest.param(f"state/2/0/left/1_{A}.zip.crc", f"state/2/0/left/7_{A}.zip.crc", id="with its checksum"),
        pytest.param("state/2/_metadata/v2/0", "state/2/_metadata/v2/0", id="metadata of batch 0 holds for later ones"),
        pytest.param("state/2/0/_metadata/schema", "state/2/0/_metadata/schema", id="schemas, too"),
        pytest.param(f"state/1/0/1_{A}.zip", None, id="an operator that has state keeps it"),
        pytest.param(f"state/2/0/.1_{A}.zip.crc", None, id="checksums of a local disk name the old file"),
        pytest.param("offsets/0", None, id="logs are not wanted"),
    ],
)
def test_of_an_empty_run(path: str, place: str | None) -> None:
    assert rewrite.path_of_empty_state(path, {2}, version=7) == place


def test_operators_and_sources_of_the_query_follow() -> None:
    after = rewrite.entry_after(an_entry(), rewrite.Rewrite({0: 2, 1: 0}, (1, None, 0), {}))

    assert [(operator.uid, operator.operator_id) for operator in after.operators] == [("b", 0), ("a", 2)]
    assert after.offsets == ('{"b":2}', "-", '{"a":1}')


def test_an_engines_own_operator_is_named_by_its_new_place() -> None:
    entry = an_entry().model_copy(
        update={"operators": (OperatorEntry(uid="dedupe-0", operator_id=0, name="dedupe", partitions=2),)}
    )

    (operator,) = rewrite.entry_after(entry, rewrite.Rewrite({0: 4}, (0, 1), {})).operators

    assert (operator.uid, operator.operator_id) == ("dedupe-4", 4)


def test_a_plan_that_is_unchanged_keeps_every_place() -> None:
    entry = an_entry(f"state/3/0/1_{A}.zip", "sources/4/0", "offsets/6", "metadata")

    assert rewrite.Rewrite.identity(entry) == rewrite.Rewrite({3: 3}, (0, 1), {4: 4})


def test_the_log_of_a_source_goes_with_the_source_and_not_with_the_operator_of_that_number() -> None:
    moved = rewrite.Rewrite({0: 5}, (0,), {0: 7})

    assert (moved.new_path("sources/0/3.compact"), moved.new_path(f"state/0/0/1_{A}.zip")) == (
        "sources/7/3.compact",
        f"state/5/0/1_{A}.zip",
    )


def test_each_file_that_is_rewritten_says_what_its_kind_says() -> None:
    moved, commit = rewrite.Rewrite({0: 1, 1: 0}, (2, 0), {}), a_commit({"0": [[A]], "1": [[B]]})

    assert [
        moved.body(path, body, "x", "s3a://b/new", query_id=B)
        for path, body in (
            ("metadata", b'{"id":"a"}'),
            ("state/0/_metadata/v2/0", metadata(0)),
            ("commits/6", commit),
            ("offsets/6", OFFSETS),
        )
    ] == [
        json.dumps({"id": B}).encode(),
        rewrite.relocate_operator(metadata(0), "x", {0: 1}, "s3a://b/new"),
        rewrite.renumber_commit(commit, "x", {0: 1, 1: 0}),
        rewrite.reorder_offsets(OFFSETS, "x", (2, 0)),
    ]


@pytest.mark.parametrize("path", ["state/0/_metadata/v2/0", "commits/6", "offsets/6"])
def test_a_damaged_file_is_refused_by_where_it_came_from(path: str) -> None:
    with pytest.raises(errors.SnapshotCorruptError) as refused:
        rewrite.Rewrite({}, (0,), {}).body(path, b"", f"s3://b/old/{path}", "s3a://b/new", query_id=A)

    assert refused.value.reason == "SparkLogUnreadable"
    assert refused.value.message.startswith(f"s3://b/old/{path} cannot be read: ")


def _with_a_line_too_many(body: bytes) -> bytes:
    return body + b"\n{}"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body, source: rewrite.relocate_operator(body, source, {}, "s3a://b"), id="metadata"),
        pytest.param(lambda body, source: rewrite.set_partitions(body, source, 3), id="first metadata"),
    ],
)
@pytest.mark.parametrize("body", [b"", _with_a_line_too_many(metadata(0))], ids=["empty", "a line too many"])
def test_damaged_metadata_is_refused_by_where_it_came_from(change: Callable[[bytes, str], bytes], body: bytes) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"s3://b/old cannot be read: \w+"):
        change(body, "s3://b/old")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body, source: rewrite.renumber_commit(body, source, {}), id="renumbered"),
        pytest.param(lambda body, source: rewrite.add_to_commit(body, source, {}), id="added to"),
    ],
)
@pytest.mark.parametrize("body", [b"", _with_a_line_too_many(a_commit({}))], ids=["empty", "a line too many"])
def test_a_damaged_commit_is_refused_by_where_it_came_from(change: Callable[[bytes, str], bytes], body: bytes) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"s3://b/old cannot be read: \w+"):
        change(body, "s3://b/old")


def test_a_reason_of_damage_is_what_the_parser_says() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="Invalid JSON: trailing characters"):
        rewrite.renumber_commit(_with_a_line_too_many(a_commit({})), "x", {})


def test_an_end_of_line_at_the_end_does_no_harm() -> None:
    assert rewrite.renumber_commit(b'v1\n{"nextBatchWatermarkMs":5}\n', "x", {}) == b'v1\n{"nextBatchWatermarkMs":5}'


def test_metadata_with_a_schema_elsewhere_is_refused_by_where_it_came_from() -> None:
    strange = metadata(0).replace(b"/_stateSchema/", b"/elsewhere/")

    with pytest.raises(
        errors.SnapshotCorruptError, match=r"s3://b/old cannot be read: the schema path 's3a://b/old/state/0"
    ):
        rewrite.relocate_operator(strange, "s3://b/old", {}, "s3a://b/new")


def test_metadata_of_an_operator_that_stays_keeps_its_id() -> None:
    body = rewrite.relocate_operator(metadata(2), "x", {}, "s3a://b/new")

    assert sparklog.parse_operator(body, "x").operator_id == 2


def test_lines_that_are_missing_are_refused_by_where_the_log_came_from() -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="s3://b/old/offsets/6 cannot be read: it has lines for 3"):
        rewrite.reorder_offsets(OFFSETS, "s3://b/old/offsets/6", (0, 3))


def test_settings_in_the_offset_log_may_hold_spaces() -> None:
    body = OFFSETS.replace(b'"2"', b'"a b"')

    assert rewrite.reorder_offsets(body, "x", (0, 1, 2)) == body


@pytest.mark.parametrize(
    ("entry", "lines", "offsets", "names"),
    [
        pytest.param(an_entry(), (1, 0), ('{"b":2}', '{"a":1}'), ["s1", "s0"], id="another order"),
        pytest.param(an_entry(), (0, None), ('{"a":1}', "-"), [], id="the name of a new source is told by its plan"),
        pytest.param(
            an_entry().model_copy(update={"sources": ()}), (1,), ('{"b":2}',), [], id="names were never known"
        ),
        pytest.param(an_entry(offsets=()), (None,), (), [], id="no offsets are no lines"),
    ],
)
def test_offsets_and_names_follow_the_sources(
    entry: QueryEntry, lines: tuple[int | None, ...], offsets: tuple[str, ...], names: list[str]
) -> None:
    after = rewrite.entry_after(entry, rewrite.Rewrite({}, lines, {}))

    assert (after.offsets, [source.name for source in after.sources]) == (offsets, names)


@pytest.mark.parametrize(
    ("path", "holds_paths", "is_first", "is_spark_file"),
    [
        ("state/0/_metadata/v2/7", True, False, True),
        ("state/0/_metadata/metadata", False, True, True),
        ("state/0/0/_metadata/schema", False, False, True),
        ("./commits/6", False, False, True),
        ("offsets/6", False, False, True),
        ("sources/0/3.compact", False, False, True),
        ("metadata", False, False, True),
        ("prepared/out/00000006-00000001.json", False, False, False),
        ("statements/6", False, False, False),
    ],
)
def test_what_a_file_is_follows_from_its_path(
    path: str, holds_paths: bool, is_first: bool, is_spark_file: bool
) -> None:
    assert (rewrite.holds_paths(path), rewrite.is_first_metadata(path), rewrite.is_spark_file(path)) == (
        holds_paths,
        is_first,
        is_spark_file,
    )
