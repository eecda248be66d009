"""A file of a checkpoint appears whole or not at all, and every failure to write it reaches the writer."""

from __future__ import annotations

from pathlib import Path

import lossyproxy
import pytest
import s3server
import sparksession
import streams
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from statefulspark import storage
from statefulspark.storage import ObjectStore, StorageOptions

pytestmark = [pytest.mark.spark, pytest.mark.s3]


class Place:
    """A folder that a checkpoint manager writes to, and a store that looks at it from outside."""

    def __init__(self, manager: JavaObject, store: ObjectStore, location: str, spark: SparkSession) -> None:
        self.manager = manager
        self.store = store
        self._location = location
        self._spark = spark

    def path(self, name: str) -> JavaObject:
        return self._spark._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}")

    def start(self, name: str, body: bytes, *, overwrite: bool = False) -> JavaObject:
        out = self.manager.createAtomic(self.path(name), overwrite)
        out.write(bytearray(body))
        return out


@pytest.fixture(params=["s3a", "file"])
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Place:
    if request.param == "file":
        location = f"file://{tmp_path}/q"
        store = storage.open_store(location, StorageOptions(allow_local_files=True))
        return Place(streams.checkpoint_manager(spark, location, {}), store, location, spark)
    server = request.getfixturevalue("s3")
    return _s3_place(spark, server, server.endpoint)


def _s3_place(spark: SparkSession, server: s3server.S3Server, endpoint: str) -> Place:
    bucket = server.new_bucket()
    location = f"s3a://{bucket}/q"
    manager = streams.checkpoint_manager(spark, location, sparksession.s3a_settings(endpoint))
    return Place(manager, storage.open_store(f"s3://{bucket}/q", server.options()), location, spark)


@pytest.mark.parametrize("name", ["offsets/0", "metadata", "state/0/0/1.changelog"])
def test_a_file_is_there_only_after_close(place: Place, name: str) -> None:
    out = place.start(name, b"body")
    before = place.store.list("")
    out.close()

    assert before == () or [info.key.rpartition("/")[2][0] for info in before] == ["."]
    assert [(info.key, info.size_bytes) for info in place.store.list("")] == [(name, 4)]
    assert place.manager.exists(place.path(name))


def test_a_file_that_is_written_once_tells_its_checksum(spark: SparkSession, s3: s3server.S3Server) -> None:
    """It is the only thing that vouches for a log entry before a checkpoint does; a very large one has none."""
    place = _s3_place(spark, s3, s3.endpoint)
    for name, body in (("offsets/0", b"body"), ("metadata", b""), ("sources/0/9.compact", bytes(2**20 + 1))):
        place.start(name, body).close()
    place.start("state/0/0/1.changelog", b"body", overwrite=True).close()

    told = {info.key: found.crc32 for info in place.store.list("") if (found := place.store.info(info.key))}

    assert told == {
        "offsets/0": "dba80bb2",
        "metadata": "00000000",
        "sources/0/9.compact": None,
        "state/0/0/1.changelog": None,
    }


def test_a_file_that_is_written_once_tells_the_claim_of_its_driver(spark: SparkSession, s3: s3server.S3Server) -> None:
    place, fence = _s3_place(spark, s3, s3.endpoint), streams.fence(spark)
    fence.sign("c0ffee")
    place.start("offsets/0", b"body").close()
    fence.disable()
    place.start("offsets/1", b"body").close()

    told = {info.key: found.claim for info in place.store.list("") if (found := place.store.info(info.key))}

    assert told == {"offsets/0": "c0ffee", "offsets/1": None}


def test_a_cancelled_file_never_appears(place: Place) -> None:
    out = place.start("offsets/0", b"body")

    out.cancel()
    out.close()

    assert place.store.list("") == ()
    assert not place.manager.exists(place.path("offsets/0"))


def test_a_taken_name_is_refused_and_left_alone(place: Place) -> None:
    place.start("commits/0", b"first").close()

    with pytest.raises(Py4JJavaError, match=r"FileAlreadyExistsException.*another writer"):
        place.start("commits/0", b"second").close()

    assert place.store.read("commits/0") == b"first"


def test_what_may_be_overwritten_is_replaced_whole(place: Place) -> None:
    place.start("state/x", b"a longer first body", overwrite=True).close()
    place.start("state/x", b"short", overwrite=True).close()

    assert place.store.read("state/x") == b"short"
    assert [info.key for info in place.store.list("")] == ["state/x"]


def test_deleting_what_is_absent_is_fine(place: Place) -> None:
    place.manager.delete(place.path("offsets/7"))

    assert not place.manager.exists(place.path("offsets/7"))


def test_only_local_folders_are_local(place: Place) -> None:
    assert place.manager.isLocal() == place.store.uri.startswith("file:")


@pytest.mark.parametrize("overwrite", [False, True], ids=["create", "replace"])
def test_a_close_that_cannot_reach_the_server_fails(spark: SparkSession, tmp_path: Path, overwrite: bool) -> None:
    with s3server.running(tmp_path) as server:
        place = _s3_place(spark, server, server.endpoint)
        out = place.start("commits/0", b"body", overwrite=overwrite)
        server.stop()

        with pytest.raises(Py4JJavaError, match=r"Connection refused|ConnectException|Unable to execute HTTP request"):
            out.close()

        server.start()
        assert place.store.list("") == ()


def test_a_put_whose_answer_was_lost_is_recognised_as_our_own(spark: SparkSession, s3: s3server.S3Server) -> None:
    with lossyproxy.proxy_to(s3.endpoint) as proxy:
        place = _s3_place(spark, s3, proxy.endpoint)
        out = place.start("commits/0", b"mine")
        proxy.lose_answers("PUT", 1)

        out.close()

    assert place.store.read("commits/0") == b"mine"


def test_a_lost_answer_does_not_hide_that_another_writer_was_first(spark: SparkSession, s3: s3server.S3Server) -> None:
    with lossyproxy.proxy_to(s3.endpoint) as proxy:
        place = _s3_place(spark, s3, proxy.endpoint)
        out = place.start("commits/0", b"same")
        place.store.create("commits/0", b"same")
        proxy.lose_answers("PUT", 1)

        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            out.close()


def test_a_storage_that_cannot_create_on_condition_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError, match=r"cannot create a file on condition .*; use s3a://"):
        streams.checkpoint_manager(spark, "http://127.0.0.1/q", {})
