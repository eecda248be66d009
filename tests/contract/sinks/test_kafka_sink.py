"""What is the Kafka sink's own: refusals before anything is sent, keys and headers, and a marker that brokers forgot."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import kafkabroker
import processes
import pyarrow as pa
import pytest
import sinkworlds
from kafkabroker import Broker
from machines import kafka_sink
from s3server import S3Server
from sinkcontexts import a_marker, at
from sinkworlds import World
from statefulspark import errors, storage
from statefulspark.sinks import base
from statefulspark.sinks.kafka import records as kafka_rows
from statefulspark.sinks.kafka import session as kafka_session
from statefulspark.sinks.kafka import sink as sink_module
from statefulspark.sinks.kafka.sink import KafkaMachine
from statefulspark.sinks.marker import Marker
from statefulspark.sinks.secret import Secret


@pytest.fixture
def world(kafka: Broker, s3: S3Server) -> World:
    return sinkworlds.kafka_world(kafka, s3)


def test_a_missing_topic_is_refused_when_the_sink_is_opened(world: World, kafka: Broker) -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"The topic nowhere does not exist at 127.0.0.1"):
        kafka_sink("nowhere", bootstrap_servers=kafka.servers).open(world.at(0))


def test_a_topic_that_appears_while_the_sink_is_opened_is_found(world: World, kafka: Broker) -> None:
    topic = f"late-{uuid.uuid4().hex}"
    creation = threading.Timer(1.5, kafka.create, [topic])
    creation.start()
    kafka_sink(topic, bootstrap_servers=kafka.servers).open(world.at(0))
    creation.join()


def test_a_topic_may_have_capitals_dots_underscores_and_dashes_and_249_characters(world: World, kafka: Broker) -> None:
    topic = f"Shop.clicks_by-{uuid.uuid4().hex}.".ljust(249, "X")
    kafka.create(topic)
    sink = kafka_sink(topic, bootstrap_servers=kafka.servers)
    part = sink.write_part(iter([pa.RecordBatch.from_pydict({"value": [b"small"], "key": ["a"]})]), world.at(0))
    assert part is not None
    prepared = sink.prepare((part,), world.at(0))
    assert prepared is not None
    sink.open(world.at(0))
    sink.commit(prepared, world.at(0))
    assert kafka.read(topic) == [(b"a", b"small")]


def test_an_unreachable_broker_is_a_failure_that_may_pass(world: World) -> None:
    sink = kafka_sink("clicks", bootstrap_servers="127.0.0.1:1", options={"socket.timeout.ms": "500"})
    with pytest.raises(errors.TransientError, match=r"KafkaUnavailable.*topic clicks at 127.0.0.1:1"):
        sink.open(world.at(0))


def test_an_option_that_the_client_does_not_know_is_refused_by_name(world: World, kafka: Broker) -> None:
    sink = kafka_sink(str(world.recipe["topic"]), bootstrap_servers=kafka.servers, options={"lingr.ms": "5"})
    with pytest.raises(errors.SpecRejectedError, match=r'KafkaRefused.*"lingr\.ms"'):
        sink.open(world.at(0))


def test_a_record_that_the_broker_does_not_take_is_refused_and_leaves_nothing(world: World, kafka: Broker) -> None:
    sink = kafka_sink(
        str(world.recipe["topic"]), bootstrap_servers=kafka.servers, options={"message.max.bytes": "50000000"}
    )
    rows = pa.RecordBatch.from_pydict({"value": [b"small", os.urandom(3_000_000)], "key": ["a", "b"]})
    part = sink.write_part(iter([rows]), world.at(0))
    assert part is not None
    prepared = sink.prepare((part,), world.at(0))
    assert prepared is not None
    sink.open(world.at(0))
    with pytest.raises(errors.SpecRejectedError, match="KafkaRefused"):
        sink.commit(prepared, world.at(0))
    assert kafka.read(str(world.recipe["topic"])) == []


def test_a_broker_that_goes_before_the_marker_holds_up_no_driver_and_the_batch_is_there_once(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client waits without end for the marker's coordinator, whatever timeout it was given."""
    with kafkabroker.running(tmp_path) as broker:
        world = sinkworlds.kafka_world(broker, s3)
        first, second = world.prepared(world.at(0), [1, 2]), world.prepared(world.at(1), [3, 4])
        sink = world.sink
        sink.open(world.at(0))
        sink.commit(first, world.at(0))
        ask_in_time = kafka_session._within

        def go_before(limit_s: float, call: Callable[[], object]) -> object:
            broker.stop()
            return ask_in_time(limit_s, call)

        with monkeypatch.context() as patched:
            patched.setattr(kafka_session, "_within", go_before)
            patched.setattr(kafka_session, "_COMMIT_TIMEOUT_S", 1.0)
            patched.setattr(kafka_session, "_GRACE_S", 1.0)
            patched.setattr(kafka_session, "_LOOKUP_TIMEOUT_S", 1.0)
            with pytest.raises(
                errors.TransientError, match=r"KafkaUnavailable.* commit batch 1 .*no answer within 2 s"
            ):
                sink.commit(second, world.at(1))
        broker.start()
        sink.commit(second, world.at(1))

        assert sorted(world.read()) == [1, 2, 3, 4]


