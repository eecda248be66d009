"""The certificate with which a driver serves its API: TLS 1.2 or later, from two files that may be replaced at any time.

A certificate lives for weeks and a job for months, so whoever issues it (cert-manager, for example) replaces the files while
the driver runs. They are looked at for every new connection. Files that cannot be used, for example because one of the two
is not replaced yet, change nothing: the certificate that was read before stays. It must never lead to plain HTTP.
"""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

from statefulspark import errors
from statefulspark.contract.config import ApiTlsConfig

_log = logging.getLogger(__name__)
_MISMATCH = "KEY_VALUES_MISMATCH"
"""OpenSSL's name for a key that does not belong to the certificate."""

_Stamp = tuple[tuple[int, int, int], ...]


def require_usable(tls: ApiTlsConfig) -> None:
    """Refuse a certificate that cannot be served, before Spark starts.

    Raises:
        SpecRejectedError: `TlsFileMissing`, `TlsFileInvalid` or `TlsKeyMismatch`, naming the file.
    """
    _load(tls)


class ServedCertificate:
    """The certificate of a running server.

    Attributes:
        context: What the server accepts connections with; a connection gets the certificate of the moment when it begins.
    """

    def __init__(self, tls: ApiTlsConfig) -> None:
        """Read the files.

        Raises:
            SpecRejectedError: As `require_usable`.
        """
        self._tls, self._tried = tls, _stamp(tls)
        self.context = self._current = _load(tls)
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """OpenSSL calls this at the begin of each handshake, also for a client that names no server."""
        stamp = _stamp(self._tls)
        if stamp != self._tried:
            self._tried = stamp
            try:
                self._current = _load(self._tls)
            except errors.SpecRejectedError as error:
                _log.warning("new certificate not used", extra={"reason": error.reason, "error": error.message})
            else:
                _log.info("new certificate used", extra={"certificate": self._tls.certificate})
        connection.context = self._current


def _stamp(tls: ApiTlsConfig) -> _Stamp:
    """Return what changes with the files' content; a Secret's files are links to a folder that is replaced as a whole."""
    stamps = []
    for path in (tls.certificate, tls.key):
        try:
            file = os.stat(path)
            stamps.append((file.st_ino, file.st_mtime_ns, file.st_size))
        except OSError:
            stamps.append((0, 0, 0))
    return tuple(stamps)


def _load(tls: ApiTlsConfig) -> ssl.SSLContext:
    """Return a context with the certificate and its key."""
    for path in (tls.certificate, tls.key):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise errors.SpecRejectedError(
                "TlsFileMissing",
                f"The file {path} for TLS of the driver's API cannot be read: {error.strerror}; check "
                "--api-tls-certificate and --api-tls-key; in a cluster, that the Secret has the keys tls.crt and tls.key.",
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password given here, OpenSSL would ask for that of an encrypted key at the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password="")
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise errors.SpecRejectedError(
                "TlsKeyMismatch",
                f"The key {tls.key} does not belong to the certificate {tls.certificate}; give the key that the certificate "
                "was issued for. In a file with several certificates the driver's own comes first.",
            ) from error
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tls.certificate)
            wrong, expected = tls.key, "an unencrypted private key"
        except ssl.SSLError:
            wrong, expected = tls.certificate, "a certificate"
        raise errors.SpecRejectedError(
            "TlsFileInvalid", f"The file {wrong} is not {expected} in PEM ({error.reason or error}); replace it."
        ) from error
    return context
