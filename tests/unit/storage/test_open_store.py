"""A storage uri is taken or refused before anything is asked of a server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from statefulspark import errors, storage
from statefulspark.storage import StorageOptions

LOCAL = StorageOptions(allow_local_files=True)


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
    ],
)
def test_an_s3_uri_opens_without_a_server(uri: str, root: str) -> None:
    assert storage.open_store(uri, StorageOptions(endpoint="http://127.0.0.1:1")).uri == root


@pytest.mark.parametrize(
    "uri", ["", "bucket/a", "s3://", "s3:///a", "s3://no bucket/a", "gs://bucket/a", "hdfs://host/a", "/tmp/state"]
)
def test_any_other_uri_is_refused_with_the_value(uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        storage.open_store(uri, LOCAL)

    assert caught.value.reason == "StorageUriInvalid"
    assert repr(uri) in caught.value.message


@pytest.mark.parametrize("uri", ["s3://bucket/../other", "s3://bucket//a"])
def test_a_prefix_that_leaves_its_bucket_or_skips_a_name_is_refused(uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        storage.open_store(uri, StorageOptions())

    assert caught.value.reason == "StorageKeyInvalid"


@pytest.mark.parametrize("uri", ["file:///tmp/state", "file:/tmp/state", "file://host/state"])
def test_local_files_are_refused_with_the_reason(uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        storage.open_store(uri, StorageOptions())

    assert caught.value.reason == "LocalStorageRefused"
    assert "cannot be restored on another node" in caught.value.message
    assert repr(uri) in caught.value.message


@pytest.mark.parametrize("uri", ["file://host/state", "file:relative"])
def test_a_local_uri_must_name_an_absolute_folder_of_this_machine(uri: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        storage.open_store(uri, LOCAL)

    assert caught.value.reason == "StorageUriInvalid"


def test_a_local_folder_with_a_blank_in_its_name_opens(tmp_path: Path) -> None:
    store = storage.open_store(f"file://{tmp_path}/my%20state/", LOCAL)

    store.write("a", b"1")

    assert (tmp_path / "my state" / "a").read_bytes() == b"1"


def test_options_come_from_the_aws_variables_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "AWS_ENDPOINT_URL": "http://everything",
        "AWS_ENDPOINT_URL_S3": "http://s3-only",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }

    monkeypatch.setattr(os, "environ", variables)
    assert StorageOptions.from_env() == StorageOptions(
        endpoint="http://s3-only", region="eu-central-1", access_key="key", secret_key="secret"
    )
    assert StorageOptions.from_env(endpoint="http://mine", region="x").endpoint == "http://mine"
    monkeypatch.setattr(os, "environ", {"AWS_ENDPOINT_URL": "minio"})
    with pytest.raises(errors.SpecRejectedError, match="The endpoint 'minio' is no server URL"):
        StorageOptions.from_env()
    monkeypatch.setattr(os, "environ", {})
    assert StorageOptions.from_env() == StorageOptions()


def test_local_writes_leave_nothing_behind_and_unreadable_files_are_no_absence(tmp_path: Path) -> None:
    store = storage.open_store(f"file://{tmp_path}", LOCAL)
    store.write("f", b"1")
    with pytest.raises(errors.ObjectExistsError):
        store.create("f", b"2")

    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    with pytest.raises(errors.StateUnknownError):
        store.write("f/g", b"a file is no folder")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        pytest.param({"endpoint": "minio:9000"}, "EndpointInvalid", id="an endpoint without a scheme"),
        pytest.param({"endpoint": "http://"}, "EndpointInvalid", id="an endpoint without a host"),
        pytest.param({"endpoint": "http://minio:99999"}, "EndpointInvalid", id="an endpoint with no possible port"),
        pytest.param({"endpoint": "http://minio:port"}, "EndpointInvalid", id="an endpoint with a port that is none"),
        pytest.param({"endpoint": "http://[::1"}, "EndpointInvalid", id="an endpoint with half an address"),
        pytest.param({"endpoint": " http://minio"}, "EndpointInvalid", id="an endpoint with blanks"),
        pytest.param({"region": "eu west"}, "RegionInvalid", id="a region with blanks"),
        pytest.param({"region": "eu-"}, "RegionInvalid", id="a region that botocore refuses"),
    ],
)
def test_a_server_that_cannot_be_meant_is_refused_with_the_value(flags: dict[str, object], reason: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        StorageOptions.from_env(**flags)  # type: ignore[arg-type]

    assert caught.value.reason == reason
    assert "--" in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://minio:9000", "https://s3.example.com/", "http://[::1]:9000", "http://10.0.0.1"]
)
def test_a_url_of_a_server_is_taken(url: str) -> None:
    assert StorageOptions.from_env(endpoint=url).endpoint == url