def sasl(password: str | Secret) -> dict[str, str | Secret]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "writer",
        "sasl.password": password,
    }


def test_a_wrong_password_is_named_as_such_and_not_shown(world: World, kafka: Broker, kafka_topic: str) -> None:
    sink = kafka_sink(kafka_topic, bootstrap_servers=kafka.sasl_servers, options=sasl("hunter2"))
    with pytest.raises(errors.SpecRejectedError, match="KafkaAccessDenied") as refused:
        sink.open(world.at(0))
    assert "hunter2" not in str(refused.value)


def test_a_password_in_a_file_is_read_again(world: World, kafka: Broker, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")
    sink = kafka_sink(
        str(world.recipe["topic"]),
        bootstrap_servers=kafka.sasl_servers,
        serializer=world_serializer(world),
        options=sasl(Secret.file(str(password))),
    )
    with pytest.raises(
        errors.CredentialsRefusedError, match=r"KafkaAccessDenied.*password is read again for 3 minutes"
    ):
        sink.open(world.at(0))
    password.write_text("right")
    sink.open(world.at(0))


def test_a_transaction_that_may_take_longer_than_the_broker_allows_is_refused_with_both_limits(
    world: World, kafka: Broker
) -> None:
    sink = kafka_sink(
        str(world.recipe["topic"]), bootstrap_servers=kafka.servers, options={"transaction.timeout.ms": "1000000"}
    )
    with pytest.raises(errors.SpecRejectedError, match=r"KafkaRefused.*is 1000000, .*transaction\.max\.timeout\.ms"):
        sink.open(world.at(0))


def test_a_record_that_the_topic_does_not_take_is_refused_with_what_to_change(world: World, kafka: Broker) -> None:
    topic = kafka.new_topic(settings={"cleanup.policy": "compact"})
    sink = kafka_sink(topic, bootstrap_servers=kafka.servers)
    part = sink.write_part(iter([pa.RecordBatch.from_pydict({"value": ["no key"]})]), world.at(0))
    assert part is not None
    prepared = sink.prepare((part,), world.at(0))
    assert prepared is not None
    sink.open(world.at(0))
    with pytest.raises(errors.SpecRejectedError, match=r"KafkaRefused.*if it is compacted"):
        sink.commit(prepared, world.at(0))


def test_a_topic_that_brokers_do_not_know_any_more_is_waited_for(
    world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = str(world.recipe["topic"])
    options = {"topic.metadata.propagation.max.ms": "500", "topic.metadata.refresh.interval.ms": "200"}
    sink = kafka_sink(
        topic,
        bootstrap_servers=kafka.servers,
        serializer=world_serializer(world),
        options={**options, "message.timeout.ms": "3000"},
    )
    prepared = world.prepared(world.at(0), [1, 2])
    sink.open(world.at(0))
    kafka.delete(topic)
    monkeypatch.setattr(kafka_session, "_COMMIT_TIMEOUT_S", 5.0)
    for _ in range(2):
        with pytest.raises(errors.TransientError, match="KafkaUnavailable"):
            sink.commit(prepared, world.at(0))
    kafka.create(topic)
    sink.commit(prepared, world.at(0))
    assert world.read() == [1, 2]


def test_a_password_from_the_environment_is_used(world: World, kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "right")
    sink = kafka_sink(
        str(world.recipe["topic"]),
        bootstrap_servers=kafka.sasl_servers,
        serializer=world_serializer(world),
        options=sasl(Secret.env("KAFKA_PASSWORD")),
    )
    sink.open(world.at(0))
    sink.commit(world.prepared(world.at(0), [1, 2]), world.at(0))
    assert world.read() == [1, 2]


def world_serializer(world: World) -> kafka_rows.Serializer | None:
    sink = world.sink
    assert isinstance(sink, KafkaMachine)
    return sink.settings.serializer


def test_keys_values_and_tombstones_arrive_as_the_columns_have_them(
    world: World, kafka: Broker, kafka_topic: str
) -> None:
    sink = kafka_sink(kafka_topic, bootstrap_servers=kafka.servers)
    rows = pa.RecordBatch.from_pydict(
        {"key": ["a", "b", None], "value": ["1", None, "3"], "partition": pa.array([0, 0, 1], pa.int32())}
    )
    part = sink.write_part(iter([rows]), world.at(0))
    assert part is not None
    prepared = sink.prepare((part,), world.at(0))
    assert prepared is not None
    sink.open(world.at(0))
    sink.commit(prepared, world.at(0))
    assert kafka.read(kafka_topic) == [(b"a", b"1"), (b"b", None), (None, b"3")]


def test_a_transaction_that_died_is_never_seen_by_readers_of_committed_data_and_is_by_others(
    world: World, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Shows that the kill happened inside the transaction: the rows had reached the broker."""
    context = world.at(0)
    prepared = world.prepared(context, [1, 2])
    steps: list[dict[str, object]] = [
        {"open": 1},
        {"kill": "commit_transaction", "when": "before"},
        {"commit": prepared},
    ]
    with processes.serving(sinkworlds.Drivers(tmp_path_factory.mktemp("drivers"))) as drivers:
        drivers.fork(world.recipe, context, steps).last_word()
    world.sink.open(world.at(0, epoch=2))
    topic = str(world.recipe["topic"])
    assert (len(kafka.read(topic, committed_only=False)), kafka.read(topic)) == (2, [])


class TestALostMarker:
    """The brokers have forgotten the group's offsets, as they do when a job was away for longer than they keep them."""

    @pytest.fixture
    def left(self, world: World, kafka: Broker) -> tuple[World, bytes]:
        """Return a world whose job committed batch 0, prepared batch 1, and was away."""
        world.sink.open(world.at(0))
        world.sink.commit(world.prepared(world.at(0), [1, 2]), world.at(0))
        prepared = world.prepared(world.at(1), [3, 4])
        kafka.delete_group(f"{world.context.transactional_id}/marker")
        return world, prepared

    def sink(self, world: World, **settings: object) -> base.TwoPhaseSink:
        return sinkworlds.build({**world.recipe, **settings})

    def test_does_not_bring_back_what_the_note_on_storage_says_is_committed(self, left: tuple[World, bytes]) -> None:
        world, prepared = left
        repeated = world.prepared(world.at(0), [1, 2])
        world.sink.open(world.at(1, epoch=2))
        world.sink.commit(repeated, world.at(0, epoch=2))
        world.sink.commit(prepared, world.at(1, epoch=2))
        assert world.read() == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [pytest.param("commit", [1, 2, 3, 4], id="commit"), pytest.param("skip", [1, 2], id="skip")],
    )
    def test_leaves_a_batch_in_doubt_that_the_policy_decides(
        self, left: tuple[World, bytes], policy: str, expected: list[int]
    ) -> None:
        world, prepared = left
        in_doubt = {"offsets_kept": timedelta(0)}
        world.sink.open(world.at(1, epoch=2))
        with pytest.raises(errors.StateUnknownError, match=r"KafkaMarkerLost: Batch 1 .*\(2 rows, staged at .*'skip'"):
            self.sink(world, **in_doubt).commit(prepared, world.at(1, epoch=2))
        self.sink(world, **in_doubt, after_lost_marker=policy).commit(prepared, world.at(1, epoch=2))
        assert world.read() == expected

    def test_stays_in_doubt_over_a_restart(self, left: tuple[World, bytes]) -> None:
        world, prepared = left
        world.sink.open(world.at(1, epoch=2))
        world.sink.open(world.at(1, epoch=3))
        with pytest.raises(errors.StateUnknownError, match="KafkaMarkerLost"):
            self.sink(world, offsets_kept=timedelta(0)).commit(prepared, world.at(1, epoch=3))


def test_a_marker_that_somebody_else_wrote_is_never_guessed_at(world: World, kafka: Broker) -> None:
    from confluent_kafka import Consumer, TopicPartition

    group = f"{world.context.transactional_id}/marker"
    stranger = Consumer({"bootstrap.servers": kafka.servers, "group.id": group, "log_level": 0})
    stranger.commit(offsets=[TopicPartition(str(world.recipe["topic"]), 0, 7)], asynchronous=False)
    stranger.close()
    with pytest.raises(errors.StateUnknownError, match="KafkaMarkerUnreadable"):
        world.sink.open(world.at(0))


def test_the_note_on_storage_follows_each_commit(world: World) -> None:
    world.sink.open(world.at(0))
    world.sink.commit(world.prepared(world.at(0), [1]), world.at(0))
    store = storage.open_store(world.context.notes_uri, world.context.options)
    assert Marker.parse(store.read(sink_module.NOTE), sink_module.NOTE) == a_marker(at(1, 0))


def _murmur2(data: bytes) -> int:
    """The hash of Kafka's Java client (`Utils.murmur2`), as an unsigned number of 32 bits."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * factor & mask
        hashed = (hashed * factor ^ (word ^ word >> 24) * factor) & mask
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return hashed ^ hashed >> 15


def test_a_key_goes_to_the_partition_where_java_clients_put_it(world: World, kafka: Broker) -> None:
    assert _murmur2(b"foobar") == -790332482 % 2**32  # Kafka's own test has this number
    keys = [f"k{number}".encode() for number in range(100)]
    by_itself, by_hash = kafka.new_topic(partitions=12), kafka.new_topic(partitions=12)
    partitions = pa.array([(_murmur2(key) & 0x7FFFFFFF) % 12 for key in keys], pa.int32())
    for batch, (topic, extra) in enumerate(((by_itself, {}), (by_hash, {"partition": partitions}))):
        sink, context = kafka_sink(topic, bootstrap_servers=kafka.servers), world.at(batch)
        part = sink.write_part(iter([pa.RecordBatch.from_pydict({"value": keys, "key": keys, **extra})]), context)
        assert part is not None
        prepared = sink.prepare((part,), context)
        assert prepared is not None
        sink.open(context)
        sink.commit(prepared, context)
    assert len(kafka.read(by_itself)) == len(keys)
    assert kafka.read(by_itself) == kafka.read(by_hash)
