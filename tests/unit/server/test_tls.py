"""The driver's HTTP API over TLS, with real certificates and real connections."""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import SERVER_NAME, Issued, encrypt_key, issue
from fakecontrol import FakeControl, served
from statefulspark import errors
from statefulspark.contract.config import ApiTlsConfig
from statefulspark.server import certificate


def _health(url: str, authority: Path) -> int:
    address = urlsplit(url)
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context, timeout=10)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def _subject(url: str, authority: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """Return whose certificate a new connection is shown."""
    address = urlsplit(url)
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # Without it, OpenSSL would not even offer an old version.
    with (
        socket.create_connection((address.hostname, address.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=SERVER_NAME) as connection,
    ):
        shown = connection.getpeercert()
        assert shown is not None
        return str(dict(part[0] for part in shown["subject"])["commonName"])


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue(tmp_path / "first")


def test_https_is_answered(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        assert _health(url, issued.authority) == 200


def test_http_is_refused(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        connection.request("GET", "/healthz")

        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()
        connection.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_from_1_2_are_spoken(issued: Issued, version: ssl.TLSVersion) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        assert _subject(url, issued.authority, version) == "first"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_an_older_version_is_refused(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url, pytest.raises(ssl.SSLError, match=r"EOF|PROTOCOL_VERSION"):
        _subject(url, issued.authority, ssl.TLSVersion.TLSv1_1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_new_connection_sees_a_renewed_certificate(issued: Issued, tmp_path: Path, version: ssl.TLSVersion) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        assert _subject(url, issued.authority, version) == "first"

        issued.replace_with(issue(tmp_path / "second"))

        assert _subject(url, issued.authority, version) == "second"


def test_a_renewed_certificate_is_shown_to_who_names_no_server(issued: Issued, tmp_path: Path) -> None:
    """A kubelet connects to an address."""
    with served(FakeControl(), tls=issued.tls) as url:
        issued.replace_with(issue(tmp_path / "second"))

        assert _health(url, issued.authority) == 200


def test_a_half_replaced_certificate_changes_nothing_until_its_key_is_there(
    issued: Issued, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    second = issue(tmp_path / "second")
    old_authority = tmp_path / "old.crt"
    old_authority.write_bytes(issued.authority.read_bytes())
    with served(FakeControl(), tls=issued.tls) as url:
        (second.folder / "tls.crt").replace(issued.folder / "tls.crt")
        caplog.set_level(logging.INFO)
        assert [_subject(url, old_authority), _subject(url, old_authority)] == ["first", "first"]
        assert [record.getMessage() for record in caplog.records].count("new certificate not used") == 1

        (second.folder / "tls.key").replace(issued.folder / "tls.key")

        assert _subject(url, second.authority) == "second"


def test_files_that_are_gone_change_nothing(issued: Issued) -> None:
    with served(FakeControl(), tls=issued.tls) as url:
        Path(issued.tls.key).unlink()

        assert _subject(url, issued.authority) == "first"


def _refused(tls: ApiTlsConfig) -> errors.SpecRejectedError:
    with pytest.raises(errors.SpecRejectedError) as raised:
        certificate.require_usable(tls)
    return raised.value


def test_a_usable_certificate_is_accepted(issued: Issued) -> None:
    certificate.require_usable(issued.tls)


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_a_missing_file_is_named(issued: Issued, missing: str) -> None:
    (issued.folder / missing).unlink()

    refused = _refused(issued.tls)

    assert refused.reason == "TlsFileMissing"
    assert refused.message.startswith(
        f"The file {issued.folder / missing} for TLS of the driver's API cannot be read: No such"
    )


def test_a_key_of_another_certificate_is_refused(issued: Issued, tmp_path: Path) -> None:
    other = issue(tmp_path / "second")

    refused = _refused(ApiTlsConfig(certificate=issued.tls.certificate, key=other.tls.key))

    assert refused.reason == "TlsKeyMismatch"
    assert refused.message.startswith(
        f"The key {other.tls.key} does not belong to the certificate {issued.tls.certificate};"
    )


@pytest.mark.parametrize("wrong", ["tls.crt", "tls.key"])
def test_a_file_that_is_no_pem_is_named(issued: Issued, wrong: str) -> None:
    (issued.folder / wrong).write_text("not PEM")

    refused = _refused(issued.tls)

    assert (refused.reason, str(issued.folder / wrong) in refused.message) == ("TlsFileInvalid", True)


def test_a_key_with_a_password_is_refused_and_asked_for_nowhere(issued: Issued) -> None:
    encrypt_key(issued)

    refused = _refused(issued.tls)

    assert refused.reason == "TlsFileInvalid"
    assert f"{issued.tls.key} is not an unencrypted private key in PEM" in refused.message
