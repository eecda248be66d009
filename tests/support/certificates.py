"""Real certificates, made with OpenSSL: an authority, and what it issues for the server of a driver."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from statefulspark.contract.config import ApiTlsConfig

SERVER_NAME = "flights-driver.demo.svc"


@dataclass(frozen=True)
class Issued:
    """The files of a Secret of type kubernetes.io/tls: `tls.crt`, `tls.key` and `ca.crt`."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def tls(self) -> ApiTlsConfig:
        return ApiTlsConfig(certificate=str(self.folder / "tls.crt"), key=str(self.folder / "tls.key"))

    def replace_with(self, other: Issued) -> None:
        """Replace certificate, key and authority, as their issuer does when it renews them."""
        for name in ("tls.crt", "tls.key", "ca.crt"):
            other_file = other.folder / name
            other_file.replace(self.folder / name)


def issue(folder: Path, *, name: str = SERVER_NAME) -> Issued:
    """Make an authority of its own, and a certificate for a name and for 127.0.0.1."""
    folder.mkdir(parents=True, exist_ok=True)
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl(
        folder,
        "req",
        "-x509",
        *new_key,
        "-subj",
        f"/CN=authority of {folder.name}",
        "-addext",
        "keyUsage=critical,keyCertSign",  # Since Python 3.13 an authority without it is refused.
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
    )
    names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
    given = ("-subj", f"/CN={folder.name}", "-addext", names, "-CA", "ca.crt", "-CAkey", "ca.key")
    _openssl(folder, "req", "-x509", *new_key, *given, "-addext", "basicConstraints=critical,CA:FALSE",
             "-keyout", "tls.key", "-out", "tls.crt")  # fmt: skip
    return Issued(folder)


def encrypt_key(issued: Issued) -> None:
    """Protect the key with a password."""
    _openssl(issued.folder, "ec", "-in", "tls.key", "-aes128", "-passout", "pass:word", "-out", "tls.key")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
