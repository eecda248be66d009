"""The token of a job is replaced while its driver runs, and nobody is refused meanwhile."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest
from fakecontrol import FakeControl, served
from statefulspark import errors, outgoing
from statefulspark.server import tokens

OLD, NEW = "the-old-token", "the-new-token"


def a_secret_with(folder: Path, **keys: str) -> tokens.MountedTokens:
    mount(folder, **keys)
    return tokens.MountedTokens(str(folder / "token"))


def mount(folder: Path, **keys: str) -> None:
    """Have the files of a Secret be these, as the kubelet does it: as a whole."""
    for name in ("token", "previous"):
        (folder / name).unlink(missing_ok=True)
    for name, value in keys.items():
        (folder / name).write_text(f"{value}\n")


def codes_of(url: str, *presented: str) -> list[int]:
    codes = []
    for token in presented:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
        connection.request("GET", "/v1/status", headers={"Authorization": f"Bearer {token}"})
        codes.append(connection.getresponse().status)
        connection.close()
    return codes


def test_a_rotation_refuses_nobody_and_ends_with_the_old_token(tmp_path: Path) -> None:
    with served(FakeControl(), tokens=a_secret_with(tmp_path, token=OLD)) as url:
        before = codes_of(url, OLD, NEW)
        mount(tmp_path, token=NEW, previous=OLD)
        during = codes_of(url, OLD, NEW, "another")
        mount(tmp_path, token=NEW)
        after = codes_of(url, OLD, NEW)

    assert (before, during, after) == ([200, 401], [200, 200, 401], [401, 200])


@pytest.mark.parametrize("keys", [{}, {"token": ""}, {"token": " ", "previous": ""}], ids=str)
def test_files_that_cannot_be_used_change_nothing_and_open_nothing(tmp_path: Path, keys: dict[str, str]) -> None:
    with served(FakeControl(), tokens=a_secret_with(tmp_path, token=OLD)) as url:
        mount(tmp_path, **keys)

        assert codes_of(url, OLD, "", " ") == [200, 401, 401]


@pytest.mark.parametrize("keys", [{}, {"token": ""}, {"previous": OLD}], ids=str)
def test_a_driver_without_its_token_is_refused_before_it_starts(tmp_path: Path, keys: dict[str, str]) -> None:
    with pytest.raises(errors.SpecRejectedError, match=f"{tmp_path}/token has no token") as refused:
        a_secret_with(tmp_path, **keys)

    assert refused.value.reason == "TokenMissing"


def test_no_text_that_leaves_the_process_has_a_token_of_a_rotation(tmp_path: Path) -> None:
    mounted = a_secret_with(tmp_path, token="secret-of-today")
    mount(tmp_path, token="secret-of-tomorrow", previous="secret-of-yesterday")
    mounted.accepted()

    text = "secret-of-today secret-of-tomorrow secret-of-yesterday"
    assert outgoing.without_secrets(text) == "*** *** ***"
