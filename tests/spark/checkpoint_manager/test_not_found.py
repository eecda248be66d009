"""The 404 of a proxy that has lost the store behind it is no absence, of no file of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lossyproxy
import pytest
import s3server
import sparksession
import streams
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from statefulspark import storage

pytestmark = [pytest.mark.spark, pytest.mark.s3]
_STATE = "state/0/0/7_2b1c.changelog"
_FOLDER = "state/0/0"
OPERATIONS: dict[str, Callable[[JavaObject, Callable[[str], JavaObject]], object]] = {
    "exists": lambda manager, path: manager.exists(path(_STATE)),
    "exists in a log": lambda manager, path: manager.exists(path("commits/7")),
    "open": lambda manager, path: manager.open(path(_STATE)),
    "list": lambda manager, path: manager.list(path(_FOLDER)),
}
each_operation = pytest.mark.parametrize("act", OPERATIONS.values(), ids=OPERATIONS)


class Place:
    """A checkpoint behind a proxy."""

    def __init__(self, spark: SparkSession, s3: s3server.S3Server, proxy: lossyproxy.LossyProxy) -> None:
        self._spark, self.proxy = spark, proxy
        self._location = f"s3a://{s3.new_bucket()}/q"
        self.store = storage.open_store(self._location, s3.options())
        self.manager = streams.checkpoint_manager(spark, self._location, sparksession.s3a_settings(proxy.endpoint))
        for key in (_STATE, "commits/7"):
            self.store.write(key, b"v1")

    def path(self, name: str) -> JavaObject:
        return self._spark._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}")


@pytest.fixture
def place(spark: SparkSession, s3: s3server.S3Server) -> Iterator[Place]:
    with lossyproxy.proxy_to(s3.endpoint) as proxy:
        yield Place(spark, s3, proxy)


@each_operation
def test_a_file_is_not_absent_because_a_proxy_has_lost_the_store(
    place: Place, act: Callable[[JavaObject, Callable[[str], JavaObject]], object]
) -> None:
    place.proxy.has_lost_the_store = frozenset(["GET", "HEAD"])

    with pytest.raises(Py4JJavaError, match="answered 404; check the proxy or ingress") as caught:
        act(place.manager, place.path)

    assert "FileNotFoundException" not in str(caught.value)


@each_operation
def test_a_file_is_there_again_with_the_store(
    place: Place, act: Callable[[JavaObject, Callable[[str], JavaObject]], object]
) -> None:
    place.proxy.has_lost_the_store = frozenset(["GET", "HEAD"])
    with pytest.raises(Py4JJavaError):
        act(place.manager, place.path)
    place.proxy.has_lost_the_store = frozenset()

    assert act(place.manager, place.path)


def test_what_the_store_itself_calls_absent_is_absent(place: Place) -> None:
    assert not place.manager.exists(place.path("commits/8"))
    assert not place.manager.exists(place.path("state/0/0/8_77ac.changelog"))
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        place.manager.open(place.path("state/0/0/8_77ac.changelog"))


def test_a_driver_does_not_write_while_a_proxy_hides_whether_it_was_replaced(place: Place) -> None:
    overwrite_if_possible = False
    out = place.manager.createAtomic(place.path("commits/8"), overwrite_if_possible)
    out.write(bytearray(b"v1"))
    streams.fence(place._spark).configure(str(place.path("epochs/00000008.json")))
    place.proxy.has_lost_the_store = frozenset(["HEAD"])
    try:
        with pytest.raises(Py4JJavaError, match="Could not find out whether a newer driver owns the job"):
            out.close()
    finally:
        streams.fence(place._spark).disable()

    assert place.store.info("commits/8") is None
