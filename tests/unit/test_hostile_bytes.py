"""Hostile bytes: each reader of storage and network answers or refuses in its own words; `make fuzz` looks for longer."""

from __future__ import annotations

import pytest
from fuzzing import mutations, targets

MUTANTS = 400
BY_NAME = {target.name: target for target in targets.TARGETS}


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_well_formed_is_read(name: str) -> None:
    for body in BY_NAME[name].seeds:
        BY_NAME[name].read(body)


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_almost_so_is_read_or_refused(name: str) -> None:
    target = BY_NAME[name]

    for body in mutations.mutants(target.seeds, MUTANTS, seed=7):
        _read(target, body)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chunk of keyed state that fits its checksum", b"SSC\x01\xb8\x0b\x00\x00\x00\x00\x00\x00" + b"\x91" * 3000),
        ("head of a key group", b""),
        ("head of a key group", b"\x91" * 3000),
        ("entry of Spark's offset log", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"\xc2\xb2"}}\n-'),
        ("entry of Spark's offset log", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"' + b"9" * 5000 + b'"}}\n-'),
        ("entry of Spark's offset log", b"v1\n{}\n" + b"[" * 100_000),
        ("snapshot of Spark's state", targets.an_archive("../../../../tmp/statefulspark/__init__.py")),
        ("snapshot of Spark's state", targets.an_archive("000012.sst\\0/../x.sst")),
        ("offset of a source", b"[" * 100_000),
        ("offset of a source", b"9" * 5000),
        ("offsets of Kafka", b'{"clicks":[1]}'),
        ("offsets of Kafka", b'{"clicks":{"0":"many"}}'),
    ],
)
def test_input_that_was_once_a_crash_is_refused(name: str, body: bytes) -> None:
    _read(BY_NAME[name], body)


def _read(target: targets.Target, body: bytes) -> None:
    try:
        target.read(body)
    except target.refusals:
        return
    except Exception as error:
        raise AssertionError(f"{target.name}: {type(error).__name__} instead of a refusal, of {body!r}") from error
