"""A real Kafka broker for tests: one KRaft node on free loopback ports, over a folder of its own, ended by its process id.

Fixtures: `kafka` is one broker for the whole run, `kafka_topic` a new topic in it with two partitions.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import certificates
import processes
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

JARS = Path(__file__).resolve().parents[2] / "build" / "kafka"
_CLUSTER_ID = "c3RhdGVmdWxzcGFyay10ZQ"
_JAVA = ["java", "-Xms128m", "-Xmx384m", *processes.SHORT_LIVED.split(), "-cp", f"{JARS}/*"]
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    # How often the broker looks for transactions whose time is over; ten seconds by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_writer="right";',
    "listener.name.tls.ssl.client.auth": "required",
    "listener.name.tls.ssl.keystore.type": "PEM",
    "listener.name.tls.ssl.truststore.type": "PEM",
}


class Broker(processes.Server):
    """One broker process.

    Attributes:
        servers: Bootstrap servers, without authentication.
        sasl_servers: Bootstrap servers that ask for the user `writer` with the password `right`.
        tls_servers: Bootstrap servers that ask for a certificate of the authority `ca_file`.
        ca_file: The authority, which has issued the broker's certificate, too.
        certificate_file: A certificate that it has issued, with its key.
    """

    starts_within_s = 60.0

    def __init__(self, folder: Path) -> None:
        super().__init__("the Kafka broker", folder / "broker.log")
        ports = processes.free_ports(4)
        self._folder, self._port = folder, ports[0]
        addresses = [f"{processes.LOOPBACK}:{port}" for port in ports]
        self.servers, controller, self.sasl_servers, self.tls_servers = addresses
        issued = certificates.issue(folder / "tls")
        self.ca_file, self.certificate_file = issued.authority, folder / "tls" / "both.pem"
        both = ((issued.folder / name).read_text() for name in ("tls.key", "tls.crt"))
        self.certificate_file.write_text("".join(both))
        self._topics = itertools.count(1)
        listeners = (
            f"PLAINTEXT://{self.servers},CONTROLLER://{controller},SASL://{self.sasl_servers},TLS://{self.tls_servers}"
        )
        self._settings = _SETTINGS | {
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.servers},SASL://{self.sasl_servers},TLS://{self.tls_servers}",
            "listener.name.tls.ssl.keystore.location": str(self.certificate_file),
            "listener.name.tls.ssl.truststore.location": str(self.ca_file),
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(folder / "data"),
        }

    def command(self) -> Sequence[str]:
        """Format the storage, and return what to start."""
        processes.require(JARS / ".complete", "kafka")
        settings = self._folder / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        tool = [*_JAVA, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "--ignore-formatted"]
        with self.log.open("ab") as output:
            subprocess.run([*tool, "-c", str(settings)], check=True, stdout=output, stderr=output)
        return [*_JAVA, "kafka.Kafka", str(settings)]

    def answers(self) -> bool:
        """Tell whether it is ready for clients."""
        return processes.is_open(self._port) and self._is_ready()

    def new_topic(self, partitions: int = 2, settings: Mapping[str, str] | None = None) -> str:
        """Create a topic with a name of its own and return the name."""
        name = f"topic-{next(self._topics):04d}"
        self.create(name, partitions, settings)
        return name

    def create(self, topic: str, partitions: int = 2, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic."""
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings or {}))])[topic].result(30)

    def delete(self, topic: str) -> None:
        """Delete a topic with its records, and wait until the broker does not know it."""
        self._admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
        self.wait_until(lambda: topic not in self._admin.list_topics(timeout=30).topics, "the topic is gone", 30)

    def expire(self, topic: str, *, before: int) -> None:
        """Forget the records of every partition before an offset, as the broker does by itself when they are too old."""
        partitions = [TopicPartition(topic, partition, before) for partition in range(self._count(topic))]
        for done in self._admin.delete_records(partitions, operation_timeout=30).values():
            done.result(30)

    def make_anew(self, topic: str) -> None:
        """Delete a topic with its records, and create it again, empty."""
        partitions = self._count(topic)
        self.delete(topic)
        self.create(topic, partitions)

    def delete_group(self, group: str) -> None:
        """Forget a consumer group, as the broker does by itself when its offsets have expired."""
        self._admin.delete_consumer_groups([group])[group].result(30)

    def read(self, topic: str, *, committed_only: bool = True) -> list[tuple[bytes | None, bytes | None]]:
        """Return key and value of every record, partition by partition, up to the end as it is now."""
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "test-reader",
                "log_level": 0,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed_only else "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            return [record for partition in self._partitions(reader, topic) for record in _drain(reader, partition)]
        finally:
            reader.close()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets that a group has committed, by partition."""
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        try:
            found = reader.committed(self._partitions(reader, topic), 30)
            return {place.partition: place.offset for place in found if place.offset >= 0}
        finally:
            reader.close()

    def keep_offset(self, group: str, topic: str) -> Callable[[], None]:
        """Remember the offset of a group in the first partition, and return what sets it back."""
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        (kept,) = reader.committed([TopicPartition(topic, 0)], 30)
        reader.close()

        def set_back() -> None:
            writer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
            writer.commit(offsets=[kept], asynchronous=False)
            writer.close()

        return set_back

    def _partitions(self, reader: Consumer, topic: str) -> list[TopicPartition]:
        count = len(reader.list_topics(topic, 30).topics[topic].partitions)
        return [TopicPartition(topic, number, 0) for number in range(count)]

    def _count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, 30).topics[topic].partitions)

    @functools.cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _is_ready(self) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def _drain(reader: Consumer, partition: TopicPartition) -> list[tuple[bytes | None, bytes | None]]:
    reader.assign([partition])
    records: list[tuple[bytes | None, bytes | None]] = []
    while True:
        message = reader.poll(30)
        assert message is not None, f"no answer from {partition}"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return records
        records.append((message.key(), message.value()))


def running(folder: Path) -> AbstractContextManager[Broker]:
    """Run a broker over a folder while the block runs."""
    return processes.serving(Broker(folder))


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka: Broker) -> str:
    return kafka.new_topic()
