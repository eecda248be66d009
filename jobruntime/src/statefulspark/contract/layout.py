"""Names of all objects below a job's root on storage, and of state variables: the only module that knows the layout.

```
owner.json
epochs/00000007.json
epochs/began.json                        a generation was made: if there is none now, the state is lost
lineages/00000001.json                   the identity of this root; it gets a new one after a move or copy
generations/00000003/reserved.json       written first: the driver that may fill this generation
generations/00000003/generation.json     written last: a generation without it is never used
generations/00000003/<query uid>/        a Spark checkpoint root
generations/00000003/<query uid>/staged/<sink uid>/00000003-00000012-00000007-<unique>.parquet
                                         rows that wait for their commit: generation, batch and epoch of their attempt
generations/00000003/<query uid>/source-segments/<source uid>/00000007-00000003.arrow
                                         the rows of a batch and its source's state after them: segment and epoch
checkpoints/00000042/_metadata.json
savepoints/00000043-<name>/_metadata.json, files/<query uid>/…
savepoints/00000044.json                 names the location of savepoint 44, outside this root
prune/marks.json                         the unused files, and since when they are unused
scratch/00000007/<query uid>/            empty state of the start of epoch 7; removed afterwards
scratch/rehearsal-<unique>/              what executors share while a standby makes them warm; removed afterwards
sinks/<query uid>/<sink uid>/            what a sink notes for itself, for all generations
code/<sha256>/<name>                     a job's code that is not in its image, kept for the way back
damage/00000003-00000008.json            state that Spark could not load: generation and epoch
```
Numbers have eight digits, so that names sort like numbers; numbers from 100,000,000 on have more digits, and are read, too.
The names of a keyed operator's state variables have its uid, so storage alone tells whose state it is.

The offset that Spark stores for a stateful source is the segment's name: `{"uid": "counter", "segment": 7, "epoch": 3}`. A
batch that runs again reads the same segment; a source that starts after the batch begins with that segment's state. So a
snapshot contains only the segment of its last offsets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

MANIFEST_NAME = "_metadata.json"
"""Name of the manifest inside a snapshot's folder."""
OWNER = "owner.json"
EPOCHS = "epochs"
LINEAGES = "lineages"
GENERATIONS = "generations"
CHECKPOINTS = "checkpoints"
CHECKPOINT_REFERENCE = "checkpoint:"
"""Prefix of a reference to one of the job's own checkpoints; the number follows."""
SAVEPOINTS = "savepoints"
SAVEPOINT_FILES = "files"
GENERATION_RECORD = "generation.json"
GENERATION_RESERVATION = "reserved.json"
BEGAN = f"{EPOCHS}/began.json"
PRUNE = "prune"
PRUNE_MARKS = f"{PRUNE}/marks.json"
SCRATCH = "scratch"
DAMAGE = "damage"
SINKS = "sinks"
STAGED = "staged"
"""Folder of the sinks' rows below a query's root."""
SEGMENTS = "source-segments"
"""Folder of the stateful sources' segments below a query's root."""
CODE = "code"
OWN_FOLDERS = frozenset({EPOCHS, LINEAGES, GENERATIONS, CHECKPOINTS, PRUNE, SCRATCH, DAMAGE, SINKS, CODE})
"""Folders of a job's root whose contents the runtime lists, numbers and deletes; a savepoint of a person is in none."""

_HEAD, _LOG = "head_", "log_"
_REHEARSAL = "rehearsal-"
_UID = "[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?"
SINK_NAME = f"^{_UID}/{_UID}$"
"""The pattern of a sink's name, as a person writes it: `query/sink`, its two uids."""
_NUMBER = re.compile(r"^([0-9]{8}|[1-9][0-9]{8,})(?:[-./].*)?$")
_STAGED_FILE = re.compile(
    rf"{STAGED}/[a-z0-9][a-z0-9_-]{{0,62}}/\d{{8,}}-(?P<batch>\d{{8,}})-\d{{8,}}-[0-9a-f]{{32}}\.parquet"
)
_SEGMENT = re.compile(rf"^{SEGMENTS}/(?P<uid>[^/]+)/(?P<segment>\d{{8,}})-(?P<epoch>\d{{8,}})\.arrow$")


