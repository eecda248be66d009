"""One Kafka cluster, as Spark's source and as the sink's client want to be told of it.

Spark's source is a Java client, and the sink's is librdkafka: they have other names for the same things, and only one of
them reads a Secret. This says each thing once. It opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from statefulspark import errors
from statefulspark.sinks import secret

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class KafkaConnection:
    """A Kafka cluster and how to log in, for sources and sinks.

    Attributes:
        bootstrap_servers: `host:port`, several separated by commas.
        tls: Whether the connection is encrypted.
        sasl: The mechanism of a login with name and password; None without one.
        username: The name.
        password: The password.
        ca_file: PEM file with the authorities of the brokers' certificates; those of the system when empty. The driver and
            the executors need it.
        certificate_file: PEM file with a private key (PKCS #8) and its certificates, for brokers that ask clients for one.
    """

    bootstrap_servers: str
    _: KW_ONLY
    tls: bool = False
    sasl: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | secret.Secret = ""
    password: str | secret.Secret = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""

    def __post_init__(self) -> None:
        """Reject what cannot work, or would be ignored.

        Raises:
            InvalidArgumentError: `SinkSettingRefused`.
        """
        if self.sasl is not None and self.sasl not in _LOGIN_MODULES:
            mechanisms = ", ".join(map(repr, _LOGIN_MODULES))
            raise errors.InvalidArgumentError(
                "SinkSettingRefused", f"sasl={self.sasl!r} is unknown; use one of {mechanisms}, or None."
            )
        has_login = bool(self.username) and bool(self.password)
        if has_login != (self.sasl is not None) or bool(self.username) != bool(self.password):
            raise errors.InvalidArgumentError(
                "SinkSettingRefused",
                f"A login at {self.bootstrap_servers} needs sasl, username and password; give all of them, or none.",
            )
        if not self.tls and (self.ca_file or self.certificate_file):
            raise errors.InvalidArgumentError(
                "SinkSettingRefused", f"Certificates for {self.bootstrap_servers} need tls=True; add it."
            )

    def source_options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source, with the password.

        Spark shows an option with a password as `*********(redacted)` in plans and on its pages. The password is that of
        the moment of the call: the source uses it until the job restarts.

        Raises:
            SpecRejectedError: `SecretMissing`.
        """
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, "kafka.security.protocol": self._protocol}
        if self.sasl is not None:
            login = {"username": secret.reveal(self.username), "password": secret.reveal(self.password)}
            quoted = (f'{name}="{_escaped(value)}"' for name, value in login.items())
            options["kafka.sasl.mechanism"] = self.sasl
            options["kafka.sasl.jaas.config"] = f"{_LOGIN_MODULES[self.sasl]} required {' '.join(quoted)};"
        for kind, file in (("truststore", self.ca_file), ("keystore", self.certificate_file)):
            if file:
                options |= {f"kafka.ssl.{kind}.type": "PEM", f"kafka.ssl.{kind}.location": file}
        return options

    def client_options(self) -> Mapping[str, str | secret.Secret]:
        """Return the options of the sink's client (librdkafka's names) beside the servers; secrets as `ss.Secret`."""
        options: dict[str, str | secret.Secret] = {"security.protocol": self._protocol}
        if self.sasl is not None:
            options |= {"sasl.mechanism": self.sasl, "sasl.username": self.username, "sasl.password": self.password}
        if self.ca_file:
            options["ssl.ca.location"] = self.ca_file
        if self.certificate_file:
            options |= {"ssl.certificate.location": self.certificate_file, "ssl.key.location": self.certificate_file}
        return options

    @property
    def _protocol(self) -> str:
        if self.sasl is None:
            return "SSL" if self.tls else "PLAINTEXT"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
