"""The beginning of what Spark sends to a worker, in the form of each supported release."""

from __future__ import annotations

import io
import json
import struct

import pytest
from statefulspark.sparkinternals import releases, taskheader

PARTITION, KIND = 3, 211
QUERY = {"sql.streaming.queryId": "a query", "other": "é"}


class Reader:
    def __init__(self, body: bytes) -> None:
        self._body = io.BytesIO(body)

    def read(self, layout: struct.Struct) -> int:
        [number] = layout.unpack(self._body.read(layout.size))
        return int(number)

    def text(self) -> str:
        return self._body.read(self.read(struct.Struct("!i"))).decode()


def an_int(*numbers: int) -> bytes:
    return struct.pack(f"!{len(numbers)}i", *numbers)


def a_text(*texts: str) -> bytes:
    return b"".join(an_int(len(text.encode())) + text.encode() for text in texts)


def a_context(release: releases.Release, *, is_barrier: bool = False) -> bytes:
    if release >= (4, 2):
        return a_text(json.dumps({"isBarrier": is_barrier, "localProperties": QUERY}))
    ids = an_int(7, PARTITION, 0) + struct.pack("!q", 12) + an_int(1)
    resources = an_int(1) + a_text("gpu", "gpu") + an_int(2) + a_text("0", "1")
    properties = an_int(len(QUERY)) + b"".join(a_text(*pair) for pair in QUERY.items())
    return struct.pack("!?", is_barrier) + ids + resources + properties


def a_header(release: releases.Release, *, is_encrypted: bool = False) -> bytes:
    files = a_text("/folder") + an_int(1) + a_text("a.zip")
    variables = struct.pack("!?", is_encrypted) + an_int(2) + struct.pack("!q", 5) + a_text("/variable")
    variables += struct.pack("!q", -4)  # it is dropped
    body = an_int(PARTITION) + a_text("3.11") + a_context(release) + files + variables + an_int(KIND)
    return an_int(-9, len(body)) + body if release >= (4, 3) else body


@pytest.fixture(params=releases.SUPPORTED, ids=releases.text)
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> releases.Release:
    major, minor = request.param
    monkeypatch.setattr(releases, "version", lambda: f"{major}.{minor}.0")
    return major, minor


def test_a_task_is_read_up_to_the_kind_of_its_function(release: releases.Release) -> None:
    reader = Reader(a_header(release))
    assert taskheader.read_partition(reader) == PARTITION
    assert taskheader.read_local_properties(reader) == QUERY
    assert taskheader.read_kind_of_function(reader) == KIND


def test_encrypted_variables_hide_the_kind_of_a_function(release: releases.Release) -> None:
    reader = Reader(a_header(release, is_encrypted=True))
    taskheader.read_partition(reader)
    taskheader.read_local_properties(reader)
    assert taskheader.read_kind_of_function(reader) is None


def test_a_barrier_stage_of_an_old_release_has_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "version", lambda: "4.1.4")
    assert taskheader.read_local_properties(Reader(a_context((4, 1), is_barrier=True))) is None