def is_uid(uid: str) -> bool:
    """Tell whether a uid is valid: it becomes a folder's name and a part of the names of state variables."""
    return re.fullmatch(_UID, uid) is not None


def sink_name(query_uid: str, sink_uid: str) -> str:
    """Return the name by which a person names a sink of a job."""
    return f"{query_uid}/{sink_uid}"


def job_prefix(namespace: str, job: str) -> str:
    """Return the job's root below the storage root."""
    return f"{namespace}/{job}"


def job_at(root: str) -> str:
    """Return the job of a root, as `namespace/name`: the end of the root's URI."""
    return "/".join(root.rstrip("/").split("/")[-2:])


def number(value: int) -> str:
    """Return a number as it is written in names, for example `00000042`."""
    return f"{value:08d}"


def parse_number(name: str) -> int | None:
    """Read the number at the start of a name.

    Args:
        name: A direct child's name, for example `00000043-nightly/` or `00000007.json`.

    Returns:
        The number, or None when the name has another form.
    """
    match = _NUMBER.match(name)
    return int(match.group(1)) if match else None


def epoch(epoch_number: int) -> str:
    """Return the key of an epoch's record."""
    return f"{EPOCHS}/{number(epoch_number)}.json"


def lineage(lineage_number: int) -> str:
    """Return the key of a lineage's record."""
    return f"{LINEAGES}/{number(lineage_number)}.json"


def generation(generation_number: int) -> str:
    """Return the folder of a generation."""
    return f"{GENERATIONS}/{number(generation_number)}"


def generation_record(generation_number: int) -> str:
    """Return the key of a generation's record."""
    return f"{generation(generation_number)}/{GENERATION_RECORD}"


def generation_reservation(generation_number: int) -> str:
    """Return the key that reserves a generation's number for one writer."""
    return f"{generation(generation_number)}/{GENERATION_RESERVATION}"


def query_root(generation_number: int, query_uid: str) -> str:
    """Return the folder of a query's Spark checkpoint root."""
    return f"{generation(generation_number)}/{query_uid}"


def scratch(epoch_number: int) -> str:
    """Return the scratch folder of an epoch's start; no snapshot refers to it."""
    return f"{SCRATCH}/{number(epoch_number)}"


def rehearsal(unique: str) -> str:
    """Return the scratch folder of one rehearsal; no snapshot refers to it."""
    return f"{SCRATCH}/{_REHEARSAL}{unique}"


def is_rehearsal(name: str) -> bool:
    """Tell whether a name in the scratch folder is that of a rehearsal."""
    return name.startswith(_REHEARSAL)


def checkpoint(checkpoint_id: int) -> str:
    """Return the folder of a checkpoint."""
    return f"{CHECKPOINTS}/{number(checkpoint_id)}"


def checkpoint_manifest(checkpoint_id: int) -> str:
    """Return the key of a checkpoint's manifest."""
    return snapshot_manifest(checkpoint(checkpoint_id))


def savepoint(savepoint_id: int, name: str | None = None) -> str:
    """Return the folder of a savepoint in the job's own root."""
    return f"{SAVEPOINTS}/{number(savepoint_id)}" + (f"-{name}" if name else "")


def snapshot_folder(location: str) -> str:
    """Return the folder of a snapshot, whose location may be that of its manifest, or end with slashes."""
    return location.rstrip("/").removesuffix(f"/{MANIFEST_NAME}").rstrip("/")


def snapshot_manifest(folder: str) -> str:
    """Return the key of the manifest in a snapshot's folder, which is empty if the snapshot is its own store."""
    return f"{folder}/{MANIFEST_NAME}" if folder else MANIFEST_NAME


