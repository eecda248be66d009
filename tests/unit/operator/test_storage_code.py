"""Code on storage is downloaded once between its check and the copy that is kept, and never handed to another job."""

from __future__ import annotations

import hashlib

import pytest
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.testing import stores
from statefulspark_operator.api.code import ObjectCode
from statefulspark_operator.cluster.storage_code import CodeCopies, CodePlace

BODY = b"print(1)\n"
URI = "s3://bucket/code/flights.py"
SOURCE = ObjectCode(uri=URI, sha256=hashlib.sha256(BODY).hexdigest())


class Bucket:
    """A bucket with code in it, whose downloads are counted."""

    def __init__(self) -> None:
        held = stores.MemoryStore("s3://bucket")
        held.write("code/flights.py", BODY)
        self.store = stores.FaultyStore(held, stores.Plan(only=frozenset({"read"})))

    def of_job(self, job: str) -> CodePlace:
        root = self.store.child(layout.job_prefix("demo", job))
        return CodePlace(root, lambda uri: self.store.child(uri.removeprefix("s3://bucket/")))

    @property
    def downloads(self) -> list[str]:
        return [operation.key for operation in self.store.operations]


def kept(where: CodePlace) -> bytes:
    return where.root.read(layout.code(SOURCE.sha256, SOURCE.name))


def test_code_that_is_checked_and_then_kept_is_downloaded_once() -> None:
    bucket, copies = Bucket(), CodeCopies()
    where = bucket.of_job("flights")

    copies.check(where, SOURCE, "flights.py")
    copies.keep(where, SOURCE)

    assert bucket.downloads == ["code/flights.py"]
    assert kept(where) == BODY


def test_what_was_kept_is_remembered_no_longer() -> None:
    bucket, copies = Bucket(), CodeCopies()
    where = bucket.of_job("flights")
    copies.check(where, SOURCE, "flights.py")
    copies.keep(where, SOURCE)
    where.root.delete_many([layout.code(SOURCE.sha256, SOURCE.name)])

    copies.keep(where, SOURCE)

    assert bucket.downloads == ["code/flights.py", "code/flights.py"]


def test_code_of_a_job_that_came_between_is_read_again() -> None:
    bucket, copies = Bucket(), CodeCopies()
    copies.check(bucket.of_job("flights"), SOURCE, "flights.py")
    copies.check(bucket.of_job("words"), SOURCE, "flights.py")

    copies.keep(bucket.of_job("flights"), SOURCE)

    assert len(bucket.downloads) == 3
    assert kept(bucket.of_job("flights")) == BODY


def test_a_job_gets_nothing_that_only_another_ones_credentials_have_read() -> None:
    bucket, copies = Bucket(), CodeCopies()
    copies.check(bucket.of_job("flights"), SOURCE, "flights.py")
    bucket.store.delete_many(["code/flights.py"])

    with pytest.raises(errors.SpecRejectedError, match="CodeMissing"):
        copies.keep(bucket.of_job("words"), SOURCE)


def test_another_address_with_the_same_content_is_read() -> None:
    bucket, copies = Bucket(), CodeCopies()
    where = bucket.of_job("flights")
    copies.check(where, SOURCE, "flights.py")

    with pytest.raises(errors.SpecRejectedError, match="CodeMissing"):
        copies.keep(where, SOURCE.model_copy(update={"uri": "s3://bucket/elsewhere/flights.py"}))


def test_what_was_refused_is_not_kept() -> None:
    bucket, copies = Bucket(), CodeCopies()
    where = bucket.of_job("flights")
    bucket.store.wrapped.write("code/flights.py", b"print(2)\n")

    with pytest.raises(errors.SpecRejectedError, match="CodeChecksumMismatch"):
        copies.check(where, SOURCE, "flights.py")
    with pytest.raises(errors.SpecRejectedError, match="CodeChecksumMismatch"):
        copies.keep(where, SOURCE)
