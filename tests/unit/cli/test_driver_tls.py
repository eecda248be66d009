"""Commands that ask a driver over TLS, against a real server with a real certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import SERVER_NAME, Issued, issue
from fakecontrol import TOKEN, FakeControl, served
from statefulspark.cli import main
from statefulspark.contract import config


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue(tmp_path / "first")


@pytest.fixture
def url(issued: Issued, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(config.ENV_TOKEN, TOKEN)
    with served(FakeControl(), tls=issued.tls) as url:
        yield url


@pytest.mark.parametrize("named", [(), ("--server-name", SERVER_NAME)], ids=["by its address", "by its name"])
def test_a_driver_of_the_authority_is_asked(url: str, issued: Issued, named: tuple[str, ...]) -> None:
    assert main.main(["status", "--url", url, "--ca", str(issued.authority), *named]) == 0


@pytest.mark.parametrize("command", [("status",), ("checkpoint", "create"), ("savepoint", "create"), ("stop",)])
def test_a_driver_of_another_authority_is_not_told_the_token(
    url: str, tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    other = issue(tmp_path / "second")

    assert main.main([*command, "--url", url, "--ca", str(other.authority)]) == 2

    told = capsys.readouterr().err
    assert f"The certificate of the driver at {url} is not trusted: " in told
    assert "with --ca (ca.crt of the Secret" in told


def test_an_authority_that_is_not_given_is_one_of_this_machine(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", "--url", url]) == 2

    assert "is not trusted: " in capsys.readouterr().err


def test_a_driver_of_another_job_is_not_trusted(url: str, issued: Issued, capsys: pytest.CaptureFixture[str]) -> None:
    other = ("--server-name", "others-driver.demo.svc")

    assert main.main(["status", "--url", url, "--ca", str(issued.authority), *other]) == 2

    assert "others-driver.demo.svc" in capsys.readouterr().err


def test_a_missing_authority_is_named(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", "--url", url, "--ca", "/nowhere/ca.crt"]) == 2

    assert "The authority /nowhere/ca.crt cannot be read: No such file" in capsys.readouterr().err


def test_an_authority_for_plain_http_is_refused(issued: Issued, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["status", "--url", "http://127.0.0.1:1", "--ca", str(issued.authority), "--token", "x"]) == 2

    assert "need a url with https://" in capsys.readouterr().err
