"""The built-in kinds of sink: one folder and one row each.

Differences between sinks that matter outside of their folders are defined here: the optional client, and what workers
preload. `tests/architecture/test_sink_kinds.py` checks that extras and import contracts in `pyproject.toml` and the public
names match. A job may define its own sinks (`base.TwoPhaseSink`), which need no row.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from statefulspark import errors


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A kind of sink.

    Attributes:
        name: Name of its class, in job files and in the records of its transactions.
        folder: Its folder below `statefulspark.sinks`; the package exports the class.
        client: Python package that only jobs with this sink need; empty for none.
        extra: Extra of this distribution that installs the client.
    """

    name: str
    folder: str
    client: str = ""
    extra: str = ""

    @property
    def module(self) -> str:
        """Its package."""
        return f"statefulspark.sinks.{self.folder}"

    def require_client(self) -> None:
        """Check that the client is installed.

        Raises:
            SpecRejectedError: `ExtraMissing`.
        """
        if importlib.util.find_spec(self.client) is None:
            raise errors.SpecRejectedError(
                "ExtraMissing",
                f"{self.name} needs the Python package {self.client}, which is not installed; install "
                f"statefulspark[{self.extra}].",
            )


FILES = SinkKind("FilesSink", "files")
KAFKA = SinkKind("KafkaSink", "kafka", client="confluent_kafka", extra="kafka")
POSTGRES = SinkKind("PostgresSink", "postgres", client="psycopg", extra="postgres")
ICEBERG = SinkKind("IcebergSink", "iceberg", client="pyiceberg", extra="iceberg")

KINDS = (FILES, KAFKA, POSTGRES, ICEBERG)
"""All kinds; a new one is a folder, a row here, and the changes that the architecture test requires."""


def needing_no_client() -> tuple[SinkKind, ...]:
    """Return the sinks that need no optional client."""
    return tuple(kind for kind in KINDS if not kind.client)
