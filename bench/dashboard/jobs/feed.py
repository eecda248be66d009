"""Writes clicks into a Kafka topic: `feed.py SERVERS TOPIC ROWS_PER_SECOND SECONDS`; with 0 seconds until it is ended."""

from __future__ import annotations

import itertools
import sys
import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
USERS = 50


def main() -> None:
    """Make the topic if there is none, and write."""
    servers, topic, rate, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    _make(AdminClient({"bootstrap.servers": servers}), topic)
    producer, began_s = Producer({"bootstrap.servers": servers}), time.monotonic()
    for second in itertools.count():
        if seconds and second >= seconds:
            break
        for number in range(rate):
            producer.produce(topic, key=f"user-{number % USERS}", value=str(second))
            producer.poll(0)
        producer.flush(30)
        time.sleep(max(0.0, began_s + second + 1 - time.monotonic()))


def _make(admin: AdminClient, topic: str) -> None:
    while topic not in _topics(admin):
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        time.sleep(1)


def _topics(admin: AdminClient) -> set[str]:
    try:
        return set(admin.list_topics(timeout=5).topics)
    except KafkaException as error:
        print(f"The broker does not answer yet: {error}", flush=True)
        return set()


if __name__ == "__main__":
    main()
