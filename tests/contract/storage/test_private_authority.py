"""An S3 server with a certificate of a private authority: it is trusted by who names the authority, and by nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import certificates
import pytest
import s3server
from s3server import S3Server
from statefulspark import errors, storage
from statefulspark.cli import main
from statefulspark.storage import authorities
from statefulspark.storage.authorities import Authority

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("tls")
    with s3server.running(folder / "s3", certificates.issue(folder / "private")) as running:
        yield running


def test_a_server_of_a_named_authority_is_read_and_written(server: S3Server) -> None:
    store = storage.open_store(f"s3://{server.new_bucket()}/a", server.options())

    store.write("b", b"c")

    assert store.read("b") == b"c"


def test_without_the_authority_the_endpoint_and_what_to_name_are_told(server: S3Server) -> None:
    store = storage.open_store("s3://bucket/a", replace(server.options(), authority=None))

    with pytest.raises(errors.TransientError, match=re.escape(server.endpoint)) as refused:
        store.read("b")

    assert refused.value.reason == "StorageUnreachable"
    assert "name the authority with storage.s3.caSecretRef (on the command line --storage-ca)" in refused.value.message


def test_another_authority_is_told_with_where_it_comes_from(server: S3Server, tmp_path: Path) -> None:
    other = certificates.issue(tmp_path / "other").authority.read_text()
    options = replace(server.options(), authority=Authority("Secret shop/s3-ca, key ca.crt", other))

    with pytest.raises(errors.TransientError, match=re.escape(server.endpoint)) as refused:
        storage.open_store("s3://bucket/a", options).read("b")

    assert "was not issued by the authority in Secret shop/s3-ca, key ca.crt" in refused.value.message


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(None, "cannot be read", id="no file"),
        pytest.param("", "has no certificate in PEM", id="an empty file"),
        pytest.param("not a certificate", "has no certificate in PEM", id="text"),
        pytest.param(
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "has no certificate", id="broken"
        ),
    ],
)
def test_a_file_without_an_authority_is_refused(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)

    with pytest.raises(errors.SpecRejectedError, match=why) as refused:
        authorities.read(str(file))

    assert (refused.value.reason, str(file) in refused.value.message) == ("CaInvalid", True)


@pytest.mark.parametrize("is_flag", [True, False], ids=["the flag", "the variable"])
def test_the_command_takes_the_authority(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_flag: bool
) -> None:
    authority = server.options().authority
    assert authority is not None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3server.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3server.SECRET_KEY)
    flags = ["--storage-ca", str(authority.file)] if is_flag else []
    if not is_flag:
        monkeypatch.setenv(authorities.ENV, str(authority.file))
    root = f"s3://{server.new_bucket()}/default/words"

    code = main.main(["doctor", root, "--endpoint", server.endpoint, *flags])

    said = capsys.readouterr()
    assert "authority" not in said.out + said.err
    assert code != 69, said.err
