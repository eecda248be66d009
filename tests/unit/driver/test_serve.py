"""Who may ask a driver what, by how it was started."""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import issue
from fakecontrol import TOKEN, FakeControl
from statefulspark.contract import config
from statefulspark.driver import serve


def _config(folder: Path) -> config.JobConfig:
    place = config.StorageConfig(uri=folder.as_uri(), allow_local_files=True)
    return config.JobConfig(name="words", storage=place, api_port=0)


def _status_of(host: str, path: str, token: str | None = None) -> int:
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    code = connection.getresponse().status
    connection.close()
    return code


@pytest.mark.parametrize(
    ("configured", "presented", "code"),
    [
        pytest.param("", None, 200, id="without a token, a question of this machine is answered"),
        pytest.param(TOKEN, None, 401, id="with a token, nobody asks without it"),
        pytest.param(TOKEN, TOKEN, 200, id="with a token, who has it asks"),
    ],
)
def test_a_driver_asks_for_the_token_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    configured: str, presented: str | None, code: int,
) -> None:  # fmt: skip
    """While a job is developed nobody sets a token, and then nobody could look at it."""
    monkeypatch.setenv(config.ENV_TOKEN, configured)
    caplog.set_level(logging.INFO)

    with serve.serving(FakeControl(), _config(tmp_path)):
        (page,) = (str(vars(record)["page"]) for record in caplog.records if "page" in vars(record))
        told = urlsplit(page)
        assert (told.path, _status_of(told.netloc, "/ui/")) == ("/ui", 200)
        assert _status_of(told.netloc, "/v1/status", presented) == code


def test_the_token_of_a_file_counts_before_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(config.ENV_TOKEN, TOKEN)
    mounted = tmp_path / "token"
    mounted.write_text("of-a-file")
    caplog.set_level(logging.INFO)

    with serve.serving(FakeControl(), _config(tmp_path).model_copy(update={"api_token_file": str(mounted)})):
        (page,) = (str(vars(record)["page"]) for record in caplog.records if "page" in vars(record))
        told = urlsplit(page).netloc
        assert [_status_of(told, "/v1/status", token) for token in (TOKEN, "of-a-file")] == [401, 200]


def test_a_driver_with_a_certificate_serves_https_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issued = issue(tmp_path / "tls")
    caplog.set_level(logging.INFO)

    with serve.serving(FakeControl(), _config(tmp_path).model_copy(update={"api_tls": issued.tls})):
        (page,) = (str(vars(record)["page"]) for record in caplog.records if "page" in vars(record))
        told = urlsplit(page)
        context = ssl.create_default_context(cafile=issued.authority)
        connection = http.client.HTTPSConnection("127.0.0.1", told.port, timeout=10, context=context)
        connection.request("GET", "/healthz")
        assert (told.scheme, connection.getresponse().status) == ("https", 200)
        connection.close()


def test_metrics_have_a_port_of_their_own_where_one_is_configured(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    with serve.serving(FakeControl(), _config(tmp_path).model_copy(update={"metrics_port": port})):
        assert _status_of(f"127.0.0.1:{port}", "/metrics") == 200


def test_any_port_is_the_usual_one_unless_somebody_has_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """README says where the page of `python job.py` is, and it was at another port every time."""
    caplog.set_level(logging.INFO)

    with serve.serving(FakeControl(), _config(tmp_path)), serve.serving(FakeControl(), _config(tmp_path)):
        ports = [vars(record)["port"] for record in caplog.records if "page" in vars(record)]

    # Another test may have the usual port now.
    assert config.DEFAULT_API_PORT not in ports[1:]
    assert len(set(ports)) == 2
