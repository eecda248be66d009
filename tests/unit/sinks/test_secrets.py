"""Credentials are looked up where they are used and written down nowhere; missing packages are named with the extra."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from statefulspark import errors
from statefulspark.sinks import kinds
from statefulspark.sinks.iceberg import IcebergSink
from statefulspark.sinks.kafka import KafkaConnection, KafkaSink
from statefulspark.sinks.postgres import PostgresSink
from statefulspark.sinks.secret import Secret


def test_a_secret_is_taken_from_the_environment_or_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PG_DSN", "host=db password=hunter2")
    (tmp_path / "token").write_text("hunter2\n")
    assert Secret.env("PG_DSN").reveal() == "host=db password=hunter2"
    assert Secret.file(str(tmp_path / "token")).reveal() == "hunter2"


@pytest.mark.parametrize(
    ("secret", "named"),
    [
        pytest.param(Secret.env("NOT_SET_ANYWHERE"), "variable NOT_SET_ANYWHERE", id="a variable"),
        pytest.param(Secret.file("/nowhere/token"), "file /nowhere/token", id="a file"),
    ],
)
def test_a_missing_secret_is_named(secret: Secret, named: str) -> None:
    with pytest.raises(errors.SpecRejectedError, match=named):
        secret.reveal()


def test_what_travels_to_workers_or_into_a_log_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINK_PASSWORD", "hunter2")
    secret = Secret.env("SINK_PASSWORD")
    sinks = (
        KafkaSink("clicks", bootstrap_servers="localhost:9092", options={"sasl.password": secret}),
        PostgresSink("clicks", dsn=secret),
        IcebergSink("shop.clicks", catalog={"token": secret}),
    )
    assert b"hunter2" not in pickle.dumps(sinks)
    assert "hunter2" not in repr(sinks)


def test_a_connection_says_the_same_to_source_and_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 'a"b\\c')
    password = Secret.env("KAFKA_PASSWORD")
    kafka = KafkaConnection(
        "kafka:9093", tls=True, sasl="SCRAM-SHA-512", username="job", password=password, ca_file="/ca.pem"
    )
    sink = KafkaSink("clicks", bootstrap_servers=kafka, options={"linger.ms": "5"})

    assert kafka.source_options() == {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="job" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    assert sink.bootstrap_servers == "kafka:9093"
    assert sink.options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "job",
        "sasl.password": password,
        "ssl.ca.location": "/ca.pem",
        "linger.ms": "5",
    }
    assert b"b\\c" not in pickle.dumps((kafka, sink))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl": "GSSAPI", "username": "u", "password": "p"}, "sasl='GSSAPI' is unknown"),
        ({"sasl": "PLAIN", "username": "u"}, "needs sasl, username and password"),
        ({"username": "u", "password": "p"}, "needs sasl, username and password"),
        ({"ca_file": "/ca.pem"}, "need tls=True"),
    ],
)
def test_a_connection_that_cannot_work_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=why):
        KafkaConnection("kafka:9092", **settings)  # type: ignore[arg-type]


def test_plain_credentials_stay_out_of_the_text_form() -> None:
    sinks = (
        KafkaSink("clicks", bootstrap_servers="localhost:9092", options={"sasl.password": "hunter2"}),
        PostgresSink("clicks", dsn="host=db password=hunter2"),
        IcebergSink("shop.clicks", catalog={"token": "hunter2"}),
    )
    assert "hunter2" not in repr(sinks)
    assert "hunter2" not in repr(KafkaConnection("k:9092", sasl="PLAIN", username="u", password="hunter2"))


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(errors.SpecRejectedError, match=r"KafkaSink needs .* install statefulspark\[kafka\]"):
        replace(kinds.KAFKA, client="no_such_client").require_client()


def test_sinks_can_be_declared_without_their_clients() -> None:
    program = (
        "import sys; from statefulspark.sinks import kafka, postgres, iceberg;"
        "kafka.KafkaSink('t', bootstrap_servers='s');"
        "postgres.PostgresSink('t', dsn='d'); iceberg.IcebergSink('t', catalog={});"
        "print([name for name in ('confluent_kafka', 'psycopg', 'pyiceberg', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
