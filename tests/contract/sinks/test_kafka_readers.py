"""How long readers of committed data stand still behind a driver that died in a commit, and a batch that takes long to send.

Other producers' records stand behind the open transaction of the dead driver in the same partition, and are seen no sooner.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta

import processes
import pytest
import sinkworlds
from confluent_kafka import Producer
from kafkabroker import Broker
from s3server import S3Server
from sinkworlds import Drivers, World
from statefulspark import errors
from statefulspark.sinks import marker
from statefulspark.sinks.kafka import session as kafka_session

IDS = [1, 2]
SOMEBODY_ELSES = 77


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    with processes.serving(Drivers(tmp_path_factory.mktemp("drivers"))) as started:
        yield started


@pytest.fixture
def world(kafka: Broker, s3: S3Server) -> World:
    return sinkworlds.kafka_world(kafka, s3)


def with_timeout(world: World, timeout: timedelta | None) -> Mapping[str, object]:
    options = {} if timeout is None else {"transaction.timeout.ms": str(timeout // timedelta(milliseconds=1))}
    return {**world.recipe, "options": options}


def die_in_commit(world: World, drivers: Drivers, prepared: bytes, timeout: timedelta | None = None) -> None:
    """Have a driver send batch 0 and die before its transaction is committed; then somebody else writes to the topic."""
    steps = [{"open": 1}, {"kill": "commit_transaction", "when": "before"}, {"commit": prepared}]
    assert not drivers.fork(with_timeout(world, timeout), world.at(0), steps).last_word()
    other = Producer({"bootstrap.servers": str(world.recipe["bootstrap_servers"]), "log_level": 0})
    for partition in (0, 1):
        other.produce(str(world.recipe["topic"]), b'{"id": %d}' % SOMEBODY_ELSES, partition=partition)
    assert other.flush(30) == 0


def see_everything(world: World, kafka: Broker) -> None:
    """Wait until readers see what the other producer has written."""
    kafka.wait_until(lambda: world.read().count(SOMEBODY_ELSES) == 2, "readers see everything", 60)


def test_readers_go_on_when_the_time_of_the_dead_drivers_transaction_is_over(
    world: World, kafka: Broker, drivers: Drivers
) -> None:
    """The default is a minute; the broker looks for such transactions every half second here, every ten by default."""
    began_s = time.monotonic()
    die_in_commit(world, drivers, world.prepared(world.at(0), IDS), timedelta(seconds=4))
    see_everything(world, kafka)
    assert 4 <= time.monotonic() - began_s < kafka_session.TRANSACTION_TIMEOUT.total_seconds() / 2


def test_the_next_driver_lets_readers_go_on_as_soon_as_it_opens_the_sink(
    world: World, kafka: Broker, drivers: Drivers
) -> None:
    prepared = world.prepared(world.at(0), IDS)
    die_in_commit(world, drivers, prepared)
    began_s = time.monotonic()
    world.sink.open(world.at(0, epoch=2))
    see_everything(world, kafka)
    took_s = time.monotonic() - began_s
    world.sink.commit(prepared, world.at(0, epoch=2))
    assert took_s < kafka_session.TRANSACTION_TIMEOUT.total_seconds() / 2
    assert world.read() == [*IDS, SOMEBODY_ELSES, SOMEBODY_ELSES]


def test_a_driver_that_stands_still_for_longer_sends_the_batch_again_and_it_is_there_once(
    world: World, kafka: Broker, drivers: Drivers
) -> None:
    prepared = world.prepared(world.at(0), IDS)
    steps = [{"open": 1}, {"stop": "send_offsets_to_transaction", "when": "before"}, {"commit": prepared}]
    # The second attempt has to end within this time, also on a busy machine.
    still = drivers.fork(with_timeout(world, timedelta(seconds=12)), world.at(0), steps)
    with still.standing_still():
        kafka.wait_until(lambda: len(kafka.read(str(world.recipe["topic"]), committed_only=False)) == 2, "sent", 30)
        time.sleep(15)
    assert (still.last_word(), world.read()) == ("done", IDS)


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each transaction with rows take longer than the time that it is given at first."""
    send_marker = kafka_session.Session._send_marker

    def send(session: kafka_session.Session, after: marker.Marker, action: str) -> None:
        if action.startswith("commit"):
            time.sleep(3)
        send_marker(session, after, action)

    monkeypatch.setattr(kafka_session, "TRANSACTION_TIMEOUT", timedelta(seconds=1))
    monkeypatch.setattr(kafka_session.Session, "_send_marker", send)


@pytest.mark.usefixtures("slowly")
def test_a_batch_that_takes_longer_than_a_transaction_may_is_given_more_time_and_so_are_those_after_it(
    world: World, kafka: Broker
) -> None:
    world.sink.open(world.at(0))
    world.sink.commit(world.prepared(world.at(0), IDS), world.at(0))
    world.sink.commit(world.prepared(world.at(1), [3, 4]), world.at(1))
    sent = kafka.read(str(world.recipe["topic"]), committed_only=False)
    assert (world.read(), len(sent)) == ([1, 2, 3, 4], 6)


@pytest.mark.usefixtures("slowly")
def test_a_batch_that_takes_longer_than_the_user_allows_says_which_option_to_change(world: World) -> None:
    sink = sinkworlds.build(with_timeout(world, timedelta(seconds=1)))
    sink.open(world.at(0))
    with pytest.raises(
        errors.TransientError, match=r"KafkaUnavailable.* commit batch 0 .* after transaction\.timeout\.ms=1000\. Give"
    ):
        sink.commit(world.prepared(world.at(0), IDS), world.at(0))
    assert world.read() == []
