"""Which state files make up a version: the chain of the ids that won, and what is said when it has a gap."""

from __future__ import annotations

import pytest
from statefulspark.checkpoint import listing, state_files
from statefulspark.checkpoint.sparklog import Commit
from statefulspark.checkpoint.state_files import Chain, PartitionFolder, StateFiles

_A, _B, _C, _LOST = (letter * 8 + "-0000-0000-0000-000000000000" for letter in "abcd")


def _commits(*ids: str, operator: int = 0) -> dict[int, Commit]:
    """One partition with one store; batch N wrote version N + 1 under the N-th id."""
    return {batch: Commit(batch, {operator: ((unique_id,),)}) for batch, unique_id in enumerate(ids)}


def _file(version: int, unique_id: str, kind: str = "changelog", folder: str = "state/0/0") -> str:
    return f"{folder}/{version}_{unique_id}.{kind}"


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("state/3/12/1_x.zip", PartitionFolder(3, 12)),
        ("state/3/12/left-keyToNumValues/1_x.zip", PartitionFolder(3, 12)),
        ("state/3/1_x.zip", None),
        ("state/3/12/a/b/1_x.zip", None),
        ("sources/3/12/1_x.zip", None),
        ("state/x/12/1_x.zip", None),
        ("state/3/_metadata/schema", None),
    ],
)
def test_a_state_file_is_known_by_its_folder(key: str, place: PartitionFolder | None) -> None:
    assert state_files.parse_partition_folder(key) == place


def test_files_are_told_apart_by_operator_partition_version_id_and_kind() -> None:
    keys = (
        _file(1, _A),
        _file(1, _A, "zip"),
        _file(2, _B, folder="state/1/7/left"),
        "state/0/0/notes.txt",
        "offsets/0",
        f"elsewhere/0/0/1_{_A}.zip",
    )

    assert StateFiles.index(keys) == StateFiles(
        {(0, 0, 1, _A): _file(1, _A, "zip")},
        {(0, 0, 1, _A): _file(1, _A), (1, 7, 2, _B): _file(2, _B, folder="state/1/7/left")},
    )


def test_a_chain_goes_back_along_the_ids_that_won_to_the_newest_snapshot() -> None:
    files = StateFiles.index([
        _file(1, _A, "zip"), _file(2, _B), _file(3, _C), _file(3, _LOST), _file(2, _LOST, "zip"),
    ])  # fmt: skip

    assert state_files.chains(files, _commits(_A, _B, _C), 2, "root") == (
        (0, Chain(_file(1, _A, "zip"), (_file(3, _C), _file(2, _B)), 1)),
    )


def test_a_chain_without_a_snapshot_begins_empty() -> None:
    files = StateFiles.index([_file(1, _A), _file(2, _B)])

    assert state_files.chains(files, _commits(_A, _B), 1, "root") == (
        (0, Chain(None, (_file(2, _B), _file(1, _A)), 0)),
    )


def test_every_store_of_every_partition_of_every_operator_has_its_chain() -> None:
    commits = {0: Commit(0, {0: ((_A, _B), (_C,)), 4: ((_LOST,),)})}
    keys = (
        _file(1, _A, folder="state/0/0/left"),
        _file(1, _B, folder="state/0/0/right"),
        _file(1, _C, folder="state/0/1"),
        _file(1, _LOST, "zip", folder="state/4/0"),
    )

    assert state_files.chains(StateFiles.index(keys), commits, 0, "root") == (
        (0, Chain(None, (keys[0],), 0)),
        (0, Chain(None, (keys[1],), 0)),
        (0, Chain(None, (keys[2],), 0)),
        (4, Chain(keys[3], (), 1)),
    )


def test_a_batch_without_state_has_no_chain() -> None:
    commits = {0: Commit(0, None)}

    assert state_files.chains(StateFiles({}, {}), commits, 0, "root") == ()
    assert state_files.missing_commits(StateFiles({}, {}), commits, 0) is None


def test_a_gap_in_a_chain_names_the_file_and_every_key_it_may_have() -> None:
    files = StateFiles.index([_file(1, _A), _file(9, _LOST, folder="state/0/0/left")])

    with pytest.raises(listing.FilesAbsentError) as refused:
        state_files.chains(files, _commits(_A, _B), 1, "s3://b/root")

    assert refused.value.reason == "ClosureIncomplete"
    assert refused.value.message == (
        f"Batch 1 cannot be closed over: in s3://b/root/state/0/0 neither 2_{_B}.zip nor .changelog exists. "
        "Start from an older snapshot."
    )
    assert refused.value.alternatives == (
        _file(2, _B, "zip"),
        _file(2, _B),
        _file(2, _B, "zip", "state/0/0/left"),
        _file(2, _B, folder="state/0/0/left"),
    )


