"""The kinds of sink that this distribution brings: one folder and one row each.

What differs between sinks outside of their folders is read from here: the client that only some jobs need, and what workers
import beforehand. What cannot read it, extras and import borders in `pyproject.toml` and the public names, is held to it by
`tests/architecture/test_sink_kinds.py`. A job may bring sinks of its own (`base.TwoPhaseSink`), which need no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from statefulspark.sinks import extras


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A kind of sink.

    Attributes:
        name: Its class, as job files write it and the records of its transactions name it.
        folder: Where it is, below `statefulspark.sinks`; the package exports the class.
        client: Python package that only jobs with this sink need; empty for none.
        extra: Extra of this distribution that brings the client.
    """

    name: str
    folder: str
    client: str = ""
    extra: str = ""

    @property
    def module(self) -> str:
        """The package that has it."""
        return f"statefulspark.sinks.{self.folder}"

    def require_client(self) -> None:
        """Refuse to go on without the client.

        Raises:
            SpecRejectedError: `ExtraMissing`.
        """
        extras.require(self.client, extra=self.extra, needed_by=self.name)


FILES = SinkKind("FilesSink", "files")
KAFKA = SinkKind("KafkaSink", "kafka", client="confluent_kafka", extra="kafka")
POSTGRES = SinkKind("PostgresSink", "postgres", client="psycopg", extra="postgres")
ICEBERG = SinkKind("IcebergSink", "iceberg", client="pyiceberg", extra="iceberg")

KINDS = (FILES, KAFKA, POSTGRES, ICEBERG)
"""All of them; a new one is a folder, a row here, and what the architecture test then asks for."""


def needing_no_client() -> tuple[SinkKind, ...]:
    """Return the sinks that every installation can import."""
    return tuple(kind for kind in KINDS if not kind.client)
