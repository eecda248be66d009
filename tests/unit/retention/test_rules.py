"""What pruning decides for each kind of file, as tables: no storage, an inventory goes in and a plan comes out (A.105)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from manifests import a_generation, a_manifest, a_query
from statefulspark.checkpoint import batch_records
from statefulspark.contract import layout
from statefulspark.contract.manifest import Ancestor, Manifest, OperatorEntry, QueryEntry
from statefulspark.packs import names as packs
from statefulspark.recovery import generations
from statefulspark.retention import rules
from statefulspark.storage.port import MOST_OF_A_MANIFEST, ObjectInfo

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GRACE = timedelta(seconds=60)
POLICY = rules.PrunePolicy(retained=2, grace=GRACE)
_ID = "aaaaaaaa-0000-0000-0000-000000000000"
_UPLOADED = NOW - timedelta(minutes=10)
_ROOT = "generations/00000002/delays"
_RECORD = batch_records.RecordName(batch_records.RecordKind.PREPARED, "sink", 5, 7)
_SEGMENT = layout.SegmentName("clicks", 5, 7)

_RUNNING = "the running driver may need it"
_NAMED = "a retained checkpoint, or a copy being made, needs it"


def _a_stored_object(key: str, *, at: datetime = _UPLOADED, size: int = 10) -> ObjectInfo:
    return ObjectInfo(key, size, "etag", at)


def _staged(batch: int) -> str:
    return layout.staged_file("sink", generation=2, batch_id=batch, epoch=7, unique="0" * 32)


def _pack(batch: int) -> str:
    before = packs.Before(tail=0, newest=0)
    return packs.key("words", packs.PackName(1, 0, batch, 7, "0" * 16, before).reference)


def _in_use(*files: str, batch_id: int = 5, path: str = _ROOT) -> QueryEntry:
    return a_query(files=files, batch_id=batch_id, path=path)


def _a_retained_checkpoint(
    number: int, *queries: QueryEntry, generation: int = 2, age: timedelta = timedelta(0)
) -> Manifest:
    return a_manifest(number, queries, now=NOW - age, generation=generation)


def _an_inventory(*files: ObjectInfo | str, **changes: object) -> rules.Inventory:
    """Generation 2 is in use; its newest checkpoint is number 8."""
    listed = tuple(_a_stored_object(one) if isinstance(one, str) else one for one in files)
    known = generations.Generations((a_generation(1), a_generation(2)), 2)
    empty = rules.Inventory((_a_retained_checkpoint(8, _in_use()),), (), known, listed, {}, {})
    return replace(empty, **changes)  # type: ignore[arg-type]


def _kept(inventory: rules.Inventory) -> str | None:
    """Return why the one file stays; None if it is marked as unused."""
    plan = rules.plan_prune(inventory, POLICY, NOW)
    assert len(plan.keep_reasons) + len(plan.marks) == 1
    return next(iter(plan.keep_reasons), None)


_FLOOR = _in_use(
    f"state/0/0/4_{_ID}.zip",
    f"state/0/0/5_{_ID}.changelog",
    "sources/0/3",
    "sources/1/2.compact",
    "sources/1/4",
    _SEGMENT.key,
    "offsets/5",
    "commits/5",
)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param(f"state/0/0/4_{_ID}.zip", _NAMED, id="a file that the checkpoint names"),
        pytest.param(f"state/0/0/.4_{_ID}.zip.crc", _NAMED, id="and its checksum"),
        pytest.param(f"state/0/0/4_{_ID}.zip.crc", _NAMED, id="and its checksum in the other spelling"),
        pytest.param(f"state/0/0/.4_{_ID}.zip.crc.crc", _NAMED, id="and the checksum of its checksum"),
        pytest.param("state/0/0/SSTs/notes.txt", rules.UNKNOWN, id="what is no SST file beside SST files"),
        pytest.param("state/0/0/one.sst", rules.UNKNOWN, id="an SST file in another place"),
        pytest.param(f"state/0/0/3_{_ID}.zip", None, id="an older state snapshot"),
        pytest.param(f"state/0/0/3_{_ID}.changelog", None, id="an older changelog"),
        pytest.param(f"state/0/0/.3_{_ID}.changelog.crc", None, id="the checksum of an older changelog"),
        pytest.param(f"state/0/0/4_{_ID}.changelog", None, id="the changelog of the version of the snapshot"),
        pytest.param(f"state/0/0/5_{_ID}.zip", _RUNNING, id="a newer state snapshot, uploaded late"),
        pytest.param(f"state/0/0/6_{_ID}.changelog", _RUNNING, id="a newer changelog"),
        pytest.param(f"state/0/1/1_{_ID}.changelog", _RUNNING, id="a partition of which no snapshot is known"),
        pytest.param(f"state/0/0/x/y/1_{_ID}.zip", rules.UNKNOWN, id="a name of state in no place of state"),
        pytest.param("offsets/4", None, id="an older offset"),
        pytest.param("offsets/6", _RUNNING, id="the batch that runs now"),
        pytest.param("commits/4", None, id="an older commit"),
        pytest.param("commits/6", _RUNNING, id="a newer commit"),
        pytest.param("sources/0/2", None, id="an older entry of a source's log"),
        pytest.param("sources/0/4", _RUNNING, id="a newer entry of a source's log"),
        pytest.param("sources/1/3", None, id="an entry between those that are named"),
        pytest.param("sources/1/5", _RUNNING, id="an entry above the highest that is named"),
        pytest.param("sources/9/1", rules.UNKNOWN, id="a source that the checkpoint does not know"),
        pytest.param(replace(_RECORD, batch=4).key, None, id="an older prepared record"),
        pytest.param(replace(_RECORD, batch=5).key, None, id="a prepared record of the floor that it does not name"),
        pytest.param(replace(_RECORD, batch=6).key, _RUNNING, id="a newer prepared record"),
        pytest.param(_staged(4), None, id="older staged rows"),
        pytest.param(_staged(5), None, id="staged rows of the floor that it does not name"),
        pytest.param(_staged(6), _RUNNING, id="newer staged rows"),
        pytest.param(f"{layout.STAGED}/sink/notes.txt", rules.UNKNOWN, id="a stranger beside staged rows"),
        pytest.param(_pack(5), None, id="a pack of the floor that it does not name"),
        pytest.param(_pack(6), _RUNNING, id="a newer pack"),
        pytest.param(replace(_SEGMENT, segment=4).key, None, id="an older segment"),
        pytest.param(replace(_SEGMENT, epoch=6).key, None, id="the same segment of a driver that lost"),
        pytest.param(replace(_SEGMENT, segment=6).key, _RUNNING, id="a newer segment"),
        pytest.param(replace(_SEGMENT, uid="other", segment=1).key, _RUNNING, id="the first segment of a new source"),
        pytest.param("state/0/_metadata/schema", rules.UNKNOWN, id="what is not understood"),
        pytest.param("metadata", rules.UNKNOWN, id="what has no number"),
    ],
)
def test_in_the_generation_in_use_what_is_older_than_the_newest_checkpoint_goes(name: str, reason: str | None) -> None:
    inventory = _an_inventory(f"{_ROOT}/{name}", checkpoints=(_a_retained_checkpoint(8, _FLOOR),))

    assert _kept(inventory) == reason


@pytest.mark.parametrize(
    ("modified_at", "ssts", "reason"),
    [
        pytest.param(_UPLOADED - GRACE - timedelta(seconds=1), {}, None, id="older than the floor's upload"),
        pytest.param(_UPLOADED - GRACE, {}, _RUNNING, id="within the grace time of the floor's upload"),
        pytest.param(_UPLOADED + timedelta(seconds=1), {}, _RUNNING, id="newer than the floor's upload"),
        pytest.param(
            _UPLOADED - GRACE - timedelta(seconds=1),
            {f"{_ROOT}/state/0/0/5_{_ID}.zip": (f"{_ROOT}/state/0/0/SSTs/one.sst",)},
            _RUNNING,
            id="needed by a snapshot that no checkpoint names yet",
        ),
        pytest.param(
            _UPLOADED - GRACE - timedelta(seconds=1),
            {f"{_ROOT}/state/0/0/5_{_ID}.zip": None},
            "a state snapshot cannot be read, so it is unknown what it needs",
            id="beside a snapshot that cannot be read",
        ),
        pytest.param(
            _UPLOADED - GRACE - timedelta(seconds=1),
            {f"{_ROOT}/state/0/1/5_{_ID}.zip": None},
            None,
            id="beside another partition's snapshot that cannot be read",
        ),
    ],
)
def test_an_sst_file_goes_when_it_is_older_than_any_upload_that_goes_on(
    modified_at: datetime, ssts: dict[str, tuple[str, ...] | None], reason: str | None
) -> None:
    inventory = _an_inventory(
        _a_stored_object(f"{_ROOT}/state/0/0/SSTs/one.sst", at=modified_at),
        _a_stored_object(f"{_ROOT}/state/0/0/4_{_ID}.zip"),
        checkpoints=(_a_retained_checkpoint(8, _FLOOR),),
        ssts=ssts,
    )

    plan = rules.plan_prune(inventory, POLICY, NOW)

    kept = {why: count for why, count in plan.keep_reasons.items() if why != _NAMED}
    assert (kept, list(plan.marks)) == (
        ({}, [f"{_ROOT}/state/0/0/SSTs/one.sst"]) if reason is None else ({reason: 1}, [])
    )


@pytest.mark.parametrize("name", ["state/0/0/SSTs/one.sst", "state/0/1/SSTs/one.sst"])
def test_an_sst_file_of_a_store_whose_upload_is_not_listed_stays(name: str) -> None:
    assert _kept(_an_inventory(f"{_ROOT}/{name}", checkpoints=(_a_retained_checkpoint(8, _FLOOR),))) == _RUNNING


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param("generations/00000001/delays/offsets/1", None, id="a file of a generation that is left"),
        pytest.param("generations/00000001/generation.json", None, id="its record"),
        pytest.param("generations/00000001/reserved.json", "its number is never used again", id="its reservation"),
        pytest.param("generations/00000002/generation.json", "it describes the generation", id="the record in use"),
        pytest.param("generations/00000003/delays/offsets/1", "the generation is being made", id="a newer generation"),
        pytest.param("generations/00000003/generation.json", "the generation is being made", id="a newer record"),
        pytest.param("generations/00000004/delays/offsets/1", None, id="a file of an abandoned number"),
        pytest.param(
            "generations/00000004/generation.json", "its number is never used again", id="an abandoned record"
        ),
        pytest.param("generations/00000002/other/offsets/1", _RUNNING, id="a query that the checkpoint does not have"),
        pytest.param("generations/notes.txt", rules.UNKNOWN, id="a file beside the generations"),
        pytest.param("generations/00000001.json", rules.UNKNOWN, id="a file beside them that has a number"),
        pytest.param("generations/mine/delays/offsets/1", rules.UNKNOWN, id="a folder that is no generation"),
        pytest.param("other/00000001/delays/offsets/1", rules.UNKNOWN, id="a file elsewhere"),
    ],
)
def test_a_generation_goes_when_nothing_needs_it_and_its_number_stays_taken(key: str, reason: str | None) -> None:
    known = generations.Generations((a_generation(1), a_generation(2)), 4, (3,), frozenset({4}))

    assert _kept(_an_inventory(key, generations=known)) == reason


def test_the_record_that_closes_a_number_off_stays_when_a_later_generation_is_in_use() -> None:
    """Pruning deleted it, and a start that had slept since before completed the generation after all."""
    known = generations.Generations((a_generation(2),), 2, (), frozenset({1}))

    assert (
        _kept(_an_inventory("generations/00000001/generation.json", generations=known))
        == "its number is never used again"
    )


def test_a_record_stays_while_a_retained_checkpoint_needs_a_file_of_its_generation() -> None:
    old = _in_use("offsets/5", path="generations/00000001/delays")

    inventory = _an_inventory("generations/00000001/generation.json", checkpoints=(_a_retained_checkpoint(8, old),))

    assert _kept(inventory) == "it describes the generation"


@pytest.mark.parametrize(
    ("generation", "reason"),
    [
        pytest.param(3, None, id="before the retained checkpoint"),
        pytest.param(5, "it describes the generation", id="between it and the generation in use"),
        pytest.param(6, None, id="on no way between them"),
    ],
)
def test_a_record_stays_while_a_start_finds_a_retained_checkpoint_by_it(generation: int, reason: str | None) -> None:
    parents = {3: None, 4: 3, 5: 4, 6: 5, 7: 5}
    line = tuple(a_generation(number, parent_generation=parent) for number, parent in parents.items())
    old = _in_use("offsets/5", path="generations/00000004/delays")
    checkpoints = (
        _a_retained_checkpoint(8, _in_use(path="generations/00000007/delays"), generation=7),
        _a_retained_checkpoint(7, old, generation=4),
    )

    inventory = _an_inventory(
        f"{layout.generation(generation)}/generation.json",
        checkpoints=checkpoints,
        generations=generations.Generations(line, 7),
    )

    assert _kept(inventory) == reason


def test_a_record_stays_while_the_snapshot_it_claimed_is_not_deleted() -> None:
    known = generations.Generations((a_generation(1, claimed="s3://b/sp"), a_generation(2)), 2)

    assert (
        _kept(_an_inventory("generations/00000001/generation.json", generations=known)) == "it describes the generation"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [("offsets/5", _NAMED), ("offsets/6", _RUNNING), ("offsets/4", _RUNNING)],
    ids=["what the start was made of", "what is newer", "what may be needed"],
)
def test_before_the_first_checkpoint_of_a_generation_nothing_of_it_goes(name: str, reason: str) -> None:
    known = generations.Generations((a_generation(1), a_generation(2, queries=[_in_use("offsets/5")])), 2)
    before = _a_retained_checkpoint(8, _in_use(path="generations/00000001/delays"), generation=1)

    assert _kept(_an_inventory(f"{_ROOT}/{name}", generations=known, checkpoints=(before,))) == reason


def test_what_the_start_was_made_of_goes_after_the_first_checkpoint() -> None:
    known = generations.Generations((a_generation(1), a_generation(2, queries=[_in_use("offsets/4")])), 2)

    assert _kept(_an_inventory(f"{_ROOT}/offsets/4", generations=known)) is None


def test_without_any_generation_everything_is_being_made() -> None:
    inventory = _an_inventory(f"{_ROOT}/offsets/4", generations=generations.Generations((), 0), checkpoints=())

    assert _kept(inventory) == "the generation is being made"


def test_what_is_being_copied_stays() -> None:
    assert _kept(_an_inventory(f"{_ROOT}/offsets/3", pinned=(_in_use("offsets/3"),))) == _NAMED


@pytest.mark.parametrize(
    ("pinned", "reason"), [((), None), ((_in_use("a.parquet", path="savepoints/00000003/files"),), _NAMED)]
)
def test_a_leftover_goes_unless_somebody_copies_it(pinned: tuple[QueryEntry, ...], reason: str | None) -> None:
    leftover = _a_stored_object("savepoints/00000003/files/a.parquet")

    assert _kept(_an_inventory(leftovers=(leftover,), pinned=pinned)) == reason


@pytest.mark.parametrize(
    ("unreadable", "reason"),
    [
        pytest.param((9,), "a checkpoint cannot be read, so it is unknown what it needs", id="a newer one"),
        pytest.param((7,), None, id="one that is older than every retained one"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_keeps_every_file_unless_it_goes_itself(
    unreadable: tuple[int, ...], reason: str | None
) -> None:
    assert _kept(_an_inventory(f"{_ROOT}/offsets/4", unreadable=unreadable)) == reason


@pytest.mark.parametrize(
    ("checkpoints", "reason"),
    [
        pytest.param((), "a checkpoint cannot be read, so it is unknown what it needs", id="without a checkpoint"),
        pytest.param((_a_retained_checkpoint(8, _in_use()),), None, id="with a checkpoint, which says what is needed"),
    ],
)
def test_a_record_in_use_that_cannot_be_read_keeps_every_file(
    checkpoints: tuple[Manifest, ...], reason: str | None
) -> None:
    known = generations.Generations((a_generation(1), a_generation(2)), 2, unreadable={2: "damaged"})

    assert _kept(_an_inventory(f"{_ROOT}/offsets/4", generations=known, checkpoints=checkpoints)) == reason


@pytest.mark.parametrize(
    ("marked", "deleted"),
    [
        pytest.param(None, False, id="never marked"),
        pytest.param(NOW - GRACE + timedelta(seconds=1), False, id="marked a moment too late"),
        pytest.param(NOW - GRACE, True, id="marked for the grace time"),
    ],
)
def test_a_file_is_deleted_when_it_has_been_marked_for_the_grace_time(marked: datetime | None, deleted: bool) -> None:
    key = f"{_ROOT}/offsets/4"
    inventory = _an_inventory(_a_stored_object(key, size=7), marks={key: marked} if marked else {})

    plan = rules.plan_prune(inventory, POLICY, NOW)

    assert (plan.delete_files, plan.freed_bytes, dict(plan.marks)) == (
        ((key,), 7, {}) if deleted else ((), 0, {key: marked or NOW})
    )


def test_a_file_is_not_deleted_in_the_pass_that_finds_it_even_without_a_grace_time() -> None:
    policy = rules.PrunePolicy(grace=timedelta(0))

    plan = rules.plan_prune(_an_inventory(f"{_ROOT}/offsets/4"), policy, NOW)

    assert (plan.delete_files, dict(plan.marks)) == ((), {f"{_ROOT}/offsets/4": NOW})


def test_the_size_of_what_waits_is_told() -> None:
    files = (_a_stored_object(f"{_ROOT}/offsets/{number}", size=number) for number in (2, 3))

    assert rules.plan_prune(_an_inventory(*files), POLICY, NOW).marked_bytes == 5


def test_files_that_stay_are_counted_by_reason() -> None:
    plan = rules.plan_prune(_an_inventory(f"{_ROOT}/offsets/6", f"{_ROOT}/commits/6", f"{_ROOT}/metadata"), POLICY, NOW)

    assert plan.keep_reasons == {_RUNNING: 2, rules.UNKNOWN: 1}


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        pytest.param(rules.PrunePolicy(retained=2), [9, 8], id="the newest"),
        pytest.param(rules.PrunePolicy(retained=0), [9], id="one at least"),
        pytest.param(rules.PrunePolicy(retained=1), [9], id="one"),
        pytest.param(rules.PrunePolicy(), [9, 8, 7], id="three unless told otherwise"),
        pytest.param(rules.PrunePolicy(max_age=timedelta(minutes=2)), [9, 8], id="not those that are too old"),
        pytest.param(rules.PrunePolicy(max_age=timedelta(0)), [9], id="the newest whatever its age"),
    ],
)
def test_the_newest_checkpoints_are_retained(policy: rules.PrunePolicy, kept: list[int]) -> None:
    checkpoints = [_a_retained_checkpoint(number, age=timedelta(minutes=10 - number)) for number in (6, 9, 7, 8)]

    assert [one.id for one in rules.retained_checkpoints(checkpoints, policy, NOW)] == kept


def test_the_plan_says_what_goes_and_why() -> None:
    """Checkpoint 5 cannot be read, 6 is one too many, 7 is too old."""
    ages = {number: timedelta(minutes=10 - number) for number in (6, 7, 8, 9)}
    checkpoints = tuple(_a_retained_checkpoint(number, _in_use(), age=age) for number, age in ages.items())
    policy = rules.PrunePolicy(retained=3, grace=GRACE, max_age=timedelta(minutes=2))
    gone, new, strange = (f"{_ROOT}/{name}" for name in ("offsets/4", "offsets/3", "metadata"))
    marks = {gone: NOW - GRACE}

    plan = rules.plan_prune(
        _an_inventory(gone, new, strange, checkpoints=checkpoints, unreadable=(5,), marks=marks), policy, NOW
    )

    assert plan.lines == (
        "delete checkpoints/00000005/_metadata.json: it cannot be read, and newer checkpoints can",
        "delete checkpoints/00000006/_metadata.json: more checkpoints than are retained",
        "delete checkpoints/00000007/_metadata.json: older than 0:02:00",
        f"delete {gone}: unused for the grace time",
        f"mark {new}: unused since 2026-01-01T12:00:00+00:00",
        "keep 1 files: it is not a file of Spark's",
    )


@pytest.mark.parametrize("etag", [None, "etag-3"])
def test_marks_are_written_over_those_that_were_read_and_over_no_others(etag: str | None) -> None:
    assert rules.plan_prune(_an_inventory(marks_etag=etag), POLICY, NOW).marks_etag == etag


@pytest.mark.parametrize(
    ("numbers", "deleted"),
    [
        pytest.param((8,), (), id="not before as many checkpoints as are retained"),
        pytest.param((8, 9), ("s3://b/sp",), id="once they are all newer"),
    ],
)
def test_a_claimed_snapshot_is_deleted_when_enough_checkpoints_followed(
    numbers: tuple[int, ...], deleted: tuple[str, ...]
) -> None:
    known = generations.Generations((a_generation(1, claimed="s3://b/sp"), a_generation(2)), 2)
    inventory = _an_inventory(
        generations=known, checkpoints=tuple(_a_retained_checkpoint(number, _in_use()) for number in numbers)
    )

    plan = rules.plan_prune(inventory, POLICY, NOW)

    assert plan.delete_claimed == deleted
    assert plan.lines == tuple(
        f"delete {uri}: claimed, and followed by as many checkpoints as are retained" for uri in deleted
    )


@pytest.mark.parametrize(
    ("generation", "deleted"), [(2, ("s3://b/sp",)), (1, ())], ids=["of its generation", "of an older generation"]
)
def test_a_snapshot_claimed_by_the_generation_in_use_waits_for_checkpoints_of_that_generation(
    generation: int, deleted: tuple[str, ...]
) -> None:
    known = generations.Generations((a_generation(1), a_generation(2, claimed="s3://b/sp")), 2)
    checkpoints = (_a_retained_checkpoint(8, _in_use(), generation=generation), _a_retained_checkpoint(9, _in_use()))

    assert (
        rules.plan_prune(_an_inventory(generations=known, checkpoints=checkpoints), POLICY, NOW).delete_claimed
        == deleted
    )


@pytest.mark.parametrize(
    ("key", "is_read"),
    [
        pytest.param(f"{_ROOT}/state/0/0/5_{_ID}.zip", True, id="one that was uploaded late"),
        pytest.param(f"{_ROOT}/state/0/0/4_{_ID}.zip", False, id="one that is named"),
        pytest.param(f"{_ROOT}/state/0/0/3_{_ID}.zip", False, id="one that goes"),
        pytest.param(f"{_ROOT}/state/0/0/5_{_ID}.changelog", False, id="a changelog"),
        pytest.param(f"generations/00000003/delays/state/0/0/5_{_ID}.zip", False, id="one of another generation"),
    ],
)
def test_state_snapshots_that_the_next_checkpoint_may_name_are_read(key: str, is_read: bool) -> None:
    """What they need is not known otherwise, and must stay."""
    inventory = _an_inventory(key, checkpoints=(_a_retained_checkpoint(8, _FLOOR),))

    assert rules.unnamed_snapshots(inventory, POLICY, NOW) == ((key,) if is_read else ())


def test_without_a_generation_no_state_snapshot_is_read() -> None:
    inventory = _an_inventory(
        f"{_ROOT}/state/0/0/5_{_ID}.zip", generations=generations.Generations((), 0), checkpoints=()
    )

    assert rules.unnamed_snapshots(inventory, POLICY, NOW) == ()


def test_the_age_of_checkpoints_counts_for_what_is_read_too() -> None:
    policy = replace(POLICY, max_age=timedelta(minutes=1))
    key = f"{_ROOT}/state/0/0/5_{_ID}.zip"
    checkpoints = (
        _a_retained_checkpoint(7, _in_use(f"state/0/0/5_{_ID}.zip"), age=timedelta(minutes=2)),
        _a_retained_checkpoint(8, _FLOOR),
    )

    assert rules.unnamed_snapshots(_an_inventory(key, checkpoints=checkpoints), policy, NOW) == (key,)


@pytest.mark.parametrize(
    ("named", "name", "reason"),
    [
        pytest.param(("sources/0/0",), "sources/0/1", _RUNNING, id="the entry after a source's first"),
        pytest.param(
            ("sources/1/4", "sources/1/2.compact"), "sources/1/3", None, id="in whatever order they are named"
        ),
        pytest.param(
            ("state/0/_metadata/v2/3",), "state/0/_metadata/v2/2", rules.UNKNOWN, id="numbers that are no source's log"
        ),
    ],
)
def test_the_position_of_a_source_is_its_highest_entry(named: tuple[str, ...], name: str, reason: str | None) -> None:
    assert _kept(_an_inventory(f"{_ROOT}/{name}", checkpoints=(_a_retained_checkpoint(8, _in_use(*named)),))) == reason


def test_each_partition_has_its_own_upload() -> None:
    snapshots = tuple(f"state/0/{partition}/4_{_ID}.zip" for partition in (0, 1))
    ssts = [f"{_ROOT}/state/0/{partition}/SSTs/one.sst" for partition in (0, 1)]
    inventory = _an_inventory(
        *(f"{_ROOT}/{name}" for name in snapshots),
        *(_a_stored_object(key, at=_UPLOADED - 2 * GRACE) for key in ssts),
        checkpoints=(_a_retained_checkpoint(8, _in_use(*snapshots)),),
    )

    assert list(rules.plan_prune(inventory, POLICY, NOW).marks) == ssts


def test_what_is_being_copied_stays_before_the_first_checkpoint_of_a_generation() -> None:
    known = generations.Generations((a_generation(1), a_generation(2, queries=[_in_use("offsets/5")])), 2)
    copied = _in_use("offsets/3", path="generations/00000001/delays")
    inventory = _an_inventory(
        "generations/00000001/delays/offsets/3", generations=known, checkpoints=(), pinned=(copied,)
    )

    assert _kept(inventory) == _NAMED


def test_the_first_generation_is_being_made_while_there_is_no_record() -> None:
    inventory = _an_inventory(
        "generations/00000001/delays/offsets/1", generations=generations.Generations((), 1), checkpoints=()
    )

    assert _kept(inventory) == "the generation is being made"


def test_one_retained_checkpoint_drops_the_one_before_and_the_claimed_snapshot() -> None:
    known = generations.Generations((a_generation(1, claimed="s3://b/sp"), a_generation(2)), 2)
    inventory = _an_inventory(
        generations=known, checkpoints=(_a_retained_checkpoint(8, _in_use()), _a_retained_checkpoint(9, _in_use()))
    )

    plan = rules.plan_prune(inventory, replace(POLICY, retained=1), NOW)

    assert plan.lines == (
        "delete checkpoints/00000008/_metadata.json: more checkpoints than are retained",
        "delete s3://b/sp: claimed, and followed by as many checkpoints as are retained",
    )


def _a_generation_carried_ahead(
    written_before: timedelta, *, others_before: timedelta = timedelta(0)
) -> rules.Inventory:
    """Generation 3 was reserved by a standby."""
    ahead = _a_stored_object(f"generations/00000003/delays/state/0/0/4_{_ID}.zip", at=NOW - written_before)
    running = _a_stored_object(f"{_ROOT}/offsets/6", at=NOW - others_before)
    known = generations.Generations((a_generation(1), a_generation(2)), 3, unfinished=(3,))
    return _an_inventory(ahead, running, generations=known, carried_ahead=(3,))


_SILENCE = rules.STANDBY_SILENCE
_INSTANT = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("inventory", "closed_off"),
    [
        pytest.param(_a_generation_carried_ahead(_INSTANT), (), id="it writes"),
        pytest.param(_a_generation_carried_ahead(_SILENCE), (), id="it has been silent for a while"),
        pytest.param(_a_generation_carried_ahead(_SILENCE + _INSTANT), (3,), id="it has been silent for too long"),
        pytest.param(
            _a_generation_carried_ahead(3 * _SILENCE, others_before=3 * _SILENCE), (), id="nobody has written anything"
        ),
        pytest.param(
            replace(_a_generation_carried_ahead(3 * _SILENCE), carried_ahead=()), (), id="a driver is filling it"
        ),
    ],
)
def test_a_generation_of_a_standby_that_is_gone_is_closed_off_and_not_deleted_yet(
    inventory: rules.Inventory, closed_off: tuple[int, ...]
) -> None:
    plan = rules.plan_prune(inventory, POLICY, NOW)

    assert plan.close_off == closed_off
    assert plan.keep_reasons == {"the generation is being made": 1, _RUNNING: 1}
    assert (plan.marks, plan.delete_files) == ({}, ())


def test_of_what_a_standby_has_written_the_newest_counts() -> None:
    writes = _a_generation_carried_ahead(_INSTANT)
    older = _a_stored_object("generations/00000003/delays/metadata", at=NOW - 3 * _SILENCE)

    assert rules.plan_prune(replace(writes, files=(*writes.files, older)), POLICY, NOW).close_off == ()


@pytest.mark.parametrize(
    ("untried", "max_age", "retained"),
    [
        pytest.param((), None, (8, 7), id="as many as set"),
        pytest.param((8,), None, (8, 7, 6), id="the newest does not count"),
        pytest.param((6, 7, 8), None, (8, 7, 5, 4), id="nor do those of drivers that have died"),
        pytest.param((6, 7, 8), timedelta(minutes=2), (8, 7), id="none of them stays longer than it may"),
        pytest.param((4, 5, 6, 7, 8), None, (8, 7), id="there is none that counts"),
    ],
)
def test_checkpoints_with_state_that_nobody_has_loaded_do_not_count(
    untried: tuple[int, ...], max_age: timedelta | None, retained: tuple[int, ...]
) -> None:
    checkpoints = [
        _a_retained_checkpoint(number, _in_use(), age=timedelta(minutes=8 - number)).model_copy(
            update={"untried": ("delays",) if number in untried else ()}
        )
        for number in (4, 5, 6, 7, 8)
    ]

    kept = rules.retained_checkpoints(checkpoints, replace(POLICY, max_age=max_age), NOW)

    assert tuple(manifest.id for manifest in kept) == retained


_DAY = timedelta(days=1)
_FUTURE = _in_use("commits/9", batch_id=9, path="generations/00000001/delays")


def _left(*, began: timedelta, restored: dict[str, object] | None = None, checkpoints: int = 8) -> rules.Inventory:
    """Generation 2 was made while checkpoint 5 of generation 1 was the newest; it has completed number 6 to 8 since."""
    restored = {
        "source": "s3://b/sp",
        "cut": Ancestor(lineage=None, generation=1, batches={"delays": 4}),
        **(restored or {}),
    }
    older = _in_use("commits/4", batch_id=4, path="generations/00000001/delays")
    manifests = (
        _a_retained_checkpoint(4, older, generation=1),
        _a_retained_checkpoint(5, _FUTURE, generation=1),
        *(_a_retained_checkpoint(number, _in_use()) for number in range(6, checkpoints + 1)),
    )
    return _an_inventory(
        _a_stored_object("generations/00000002/reserved.json", at=NOW - began),
        _a_stored_object("generations/00000002/generation.json", at=NOW),
        _a_stored_object("generations/00000001/delays/commits/4", at=NOW - 2 * _DAY),
        _a_stored_object("generations/00000001/delays/commits/9", at=NOW - 2 * _DAY),
        checkpoints=manifests,
        generations=generations.Generations((a_generation(1), a_generation(2, **restored)), 2),  # type: ignore[arg-type]
    )


_EMPTY: dict[str, object] = {"source": None, "cut": None}
_HEAD: dict[str, object] = {"cut": Ancestor(lineage=None, generation=1, batches={"delays": 9})}


@pytest.mark.parametrize(
    ("inventory", "stays"),
    [
        pytest.param(_left(began=timedelta(seconds=90)), True, id="a restore just now"),
        pytest.param(_left(began=_DAY - timedelta(seconds=1)), True, id="nearly a day ago"),
        pytest.param(_left(began=_DAY), False, id="a day ago"),
        pytest.param(_left(began=timedelta(seconds=90), restored=_EMPTY), True, id="a start with empty state"),
        pytest.param(_left(began=timedelta(seconds=90), restored=_HEAD), False, id="a copy of the newest state"),
        pytest.param(
            _left(
                began=timedelta(seconds=90),
                restored={"cut": Ancestor(lineage="other", generation=1, batches={"delays": 9})},
            ),
            True,
            id="a snapshot of another root",
        ),
        pytest.param(
            _left(
                began=timedelta(seconds=90),
                restored={"cut": Ancestor(lineage=None, generation=2, batches={"delays": 9})},
            ),
            True,
            id="a cut of another generation",
        ),
        pytest.param(
            _left(
                began=timedelta(seconds=90),
                restored={"cut": Ancestor(lineage=None, generation=1, batches={"other": 9})},
            ),
            True,
            id="a cut without that query",
        ),
    ],
)
@pytest.mark.parametrize(
    "policy",
    [POLICY, replace(POLICY, retained=1), replace(POLICY, max_age=timedelta(0))],
    ids=["retained", "retained 1", "max age"],
)
def test_what_a_restore_has_left_behind_stays_for_a_day(
    inventory: rules.Inventory, stays: bool, policy: rules.PrunePolicy
) -> None:
    plan = rules.plan_prune(inventory, policy, NOW)

    is_dropped = "checkpoints/00000005/_metadata.json" in plan.delete_checkpoints
    is_marked = "generations/00000001/delays/commits/9" in plan.marks
    assert (is_dropped, is_marked) == (not stays, not stays)
    assert "checkpoints/00000004/_metadata.json" in plan.delete_checkpoints
    assert "generations/00000001/delays/commits/4" in plan.marks
    reason = "a restore has left its checkpoint behind less than a day ago"
    assert plan.keep_reasons.get(reason, 0) == stays
    assert (f"keep 1 files: {reason}" in plan.lines) is stays


@pytest.mark.parametrize(("batch", "stays"), [(-1, False), (0, True)], ids=["without a commit", "with one"])
def test_a_query_that_the_cut_does_not_have_is_left_behind_once_it_has_committed(batch: int, stays: bool) -> None:
    other = a_query(files=("commits/0",), batch_id=batch, path="generations/00000001/other", uid="other")
    inventory = _left(began=timedelta(hours=1), restored=_HEAD)
    newest = _a_retained_checkpoint(5, _FUTURE, other, generation=1)
    checkpoints = tuple(newest if manifest.id == 5 else manifest for manifest in inventory.checkpoints)

    plan = rules.plan_prune(replace(inventory, checkpoints=checkpoints), POLICY, NOW)

    assert ("checkpoints/00000005/_metadata.json" not in plan.delete_checkpoints) is stays


@pytest.mark.parametrize(
    ("left", "kept", "stays"),
    [
        pytest.param(("sum",), ("sum",), False, id="none"),
        pytest.param(("sum", "added"), ("sum",), True, id="one"),
        pytest.param(("sum",), ("sum", "new"), False, id="a new one has no state there"),
    ],
)
def test_a_start_without_an_operator_of_the_newest_state_leaves_that_for_a_day(
    left: tuple[str, ...], kept: tuple[str, ...], stays: bool
) -> None:
    def with_operators(query: QueryEntry, uids: tuple[str, ...]) -> QueryEntry:
        entries = (OperatorEntry(uid=uid, operator_id=0, name="op", partitions=1) for uid in uids)
        return query.model_copy(update={"operators": tuple(entries)})

    restored = {**_HEAD, "queries": (with_operators(_FUTURE, kept),)}
    inventory = _left(began=timedelta(hours=1), restored=restored)
    newest = _a_retained_checkpoint(5, with_operators(_FUTURE, left), generation=1)
    checkpoints = tuple(newest if manifest.id == 5 else manifest for manifest in inventory.checkpoints)

    plan = rules.plan_prune(replace(inventory, checkpoints=checkpoints), POLICY, NOW)

    assert ("checkpoints/00000005/_metadata.json" not in plan.delete_checkpoints) is stays


def test_the_checksum_of_a_file_that_was_left_behind_stays_with_it() -> None:
    inventory = _left(began=timedelta(hours=1))
    checksum = _a_stored_object("generations/00000001/delays/commits/.9.crc")

    plan = rules.plan_prune(replace(inventory, files=(*inventory.files, checksum)), POLICY, NOW)

    assert checksum.key not in plan.marks


def test_a_day_is_counted_by_the_clock_of_the_store() -> None:
    """A suspended job writes nothing, so its clock stands still; and the clock of who prunes may be wrong."""
    inventory = _left(began=timedelta(hours=1))

    plan = rules.plan_prune(inventory, POLICY, NOW + 3 * _DAY)

    assert "checkpoints/00000005/_metadata.json" not in plan.delete_checkpoints


def test_the_records_of_what_was_left_behind_stay_with_it() -> None:
    inventory = _left(began=timedelta(hours=1))
    record = _a_stored_object("generations/00000001/generation.json")

    plan = rules.plan_prune(replace(inventory, files=(*inventory.files, record)), POLICY, NOW)

    assert record.key not in plan.marks


def test_damage_in_between_does_not_keep_more_than_what_was_left_behind() -> None:
    inventory = replace(_left(began=timedelta(hours=1)), unreadable=(3, 6))

    plan = rules.plan_prune(inventory, POLICY, NOW)

    assert {"checkpoints/00000003/_metadata.json", "checkpoints/00000006/_metadata.json"} <= set(
        plan.delete_checkpoints
    )
    assert "generations/00000001/delays/commits/4" in plan.marks


def test_the_document_with_the_marks_stays_small_enough_to_be_read() -> None:
    folder = f"generations/00000001/{'x' * 100_000}"
    unused = [_a_stored_object(f"{folder}/{number}") for number in range(700)]
    first = rules.plan_prune(_an_inventory(*unused), POLICY, NOW)
    later = rules.plan_prune(_an_inventory(*unused, marks=first.marks), POLICY, NOW + GRACE)

    waiting = {"it is unused, and there are too many marked files; it is marked later": 700 - len(first.marks)}
    assert MOST_OF_A_MANIFEST / 2 < sum(map(len, first.marks)) < MOST_OF_A_MANIFEST
    assert first.keep_reasons == waiting
    assert set(later.delete_files) == set(first.marks)
    assert {*later.marks, *later.delete_files} == {info.key for info in unused}
