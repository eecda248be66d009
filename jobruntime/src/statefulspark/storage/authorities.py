"""Certificate authorities that an S3 client trusts beside its own: for a server with a certificate of a private authority.

They are text, so that a client in another process or on another machine needs no file; Spark's JVMs read the file.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from statefulspark import errors

ENV = "STATEFULSPARK_STORAGE_CA"
"""Variable with the path of the file, if no flag and no configuration names one."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Authorities that are trusted.

    Attributes:
        source: Where they come from, for messages.
        pem: Their certificates in PEM.
        file: Path of the file, for Spark's JVMs; None if no JVM uses the storage.
    """

    source: str
    pem: str = field(repr=False)
    file: str | None = None


def problem(pem: str) -> str | None:
    """Return why a text has no certificate authority, as part of a sentence; None if it has one."""
    try:
        if ssl.create_default_context(cadata=pem).cert_store_stats()["x509"] and "BEGIN CERTIFICATE" in pem:
            return None
    except (ssl.SSLError, ValueError) as error:
        return f"has no certificate in PEM that can be read ({error})"
    return "has no certificate in PEM"


def read(file: str) -> Authority:
    """Return the authorities of a file.

    Raises:
        SpecRejectedError: `CaInvalid`.
    """
    remedy = "Name a file with the authority of the S3 server in PEM (--storage-ca, or storage.s3.caFile)."
    try:
        pem = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.SpecRejectedError("CaInvalid", f"The file {file} cannot be read: {error}. {remedy}") from error
    if why := problem(pem):
        raise errors.SpecRejectedError("CaInvalid", f"The file {file} {why}. {remedy}")
    return Authority(f"the file {file}", pem, file)