def savepoint_pointer(savepoint_id: int) -> str:
    """Return the key that reserves the number of a savepoint at another location."""
    return f"{SAVEPOINTS}/{number(savepoint_id)}.json"


def sink(query_uid: str, sink_uid: str) -> str:
    """Return the folder of what a sink notes for itself, the same for every generation."""
    return f"{SINKS}/{query_uid}/{sink_uid}"


def staged_file(sink_uid: str, *, generation: int, batch_id: int, epoch: int, unique: str) -> str:
    """Return the key of a file with rows of one attempt at a batch, below the query's root."""
    return f"{STAGED}/{sink_uid}/{number(generation)}-{number(batch_id)}-{number(epoch)}-{unique}.parquet"


def staged_batch(key: str) -> int | None:
    """Return the batch of a file with staged rows; None if a key below a query's root is not of one."""
    match = _STAGED_FILE.fullmatch(key)
    return int(match["batch"]) if match else None


def staged_files_in(text: str) -> tuple[str, ...]:
    """Return the keys of all files with staged rows that a text names, each once, in order."""
    return tuple(dict.fromkeys(match[0] for match in _STAGED_FILE.finditer(text)))


def code(checksum: str, name: str) -> str:
    """Return the key of a job's code, a Python file or a zip, by its SHA-256."""
    return f"{CODE}/{checksum}/{name}"


def damage_note(generation_number: int, epoch_number: int) -> str:
    """Return the key of a driver's note on state that Spark could not load."""
    return f"{DAMAGE}/{number(generation_number)}-{number(epoch_number)}.json"


def head_variable(uid: str) -> str:
    """Return the name of the variable with the heads of an operator's key groups."""
    return f"{_HEAD}{uid}"


def log_variable(uid: str) -> str:
    """Return the name of the variable with the chunks of an operator's key groups."""
    return f"{_LOG}{uid}"


def operator_of_variable(variable: str) -> str | None:
    """Return the uid of the operator whose heads a state variable holds; None for other variables."""
    return variable.removeprefix(_HEAD) or None if variable.startswith(_HEAD) else None


@dataclass(frozen=True, slots=True)
class SegmentName:
    """Name of a segment, in offsets and keys.

    Attributes:
        uid: The source.
        segment: Its number, from 1; 0 means the position before the first segment, which has no file.
        epoch: The driver's epoch that wrote it.
    """

    uid: str
    segment: int
    epoch: int

    @property
    def key(self) -> str:
        """Its key below the query's root."""
        return f"{SEGMENTS}/{self.uid}/{number(self.segment)}-{number(self.epoch)}.arrow"

    @property
    def offset(self) -> dict[str, str | int]:
        """Spark's offset after this segment."""
        return {"uid": self.uid, "segment": self.segment, "epoch": self.epoch}


def first_position(uid: str) -> SegmentName:
    """Return the position before a source's first segment."""
    return SegmentName(uid, 0, 0)


def parse_source_offset(line: str) -> SegmentName | None:
    """Parse a source's line of the offset log; None if it is not the line of a stateful source."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    uid, segment, epoch = value.get("uid"), value.get("segment"), value.get("epoch")
    if isinstance(uid, str) and is_uid(uid) and isinstance(segment, int) and isinstance(epoch, int):
        return SegmentName(uid, segment, epoch)
    return None


def parse_segment_key(key: str) -> SegmentName | None:
    """Parse a key below a query's root; None if it is not the key of a segment."""
    match = _SEGMENT.match(key)
    return SegmentName(match["uid"], int(match["segment"]), int(match["epoch"])) if match else None


def parse_source_offsets(lines: Iterable[str]) -> dict[str, SegmentName]:
    """Return the segments that an entry of the offset log names, by uid of the source."""
    names = (parse_source_offset(line) for line in lines)
    return {name.uid: name for name in names if name is not None}


def segment_keys(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the keys, below the query's root, of the segments that a snapshot with these offsets needs."""
    return tuple(name.key for name in parse_source_offsets(lines).values() if name.segment > 0)
