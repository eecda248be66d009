"""Every reader of storage and of the network, with well-formed input to begin from."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import storeddocuments
from pydantic import ValidationError
from statefulspark import durations, errors
from statefulspark.checkpoint import checksums, segments, sparklog
from statefulspark.contract import api
from statefulspark.driver.snapshots import kafka_offsets
from statefulspark.operatorstate import record
from statefulspark.packs import names, packfile
from statefulspark.sources import segmentfile
from statefulspark.state import chunks, heads
from statefulspark.state.types import typetext

_GOLDEN = Path(__file__).resolve().parents[2] / "golden"
_WHERE = "s3://bucket/state/file"


@dataclass(frozen=True, slots=True)
class Target:
    """A reader.

    Attributes:
        name: For people and for `make fuzz`.
        read: Takes bytes; what it returns does not matter.
        seeds: Input that it can read.
        refusals: What it may raise; anything else is a defect.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (errors.StatefulSparkError,)


def _golden(*patterns: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for pattern in patterns for path in sorted(_GOLDEN.glob(pattern)))


def an_archive(local_name: str) -> bytes:
    """Return a snapshot of Spark's state whose table gets a name on the machine that loads it."""
    body = io.BytesIO()
    table = {"localFileName": local_name, "dfsSstFileName": "000012-4f.sst", "sizeBytes": 100}
    log = {"localFileName": "000013.log", "dfsLogFileName": "000013-4f.log", "sizeBytes": 10}
    metadata = {"sstFiles": [table], "logFiles": [log], "numKeys": 3}
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")
    return body.getvalue()


def _documents() -> tuple[Target, ...]:
    return tuple(
        Target(f"document {kind.name}", lambda body, kind=kind: kind.read(body, _WHERE), (kind.write(),))
        for kind in storeddocuments.KINDS
    )


_OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 4}],
}


def _whole_pack(body: bytes) -> object:
    return packfile.require_whole(lambda offset, length: body[offset : offset + length], len(body), _WHERE)


def _whole_chunk(body: bytes) -> object:
    """Read rows, too, which become objects only when they are used."""
    return [section.changes for section in chunks.decode(body, _WHERE).sections]


def _fitting_chunk(body: bytes) -> object:
    """Read a chunk without buffers under the checksum of the header that it has."""
    header = body[12 : 12 + int.from_bytes(body[4:8], "little")]
    return _whole_chunk(body[:8] + zlib.crc32(header).to_bytes(4, "little") + body[12:])


_PACK = b"packs/mean/4-2/00000012-00000003-0123456789abcdef-00000007-00000011.pack"
_REQUESTS = (api.CheckpointRequest, api.SavepointRequest, api.StopRequest, api.ActivateRequest)

TARGETS = (
    *_documents(),
    Target("chunk of keyed state", _whole_chunk, _golden("state/chunk-*.bin")),
    Target("chunk of keyed state that fits its checksum", _fitting_chunk, _golden("state/chunk-*-[dfn]*.bin")),
    Target(
        "head of a key group",
        lambda body: heads.GroupHead.from_layout(3, "4f", body),
        _golden("state/head-layout-*.bin"),
    ),
    Target("pack", lambda body: packfile.require_sound(body, _WHERE), _golden("state/pack-*.bin")),
    Target("ends of a pack", _whole_pack, _golden("state/pack-*.bin")),
    Target("name of a pack", lambda body: names.of_key(body.decode(errors="replace")), (_PACK,), ()),
    Target(
        "record of operator state", lambda body: record.decode(body, _WHERE), _golden("operatorstate/record-*.json")
    ),
    Target("segment", lambda body: segmentfile.decode(body, _WHERE), _golden("operatorstate/segment-*.arrow")),
    Target(
        "entry of Spark's commit log",
        lambda body: sparklog.parse_commit(3, body, _WHERE),
        (b'v1\n{"nextBatchWatermarkMs":0}', b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]}}'),
    ),
    Target(
        "entry of Spark's offset log",
        lambda body: (sparklog.parse_offsets(body, _WHERE), sparklog.pinned_partitions(body, _WHERE)),
        (
            b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"logOffset":0}',
            b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"clicks":{"0":17,"1":3}}\n-',
        ),
    ),
    Target(
        "metadata of Spark's operator",
        lambda body: sparklog.parse_operator(body, _WHERE),
        (f"v1\n{json.dumps(_OPERATOR)}".encode(),),
    ),
    Target(
        "snapshot of Spark's state",
        lambda body: sparklog.parse_snapshot_archive(body, _WHERE),
        (an_archive("000012.sst"),),
    ),
    Target(
        "checksum of Spark",
        lambda body: (checksums.matches_spark(b"content", body), checksums.size_in_spark(body)),
        (b'{"algorithm":"CRC32C","value":305419896,"mainFileSize":7}',),
        (),
    ),
    Target(
        "checksum of Hadoop",
        lambda body: checksums.matches_hadoop(b"content", body),
        (b"crc\x00\x00\x00\x02\x00abcd",),
        (),
    ),
    Target(
        "offset of a source",
        lambda body: (
            sparklog.file_source_position(body.decode(errors="replace")),
            segments.parse_offset(body.decode(errors="replace")),
        ),
        (b'{"logOffset":7}', b'{"uid":"numbers","segment":3,"epoch":1}'),
        (),
    ),
    Target(
        "offsets of Kafka",
        lambda body: kafka_offsets.parse_offsets(body.decode(errors="replace")),
        (b'{"clicks":{"0":17,"1":3}}',),
    ),
    Target(
        "type of a state",
        lambda body: typetext.parse(body.decode(errors="replace")),
        (b"map<string,array<struct<a:bigint>>>",),
    ),
    Target("duration", lambda body: durations.parse(body.decode(errors="replace")), (b"1h30m", b"250ms")),
    *(
        Target(
            f"request {model.__name__}",
            lambda body, model=model: model.model_validate_json(body),
            (b'{"requestId":"a","epoch":7,"location":"s3://bucket/sp"}', b'{"requestId":"a","epoch":7,"mode":"Drain"}'),
            (ValidationError,),
        )
        for model in _REQUESTS
    ),
)
