"""Every reader of storage and of the network, with well-formed input to begin from."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import botocore.parsers
import botocore.session
import fakecontrol
import pyarrow as pa
import storeddocuments
from pyarrow import parquet
from pydantic import ValidationError
from statefulspark import durations, errors, jobcode
from statefulspark.canonical import parts
from statefulspark.checkpoint import checksums, sparklog
from statefulspark.contract import api, layout
from statefulspark.operatorstate import record
from statefulspark.packs import names, packfile
from statefulspark.sinks import staging
from statefulspark.sources import segmentfile
from statefulspark.state import chunks, heads
from statefulspark.state.types import typetext
from statefulspark.storage import fsspec_listing
from statefulspark_operator.cluster import pods

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


def _code(body: bytes) -> None:
    """Unpack the code of a job."""
    jobcode.require_file(body, "job.zip", "job.py")
    with tempfile.TemporaryDirectory() as folder:
        jobcode.lay_out(body, "job.zip", Path(folder))


def a_code_archive(compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return the code of a job of two files."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", compression) as archive:
        archive.writestr("job.py", "import shop.orders\n")
        archive.writestr("shop/orders.py", "TOPIC = 'orders'\n" * 20)
    return body.getvalue()


_LISTING = botocore.session.get_session().get_service_model("s3").operation_model("ListObjectsV2").output_shape
_PAGE = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>true</IsTruncated><Prefix>jobs/</Prefix>'
    "<NextContinuationToken>a</NextContinuationToken><Contents><Key>jobs/orders/a</Key><ETag>&quot;e&quot;</ETag>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>7</Size></Contents>"
    "<CommonPrefixes><Prefix>jobs/orders/b/</Prefix></CommonPrefixes></ListBucketResult>"
)


def _listing(body: bytes) -> object:
    parser = fsspec_listing.ParserFactory().create_parser("rest-xml")
    return asyncio.run(parser.parse({"body": body, "headers": {}, "status_code": 200, "context": {}}, _LISTING))


def _exit_report(body: bytes) -> object:
    """Read what a driver left in its pod, where the API server has it as text."""
    ended = {"terminated": {"exitCode": 13, "reason": "Error", "message": body.decode(errors="replace")}}
    status = {"name": "driver", "state": ended, "restartCount": 0}
    pod = {
        "metadata": {"name": "flights-driver-3", "uid": "u", "labels": {"statefulspark.io/epoch": "3"}},
        "spec": {"containers": [{"name": "driver"}]},
        "status": {"phase": "Failed", "containerStatuses": [status]},
    }
    return pods.read_driver_pod(pod)


def a_parquet_file() -> bytes:
    """Return rows of several types."""
    rows = pa.table(
        {
            "number": pa.array([1, 2, None]),
            "name": ["ada", None, "grace"],
            "numbers": pa.array([[1], None, []]),
            "pair": pa.array([{"x": 1, "y": "k"}] * 3),
            "at": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        }
    )
    body = io.BytesIO()
    parquet.write_table(rows, body, compression="zstd")
    return body.getvalue()


_PACK = b"packs/mean/4-2/00000012-00000003-0123456789abcdef-00000007-00000011.pack"
_REQUESTS = (api.CheckpointRequest, api.SavepointRequest, api.StopRequest, api.ActivateRequest)
_ANSWERS = (
    (api.JobStatus, fakecontrol.a_status().to_json().encode()),
    (api.Operation, b'{"requestId":"a","kind":"Savepoint","state":"Completed","message":"done"}'),
    (api.ApiError, b'{"reason":"NotReady","message":"The job is starting."}'),
)

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
            layout.parse_source_offset(body.decode(errors="replace")),
        ),
        (b'{"logOffset":7}', b'{"uid":"numbers","segment":3,"epoch":1}'),
        (),
    ),
    Target(
        "offsets of Kafka",
        lambda body: sparklog.kafka_positions(body.decode(errors="replace")),
        (b'{"clicks":{"0":17,"1":3}}',),
    ),
    Target(
        "type of a state",
        lambda body: typetext.parse(body.decode(errors="replace")),
        (b"map<string,array<struct<a:bigint>>>",),
    ),
    Target("duration", lambda body: durations.parse(body.decode(errors="replace")), (b"1h30m", b"250ms")),
    Target("code of a job", _code, (a_code_archive(),)),
    Target("part of a canonical savepoint", lambda body: parts.parse(body, _WHERE), (a_parquet_file(),)),
    Target(
        "staged rows",
        lambda body: list(staging.batches(body)),
        (a_parquet_file(),),
        (pa.ArrowException, OSError, UnicodeDecodeError),
    ),
    Target("listing", _listing, (_PAGE.encode(),), (botocore.parsers.ResponseParserError, ValueError)),
    Target("report of an end", _exit_report, (b'{"exitCode":13,"reason":"JobFileRaised","message":"why"}',), ()),
    *(
        Target(
            f"answer {model.__name__}",
            lambda body, model=model: model.model_validate_json(body),
            (seed,),
            (ValidationError,),
        )
        for model, seed in _ANSWERS
    ),
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
