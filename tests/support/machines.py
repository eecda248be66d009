"""Sinks as the runtime makes them from settings, for tests that call a sink themselves."""

from __future__ import annotations

from typing import Any

from statefulspark.sinks import files, iceberg, kafka, postgres
from statefulspark.sinks.files.sink import FilesMachine
from statefulspark.sinks.iceberg.sink import IcebergMachine
from statefulspark.sinks.kafka.sink import KafkaMachine
from statefulspark.sinks.postgres.sink import PostgresMachine


def files_sink(uri: str, **settings: Any) -> FilesMachine:
    """Make a files sink."""
    return FilesMachine(files.FilesSink(uri, **settings))


def kafka_sink(topic: str, **settings: Any) -> KafkaMachine:
    """Make a Kafka sink."""
    return KafkaMachine(kafka.KafkaSink(topic, **settings))


def postgres_sink(table: str, **settings: Any) -> PostgresMachine:
    """Make a PostgreSQL sink."""
    return PostgresMachine(postgres.PostgresSink(table, **settings))


def iceberg_sink(table: str, **settings: Any) -> IcebergMachine:
    """Make an Iceberg sink."""
    return IcebergMachine(iceberg.IcebergSink(table, **settings))
