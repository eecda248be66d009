"""The store of the archive's training run answers a real S3 client, so that the JVM's own finds in it what it asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import training_store
from statefulspark import errors, storage
from statefulspark.storage import ObjectStore, StorageOptions


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with training_store.running() as endpoint:
        options = StorageOptions(endpoint=endpoint, region="us-east-1", access_key="nobody", secret_key="nothing")
        yield storage.open_store("s3://training/job", options)


def test_objects_are_kept_listed_and_deleted(store: ObjectStore) -> None:
    store.write("a/1 & 2", b"one")
    store.write("a/b/3", b"three")
    assert (store.read("a/1 & 2"), store.read("a/b/3")) == (b"one", b"three")
    store.copy_many([("a/1 & 2", "copy")])
    assert store.read("copy") == b"one"
    assert sorted(store.list_names("a")) == ["1 & 2", "b/"]
    assert {info.key for info in store.list("a")} == {"a/1 & 2", "a/b/3"}
    store.delete_many(["a/1 & 2", "a/b/3"])
    assert store.list("a") == ()


def test_what_is_not_there_is_said_to_be_missing(store: ObjectStore) -> None:
    with pytest.raises(errors.ObjectNotFoundError):
        store.read("nothing")


def test_an_object_is_made_once_only(store: ObjectStore) -> None:
    store.create("once", b"first")
    with pytest.raises(errors.ObjectExistsError):
        store.create("once", b"second")
    assert store.read("once") == b"first"


def test_an_upload_in_signed_chunks_arrives_without_the_signatures() -> None:
    sent = b"3;chunk-signature=ab\r\none\r\n2;chunk-signature=cd\r\n23\r\n0;chunk-signature=ef\r\n\r\n"
    assert training_store._without_signatures(sent) == b"one23"
