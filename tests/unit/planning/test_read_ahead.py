"""Which files a standby reads ahead, and how many."""

from __future__ import annotations

import pytest
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.planning import read_ahead

ROOT = "s3a://bucket/state/ns/job"
UNIQUE = "0f3a3e0e-0d5a-4b8e-9d3f-5a9d4b1c2d3e"
FOLDER = "generations/00000001/q"


def _query(*paths: str) -> QueryEntry:
    files = tuple(FileEntry(path=path, size_bytes=10 * number) for number, path in enumerate(paths, 1))
    return QueryEntry(uid="q", batch_id=3, path=FOLDER, files=files, operators=(), offsets=())


def test_files_of_state_stores_are_read_ahead() -> None:
    paths = (
        f"state/0/1/5_{UNIQUE}.zip",
        f"state/0/1/5_{UNIQUE}.zip.crc",
        f"state/0/1/left-keyToNumValues/6_{UNIQUE}.changelog",
        f"state/0/1/SSTs/000008-{UNIQUE}.sst",
    )

    listed = read_ahead.state_files(ROOT, [_query(*paths)])

    assert listed == {f"{ROOT}/{FOLDER}/{path}": 10 * number for number, path in enumerate(paths, 1)}


@pytest.mark.parametrize(
    "path",
    ["metadata", "offsets/3", "commits/3", "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_schema",
     "state/0/1/5.zip", f"sources/0/5_{UNIQUE}.zip"],
)  # fmt: skip
def test_files_whose_names_may_be_used_again_are_not(path: str) -> None:
    assert read_ahead.state_files(ROOT, [_query(path)]) == {}


@pytest.mark.parametrize(
    ("most_bytes", "chosen"),
    [(100, ["a", "b", "c"]), (60, ["a", "b", "c"]), (59, ["a", "b"]), (49, ["a", "c"]), (10, ["c"]), (9, []), (0, [])],
)
def test_what_does_not_fit_on_the_disk_is_left_on_storage(most_bytes: int, chosen: list[str]) -> None:
    assert list(read_ahead.fitting({"a": 20, "b": 30, "c": 10}, most_bytes)) == chosen
