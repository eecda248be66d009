"""Spark's own files, as Spark 4.2.0 writes them (samples taken from real checkpoint roots)."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from statefulspark import errors
from statefulspark.checkpoint import checksums, sparklog
from statefulspark.contract import layout
from statefulspark.evolution import rewrite

COMMIT = (
    b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["5c2b2e97-aa09-4dc5-b1bc-44286ac849a9",'
    b'"911fc677-491e-4594-a198-e104704f8a4f"],["d4804044-1982-4b65-99d1-c808b7357fcf",'
    b'"979d04f5-1233-45e6-8276-70b02ff58623"]]}}'
)
OFFSETS = (
    b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795225973606,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
    b'{"offset":800,"timestamp":8000}\n-'
)
AGGREGATION = (
    b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
)
KEYED = (
    b'v2\n{"operatorInfo":{"operatorId":3,"operatorName":"transformWithStateInPandasExec"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2,"stateSchemaFilePaths":'
    b'["file:/tmp/r/tws/state/3/_stateSchema/default/0_14fba0fe"]}],"operatorPropertiesJson":'
    b'"{\\"timeMode\\":\\"NoTime\\",\\"outputMode\\":\\"Update\\",\\"stateVariables\\":[{\\"stateName\\":\\"log_A\\",'
    b'\\"stateVariableType\\":\\"ListState\\",\\"ttlEnabled\\":false},{\\"stateName\\":\\"head_A\\",'
    b'\\"stateVariableType\\":\\"ValueState\\",\\"ttlEnabled\\":false}]}"}'
)
CHECKSUM = (
    b'{"algorithm":"CRC32C","value":3808858755,"mainFileSize":9,"timestampMs":1795225931808,'
    b'"creator":{"executorId":"driver","taskInfo":"Task= 0.0, Stage= 13.0"}}'
)


def test_a_commit_names_the_state_by_operator_partition_and_store() -> None:
    commit = sparklog.parse_commit(7, COMMIT, "commits/7")

    assert commit.state_ids == {
        0: (
            ("5c2b2e97-aa09-4dc5-b1bc-44286ac849a9", "911fc677-491e-4594-a198-e104704f8a4f"),
            ("d4804044-1982-4b65-99d1-c808b7357fcf", "979d04f5-1233-45e6-8276-70b02ff58623"),
        )
    }


def test_a_stateless_commit_names_none() -> None:
    assert sparklog.parse_commit(0, b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}', "x").state_ids == {}


def test_offsets_are_one_line_per_source() -> None:
    assert sparklog.parse_offsets(OFFSETS, "offsets/7") == ('{"offset":800,"timestamp":8000}', "-")


@pytest.mark.parametrize(
    ("offsets", "partitions"),
    [
        pytest.param(OFFSETS, 2, id="as Spark pins it at the first batch"),
        pytest.param(b'v1\n{"batchWatermarkMs":0}\n-', None, id="without settings"),
        pytest.param(b'v1\n{"conf":{"spark.x":"1"}}\n-', None, id="without this setting"),
    ],
)
def test_partitions_are_pinned_in_the_offset_log(offsets: bytes, partitions: int | None) -> None:
    assert sparklog.pinned_partitions(offsets, "offsets/7") == partitions


def test_a_spark_operator_is_named_after_its_name_and_id() -> None:
    assert sparklog.parse_operator(AGGREGATION, "x").uid == "stateStoreSave-0"


def test_an_operator_of_ours_is_named_by_its_uid() -> None:
    operator = sparklog.parse_operator(KEYED, "x")

    assert (operator.uid, operator.operator_id, operator.partitions) == ("A", 3, 2)
    assert operator.variables == ("log_A", "head_A")


@pytest.mark.parametrize("uid", ["a", "head_a", "log_a", "x-y_z"])
def test_a_variable_of_heads_names_its_operator(uid: str) -> None:
    assert layout.operator_of_variable(layout.head_variable(uid)) == uid
    assert layout.operator_of_variable(layout.log_variable(uid)) is None


def test_schema_paths_move_to_another_root_and_nothing_else_changes() -> None:
    moved = rewrite.relocate_operator(KEYED, "x", {3: 3}, "s3a://bucket/job/generations/00000002/q")

    new = "s3a://bucket/job/generations/00000002/q/state/3/_stateSchema/default/0_14fba0fe"
    assert sparklog.parse_operator(moved, "x").schema_paths == (new,)
    back = rewrite.relocate_operator(moved, "x", {3: 3}, "file:/tmp/r/tws")
    assert json.loads(back.split(b"\n", 1)[1]) == json.loads(KEYED.split(b"\n", 1)[1])


@pytest.mark.parametrize("length", range(0, len(COMMIT), 7))
def test_a_commit_cut_anywhere_is_said_to_be_damaged(length: int) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="commits/7"):
        sparklog.parse_commit(7, COMMIT[:length], "commits/7")


@pytest.mark.parametrize("length", [0, 1, 2, 3, 50, len(OFFSETS) - 10])
def test_offsets_cut_short_are_said_to_be_damaged(length: int) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match="offsets/7"):
        sparklog.parse_offsets(OFFSETS[:length], "offsets/7")


def test_a_state_snapshot_names_its_sst_files() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            "metadata",
            'v1\n{"sstFiles":[{"localFileName":"000008.sst","dfsSstFileName":"000008-e7e6.sst","sizeBytes":1240}],'
            '"numKeys":3,"numInternalKeys":0,"columnFamilyMapping":{},"columnFamilyTypeMap":{},"maxColumnFamilyId":0}',
        )

    assert sparklog.parse_snapshot_archive(buffer.getvalue(), "x") == (sparklog.SstFile("000008-e7e6.sst", 1240),)


@pytest.mark.parametrize(
    "name", ["../x.sst", "/tmp/x.sst", "a/x.sst", "x.py", "x.sst.py", "x.pth", "..", "", "x.sst\n", "\u00e4.sst"]
)
@pytest.mark.parametrize(
    ("files", "of_the_store", "field"),
    [
        ("sstFiles", "dfsSstFileName", "localFileName"),
        ("sstFiles", "dfsSstFileName", "dfsSstFileName"),
        ("logFiles", "dfsLogFileName", "localFileName"),
        ("logFiles", "dfsLogFileName", "dfsLogFileName"),
    ],
)
def test_a_state_snapshot_that_names_a_file_elsewhere_is_refused(
    files: str, of_the_store: str, field: str, name: str
) -> None:
    file = {"localFileName": "8.sst", of_the_store: "8-e7.sst", "sizeBytes": 1, field: name}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [], "logFiles": [], files: [file], "numKeys": 3}))

    with pytest.raises(errors.SnapshotCorruptError, match=r"7_x\.zip.*names the file"):
        sparklog.parse_snapshot_archive(buffer.getvalue(), "7_x.zip")


@pytest.mark.parametrize("body", [b"", b"PK", b"no zip"])
def test_a_damaged_state_snapshot_is_said_to_be_damaged(body: bytes) -> None:
    with pytest.raises(errors.SnapshotCorruptError, match=r"7_x\.zip"):
        sparklog.parse_snapshot_archive(body, "7_x.zip")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("7_968ebe39-6788-44cb-a917-1dbf0b04f85b.zip", (7, True)),
        ("8_8248cc08-8211-4823-9e08-4a03fe9369f0.changelog", (8, False)),
        ("8_8248cc08-8211-4823-9e08-4a03fe9369f0.changelog.crc", None),
        ("8.zip", None),
        ("_metadata", None),
    ],
)
def test_names_of_state_files(name: str, expected: tuple[int, bool] | None) -> None:
    file = sparklog.parse_state_file(name)

    assert (file and (file.version, file.is_snapshot)) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("12", (12, False)), ("9.compact", (9, True)), (".12.crc", None), ("tmp", None)]
)
def test_names_of_log_entries(name: str, expected: tuple[int, bool] | None) -> None:
    file = sparklog.parse_log_file(name)

    assert (file and (file.number, file.is_compact)) == expected


@pytest.mark.parametrize(
    ("line", "expected"), [('{"logOffset":7}', 7), ('{"offset":800}', None), ("-", None), ('{"t":{"0":3}}', None)]
)
def test_the_position_of_a_file_source(line: str, expected: int | None) -> None:
    assert sparklog.file_source_position(line) == expected


@pytest.mark.parametrize(
    ("body", "sidecar", "expected"),
    [
        (b"123456789", CHECKSUM, True),
        (b"123456780", CHECKSUM, False),
        (b"12345678", CHECKSUM, False),
        (b"123456789", b"", False),
    ],
)
def test_sparks_checksum_of_a_file(body: bytes, sidecar: bytes, expected: bool) -> None:
    assert checksums.matches_spark(body, sidecar) is expected
