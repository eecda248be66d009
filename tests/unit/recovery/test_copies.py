"""Which files of a new generation a standby copies ahead, and which of its copies a start counts, as tables: no storage."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from manifests import a_query
from statefulspark.checkpoint import transfer
from statefulspark.contract.manifest import FileEntry, QueryEntry
from statefulspark.evolution import rewrite
from statefulspark.recovery import copies
from statefulspark.storage.port import ObjectInfo
from statefulspark.testing.stores import MemoryStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ID = "aaaaaaaa-0000-0000-0000-000000000000"
TABLE = f"state/0/1/SSTs/000008-{ID}.sst"
CHANGES = f"state/0/1/6_{ID}.changelog"
OLD, NEW = "generations/00000001/delays", "generations/00000002/delays"
SIZE = 100


def a_file_of_a_cut(path: str, size: int = SIZE, checksum: str | None = "etag:one") -> FileEntry:
    return FileEntry(path=path, size_bytes=size, checksum=checksum)


def a_cut_of_files(*files: FileEntry | str, path: str = OLD) -> QueryEntry:
    entries = tuple(a_file_of_a_cut(one) if isinstance(one, str) else one for one in files)
    return a_query("delays", path=path).model_copy(update={"files": entries})


def the_copies(cut: QueryEntry, operators: dict[int, int] | None = None) -> tuple[copies.FileCopy, ...]:
    changed = rewrite.Rewrite(operators or {0: 0}, (), {})
    moved = copies.moves([cut], 2, rewrites={"delays": changed})
    return copies.list_copies(transfer.SnapshotLocation(MemoryStore()), moved)


def a_listed_file(key: str, size: int = SIZE, etag: str = "one") -> dict[str, ObjectInfo]:
    return {key: ObjectInfo(key, size, etag, NOON)}


@pytest.mark.parametrize(
    ("path", "is_carried"),
    [
        pytest.param(TABLE, True, id="a table of a state snapshot"),
        pytest.param(CHANGES, True, id="a changelog"),
        pytest.param(f"{CHANGES}.crc", True, id="the checksum of a changelog"),
        pytest.param(f"state/0/1/left/6_{ID}.zip", True, id="a state snapshot of a store with a name"),
        pytest.param("state/0/1/6.delta", False, id="state that is named by its version alone"),
        pytest.param("state/0/_metadata/metadata", False, id="the description of an operator"),
        pytest.param("offsets/7", False, id="a log that names a batch"),
        pytest.param("commits/7", False, id="a log that commits a batch"),
        pytest.param("sources/0/7", False, id="the log of a source"),
        pytest.param(f"prepared/sink/6_{ID}.zip", False, id="a file elsewhere with a name of state"),
    ],
)
def test_only_files_whose_names_are_used_once_are_carried_ahead(path: str, is_carried: bool) -> None:
    chosen = copies.due_ahead(the_copies(a_cut_of_files(path)), {})

    assert [copy.target for copy in chosen] == ([f"{NEW}/{path}"] if is_carried else [])


def test_a_file_goes_to_the_place_of_its_operator_in_the_new_plan_and_dropped_state_nowhere() -> None:
    dropped = f"state/3/1/6_{ID}.changelog"

    (copy,) = copies.due_ahead(the_copies(a_cut_of_files(TABLE, dropped), {0: 5}), {})

    assert (copy.source, copy.target) == (f"{OLD}/{TABLE}", f"{NEW}/{TABLE.replace('state/0', 'state/5')}")


def test_nothing_is_carried_of_a_query_whose_state_is_rewritten() -> None:
    assert copies.due_ahead(the_copies(a_cut_of_files(TABLE)), {}, rewritten=[NEW]) == ()


def test_what_was_carried_is_not_carried_again() -> None:
    assert (
        copies.due_ahead(the_copies(a_cut_of_files(TABLE)), {f"{NEW}/{TABLE}": copies.Origin(f"{OLD}/{TABLE}", SIZE)})
        == ()
    )


@pytest.mark.parametrize(
    ("checksum", "present", "is_sound"),
    [
        pytest.param("etag:one", a_listed_file(f"{OLD}/{TABLE}"), True, id="as the cut knows it"),
        pytest.param(None, a_listed_file(f"{OLD}/{TABLE}"), True, id="known by its size"),
        pytest.param("crc32c:0001", a_listed_file(f"{OLD}/{TABLE}"), True, id="known by Spark's checksum"),
        pytest.param("etag:one", a_listed_file(f"{OLD}/{TABLE}", etag="two"), False, id="with another etag"),
        pytest.param("etag:one", a_listed_file(f"{OLD}/{TABLE}", size=SIZE - 1), False, id="with another size"),
        pytest.param("etag:one", {}, False, id="gone"),
    ],
)
def test_a_file_that_is_not_as_it_was_is_left_to_the_start(
    checksum: str | None, present: dict[str, ObjectInfo], is_sound: bool
) -> None:
    needed = the_copies(a_cut_of_files(a_file_of_a_cut(TABLE, checksum=checksum)))

    assert copies.sound(needed, present) == (needed if is_sound else ())


@pytest.mark.parametrize(
    ("path", "origin", "present", "is_copied_again"),
    [
        pytest.param(TABLE, (f"{OLD}/{TABLE}", SIZE), SIZE, False, id="a copy that is there"),
        pytest.param(TABLE, None, SIZE, True, id="a file of which nothing is known"),
        pytest.param(TABLE, (f"{OLD}/{TABLE}", SIZE), None, True, id="a copy that is gone"),
        pytest.param(TABLE, (f"{OLD}/{TABLE}", SIZE), SIZE - 1, True, id="a copy of another size"),
        pytest.param(TABLE, (f"{OLD}/{TABLE}", SIZE - 1), SIZE, True, id="a copy of a file of another size"),
        pytest.param(TABLE, (f"savepoints/1/{TABLE}", SIZE), SIZE, True, id="a copy of a file at another place"),
        pytest.param("offsets/7", (f"{OLD}/offsets/7", SIZE), SIZE, True, id="a log, even if somebody copied it"),
    ],
)
def test_a_start_counts_only_whole_copies_of_the_same_file(
    path: str, origin: tuple[str, int] | None, present: int | None, is_copied_again: bool
) -> None:
    needed, target = the_copies(a_cut_of_files(path)), f"{NEW}/{path}"
    carried = {target: copies.Origin(*origin)} if origin else {}
    found = a_listed_file(target, present) if present is not None else {}

    assert copies.missing(needed, carried, found) == (needed if is_copied_again else ())


def test_what_has_arrived_is_told_with_its_place_in_the_new_plan() -> None:
    lacking = f"state/0/1/7_{ID}.changelog"
    cut, changed = a_cut_of_files(TABLE, lacking, "offsets/7"), rewrite.Rewrite({0: 5}, (), {})
    at_its_place = TABLE.replace("state/0", "state/5")
    carried = {
        f"{NEW}/{at_its_place}": copies.Origin(f"{OLD}/{TABLE}", SIZE),
        f"{NEW}/{lacking.replace('state/0', 'state/5')}": copies.Origin(f"savepoints/1/{lacking}", SIZE),
    }

    moved = copies.moves([cut], 2, rewrites={"delays": changed})

    assert copies.arrived(transfer.SnapshotLocation(MemoryStore()), moved, carried) == (
        cut.model_copy(update={"path": NEW, "files": (FileEntry(path=at_its_place, size_bytes=SIZE),)}),
    )


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3]), (4, [3])])
def test_copies_are_made_a_few_at_a_time_each_once_in_their_order(most: int, sizes: list[int]) -> None:
    needed = the_copies(a_cut_of_files(TABLE, CHANGES, "offsets/7"))

    some = list(copies.slices(needed, most))

    assert [len(one) for one in some] == sizes
    assert tuple(copy for one in some for copy in one) == needed


def test_what_is_needed_is_not_outgrown_however_large_it_is() -> None:
    needed = the_copies(a_cut_of_files(*(a_file_of_a_cut(path, LARGE) for path in (TABLE, *OTHERS))))

    assert not copies.is_outgrown(needed, carried(TABLE, *OTHERS))


LARGE = 2**20
OTHERS = [f"state/0/1/SSTs/00000{number}-{ID}.sst" for number in range(4)]


def carried(*paths: str, to: str = "state/0") -> dict[str, copies.Origin]:
    return {f"{NEW}/{path.replace('state/0', to)}": copies.Origin(f"{OLD}/{path}", LARGE) for path in paths}


@pytest.mark.parametrize(
    ("present", "is_outgrown"),
    [
        pytest.param({}, False, id="nothing yet"),
        pytest.param(carried(TABLE), False, id="what is needed"),
        pytest.param(carried(TABLE, OTHERS[0]), False, id="as much again that is not needed any more"),
        pytest.param(carried(TABLE, *OTHERS[:2]), True, id="more that is not needed than what is"),
        pytest.param(carried(TABLE, to="state/1"), True, id="the same file at its place in another plan"),
        pytest.param(carried(OTHERS[0], to="state/1"), False, id="little of another plan that is not needed"),
    ],
)
def test_what_a_long_wait_has_piled_up_is_left_behind(present: dict[str, copies.Origin], is_outgrown: bool) -> None:
    needed = the_copies(a_cut_of_files(a_file_of_a_cut(TABLE, LARGE)))

    assert copies.is_outgrown(needed, present) is is_outgrown