def test_a_commit_that_does_not_name_a_store_is_a_gap() -> None:
    commits = _commits(_A, _B) | {0: Commit(0, {5: ((_A,),)})}

    with pytest.raises(listing.FilesAbsentError) as refused:
        state_files.chains(StateFiles.index([_file(2, _B)]), commits, 1, "root")

    assert refused.value.message == (
        "Batch 1 cannot be closed over: in root/state/0/0 commit 0 names no state of operator 0, partition 0. "
        "Start from an older snapshot."
    )
    assert refused.value.alternatives == ()


@pytest.mark.parametrize(
    ("known", "keys", "missing"),
    [
        pytest.param({}, (), 2, id="the batch itself first"),
        pytest.param({2: _C}, (), 1, id="the batch before, as nothing is known to end the chain"),
        pytest.param({2: _C}, (_file(3, _C, "zip"),), None, id="none behind a snapshot of the batch"),
        pytest.param({2: _C, 1: _B}, (_file(2, _B, "zip"),), None, id="none behind an older snapshot"),
        pytest.param(
            {2: _C, 1: _B}, (_file(2, _LOST, "zip"),), 0, id="a snapshot of an attempt that lost ends nothing"
        ),
        pytest.param({2: _C, 1: _B, 0: _A}, (), None, id="none before the first"),
    ],
)
def test_commits_are_asked_for_until_every_chain_ends(
    known: dict[int, str], keys: tuple[str, ...], missing: int | None
) -> None:
    commits = {batch: Commit(batch, {0: ((unique_id,),)}) for batch, unique_id in known.items()}

    assert state_files.missing_commits(StateFiles.index(keys), commits, 2) == missing


def test_the_newest_commit_that_any_store_needs_is_asked_for() -> None:
    """Reading it may end the others, too."""
    commits = {3: Commit(3, {0: ((_A,), (_B,)), 1: ((_C,),)}), 2: Commit(2, {0: ((_A,), (_B,))})}

    assert state_files.missing_commits(StateFiles.index([_file(4, _A, "zip")]), commits, 3) == 1


@pytest.mark.parametrize(
    ("keys", "version", "oldest"),
    [
        pytest.param((), 9, 1, id="nothing is known"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B, "zip")), 9, 7, id="the newest snapshot of a partition"),
        pytest.param((_file(7, _B, "zip"), _file(4, _A, "zip")), 9, 7, id="in whatever order they are listed"),
        pytest.param((_file(1, _A, "zip"),), 9, 1, id="a snapshot of the first version"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B, "zip")), 7, 7, id="one of the version itself"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B, "zip")), 6, 4, id="not one that is too new"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B, "zip", "state/0/1")), 9, 4, id="the oldest of two partitions"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B, folder="state/0/1")), 9, 1, id="a partition without any"),
        pytest.param((_file(4, _A, "zip"), _file(7, _B)), 9, 4, id="a changelog beside a snapshot"),
    ],
)
def test_how_far_back_chains_reach_is_guessed_from_the_snapshots(
    keys: tuple[str, ...], version: int, oldest: int
) -> None:
    assert StateFiles.index(keys).oldest_useful_version(version) == oldest


@pytest.mark.parametrize(
    ("path", "is_named_once"),
    [
        (_file(4, _A), True),
        (_file(4, _A, "zip"), True),
        (_file(4, _A, "zip.crc"), True),
        (f"state/0/0/SSTs/000007-{_A}.sst", True),
        (f"state/0/0/left/SSTs/000007-{_A}.sst.crc", True),
        ("packs/mean/2-0/00000012-00000003-0123456789abcdef-00000007-00000011.pack", True),
        ("packs/mean/notes.txt", False),
        ("state/0/0/4.delta", False),
        ("state/0/_metadata/v2/0", False),
        ("offsets/4", False),
        (f"elsewhere/0/0/4_{_A}.zip", False),
        (f"elsewhere/000007-{_A}.sst", False),
    ],
)
def test_a_file_is_named_once_if_nothing_else_ever_has_its_name(path: str, is_named_once: bool) -> None:
    assert state_files.is_named_once(path) is is_named_once


@pytest.mark.parametrize(
    ("path", "is_loaded"),
    [
        (_file(4, _A), True),
        (_file(4, _A, "changelog.crc"), True),
        (_file(4, _A, "zip.crc"), True),
        (f"state/0/0/SSTs/000007-{_A}.sst", True),
        (f"state/0/0/SSTs/000007-{_A}.sst.crc", False),
        ("offsets/4", False),
    ],
)
def test_spark_loads_the_checksums_of_snapshots_and_changelogs_and_not_those_of_tables(
    path: str, is_loaded: bool
) -> None:
    assert state_files.is_of_state_store(path) is is_loaded
