"""Writes the documents of a commit with that commit's own code, and what its readers asked of them.

    git archive COMMIT jobruntime/src | tar -x -C FOLDER
    PYTHONPATH=FOLDER/jobruntime/src python make_first.py COMMIT

For every kind of document that the commit was the first to write, two files in `first/`: `<kind>-<commit>.json`, as it was
written, and `<kind>-<commit>.reader.json`, the versions and the JSON schema of its reader. Files that are there are never
written again: they stand for roots that were written by that commit.
"""

from __future__ import annotations

import datetime
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "first"
NOON = datetime.datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=datetime.UTC)
LINEAGE = "9f1c0000000000000000000000000000"
UNIQUE = "0123456789abcdef0123456789abcdef"
ROOT = "s3://bucket/state/team/flights"
Values = dict[str, Any]
PART = {"path": f"data/00000012-{UNIQUE}.parquet", "rows": 20, "sizeBytes": 1234}
QUERY = {
    "uid": "delays",
    "batchId": 12,
    "path": "generations/00000003/delays",
    "files": [{"path": "state/0/0/12.changelog", "sizeBytes": 100, "checksum": "etag:abc"}],
    "operators": [{"uid": "mean", "operatorId": 0, "name": "tws", "partitions": 4, "maxParallelism": 128}],
    "offsets": ['{"flights":{"0":41}}'],
}
MANIFEST = {
    "kind": "checkpoint",
    "id": 42,
    "namespace": "team",
    "job": "flights",
    "trigger": "periodic",
    "epoch": 7,
    "generation": 3,
    "triggeredAt": NOON,
    "completedAt": NOON,
    "queries": [QUERY],
    "restoredFrom": "checkpoint 41",
    "revision": "2",
    "versions": {"pyspark": "4.2.0"},
}
STATES = [
    {"name": "seen", "mode": "SPLIT_DISTRIBUTE", "type": "array<any>", "parts": [{"values": [1]}], "subtasks": [0]}
]
MODULES = "statefulspark."
TABLE: dict[str, dict[str, tuple[str, Values]]] = {
    "2717b7a": {
        "manifest": ("contract.manifest.Manifest", MANIFEST),
        "epoch": (
            "contract.manifest.EpochRecord",
            {"epoch": 7, "claimedAt": NOON, "holder": "flights-driver-7/4f", "claimId": "c0ffee"},
        ),
        "owner": (
            "contract.manifest.OwnerRecord",
            {"namespace": "team", "job": "flights", "ownerId": "local", "createdAt": NOON},
        ),
    },
    "1d6b97d": {
        "generation": (
            "contract.manifest.GenerationRecord",
            {"generation": 3, "createdAt": NOON, "epoch": 7, "restoredFrom": "checkpoint 41", "queries": [QUERY]},
        )
    },
    "3a52c52": {
        "reservation": (
            "contract.manifest.EpochRecord",
            {"epoch": 7, "claimedAt": NOON, "holder": "epoch 7", "claimId": "epoch-7"},
        )
    },
    "3f3b02a": {
        "prune-marks": ("snapshot.pruning.Marks", {"unusedSince": {"generations/00000001/delays/offsets/3": NOON}})
    },
    "3b0a47b": {
        "commit": ("sinks.files.BatchCommit", {"batchId": 12, "epoch": 3, "committedAt": NOON, "files": [PART]})
    },
    "1cb140c": {
        "operator-state": ("opstate.record.OperatorRecord", {"uid": "buffer", "parallelism": 1, "states": STATES})
    },
    "c230c7e": {
        "canonical-query": (
            "snapshot.canonical.documents.QueryDocument",
            {
                "uid": "delays",
                "batchId": 12,
                "sources": [
                    {"name": "flights", "description": "kafka(subscribe=flights)", "offset": {"flights": {"0": 41}}}
                ],
                "operators": [
                    {
                        "uid": "mean",
                        "operatorId": 0,
                        "name": "tws",
                        "keyTypes": ["string"],
                        "maxParallelism": 128,
                        "states": [
                            {
                                "name": "total",
                                "kind": "ValueState",
                                "type": "bigint",
                                "files": [{"path": "canonical/x.parquet", "rows": 1, "sizeBytes": 9, "sha256": "00"}],
                            }
                        ],
                    }
                ],
            },
        )
    },
    "35d5767": {
        "claim": ("contract.notes.ClaimRecord", {"root": ROOT, "ownerId": "local", "claimedAt": NOON}),
        "damage": (
            "contract.notes.DamageNote",
            {"generation": 3, "epoch": 7, "query": "delays", "batchId": 12, "said": "Gone.", "notedAt": NOON},
        ),
    },
    "6861a8a": {
        "segment": ("sources.segmentfile.SegmentHeader", {"uid": "ticks", "segment": 4, "epoch": 7, "subtasks": [0, 2]})
    },
    "53e4d04": {
        "savepoint-pointer": ("contract.notes.SavepointPointer", {"location": "s3://bucket/elsewhere/00000043-nightly"})
    },
    "e55f582": {
        "staged-rows": (
            "sinks.staging.StagedRows",
            {
                "files": [{"path": f"00000003-00000012-00000007-{UNIQUE}.parquet", "rows": 20, "sizeBytes": 1234}],
                "columns": [{"name": "key", "type": "string"}],
                "stagedAt": NOON,
            },
        ),
        "written-files": (
            "sinks.iceberg_files.WrittenFiles",
            {
                "table": "team.delays",
                "tableUuid": "4f1c",
                "files": [{"path": "s3://bucket/t/x.parquet", "specId": 0, "rows": 20, "sizeBytes": 9}],
            },
        ),
        "marker": ("sinks.marker.Marker", {"generation": 3, "batchId": 12, "epoch": 7}),
    },
    "801e597": {
        "prepared": (
            "contract.prepared.PreparedRecord",
            {
                "job": "team/flights",
                "queryUid": "delays",
                "uid": "out",
                "sink": "FilesSink",
                "generation": 3,
                "batchId": 12,
                "epoch": 7,
                "preparedAt": NOON,
                "transaction": '{"formatVersion":1,"files":[]}',
            },
        ),
        "prepared-files": ("sinks.files.PreparedFiles", {"files": [PART]}),
    },
    "912f2c5": {"output": ("contract.prepared.OutputRecord", {"sink": "out", "batchId": 12, "epoch": 7})},
    "13257c0": {
        "lineage": (
            "contract.manifest.LineageRecord",
            {"number": 1, "lineage": LINEAGE, "root": ROOT, "createdAt": NOON, "epoch": 7, "adoptsUnnamed": False},
        ),
        "folder-owner": (
            "sinks.files_commits.FolderOwner",
            {"sink": "statefulspark/team/flights/delays/out", "marker": {"generation": 3, "batchId": 12, "epoch": 7}},
        ),
    },
    "3e85ce8": {"beginning": ("contract.notes.BeginningNote", {"generation": 1, "epoch": 1, "notedAt": NOON})},
    "d46fb19": {
        "unchanged": ("contract.prepared.UnchangedRecord", {"record": "operator-state/alerts/00000011-00000007.json"})
    },
    "d61346f": {"savepoint-writer": ("contract.notes.SavepointWriter", {"root": ROOT, "epoch": 7})},
}


def main(commit: str) -> None:
    """Write the files of one commit."""
    for name, (path, values) in TABLE[commit].items():
        module, _, kind = path.rpartition(".")
        model = getattr(importlib.import_module(f"{MODULES}{module}"), kind)
        document = model.model_validate(values)
        write: Callable[[], bytes] = getattr(document, "sealed", lambda: document.to_json().encode())  # noqa: B023
        reader = {"commit": commit, "reads": versions(model), "schema": model.model_json_schema(by_alias=True)}
        create(f"{name}-{commit}.json", write())
        create(f"{name}-{commit}.reader.json", json.dumps(reader, indent=1).encode() + b"\n")


def versions(model: Any) -> list[int]:
    """Return the versions that the commit reads: its kind's own, or of the one number that served every document."""
    if hasattr(model, "FORMAT"):
        return list(model.FORMAT.reads)
    newest: int = importlib.import_module(f"{MODULES}contract.base").FORMAT_VERSION
    return list(range(1, newest + 1))


def create(name: str, body: bytes) -> None:
    """Write a file unless it is there."""
    path = HERE / name
    if not path.exists():
        path.write_bytes(body)


if __name__ == "__main__":
    main(sys.argv[1])
