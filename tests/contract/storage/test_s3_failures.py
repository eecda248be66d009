"""What goes wrong with a real S3 server is told by name, in one sentence, in time, and never taken for absence."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import lossyproxy
import pytest
import s3server
from faults import s3proxy
from statefulspark import errors, storage
from statefulspark.checkpoint import epochs
from statefulspark.contract.manifest import OwnerRecord
from statefulspark.storage import ObjectStore, StorageOptions

pytestmark = pytest.mark.s3

OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "read": lambda store: store.read("a"),
    "read_many": lambda store: store.read_many(["a", "b"]),
    "read_range": lambda store: store.read_range("a", 0, 1),
    "write": lambda store: store.write("a", b""),
    "create": lambda store: store.create("new", b""),
    "info": lambda store: store.info("a"),
    "info_many": lambda store: store.info_many(["a", "b"]),
    "info of what is absent": lambda store: store.info("none"),
    "list": lambda store: store.list(""),
    "list_names": lambda store: store.list_names(""),
    "copy_many": lambda store: store.copy_many([("a", "b")]),
    "delete_many": lambda store: store.delete_many(["a"]),
}
each_operation = pytest.mark.parametrize("act", OPERATIONS.values(), ids=OPERATIONS)


@pytest.fixture
def proxy(s3: s3server.S3Server) -> Iterator[lossyproxy.LossyProxy]:
    with lossyproxy.proxy_to(s3.endpoint) as running:
        yield running


@pytest.fixture
def lossy_store(s3: s3server.S3Server, proxy: lossyproxy.LossyProxy) -> ObjectStore:
    options = dataclasses.replace(s3.options(), endpoint=proxy.endpoint)
    return storage.open_store(f"s3://{s3.new_bucket()}/p", options)


@each_operation
def test_a_wrong_secret_is_denied_access(s3: s3server.S3Server, act: Callable[[ObjectStore], object]) -> None:
    options = dataclasses.replace(s3.options(), secret_key="wrong")
    store = storage.open_store(f"s3://{s3.new_bucket()}/p", options)

    with pytest.raises(errors.StateUnknownError) as caught:
        act(store)

    assert caught.value.reason == "AccessDenied"
    assert s3.endpoint in caught.value.message
    assert "wrong" not in str(caught.value)


def test_an_unknown_access_key_is_denied_access(s3: s3server.S3Server) -> None:
    store = storage.open_store("s3://some-bucket", dataclasses.replace(s3.options(), access_key="nobody"))

    with pytest.raises(errors.StateUnknownError) as caught:
        store.list("")

    assert caught.value.reason == "AccessDenied"


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3: s3server.S3Server) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    store = storage.open_store("s3://some-bucket", StorageOptions(endpoint=s3.endpoint))

    with pytest.raises(errors.StateUnknownError) as caught:
        store.read("a")

    assert caught.value.reason == "CredentialsMissing"
    assert "AWS_ACCESS_KEY_ID" in caught.value.message


@each_operation
def test_a_missing_bucket_is_no_missing_object(s3: s3server.S3Server, act: Callable[[ObjectStore], object]) -> None:
    store = storage.open_store("s3://no-such-bucket/p", s3.options())

    with pytest.raises(errors.StateUnknownError) as caught:
        act(store)

    assert caught.value.reason == "NoSuchBucket"
    assert "no-such-bucket" in caught.value.message


@each_operation
def test_a_dead_server_is_unreachable(tmp_path: Path, act: Callable[[ObjectStore], object]) -> None:
    dead = s3server.S3Server(tmp_path)
    store = storage.open_store("s3://state-bucket/p", dead.options())
    started_s = time.monotonic()

    with pytest.raises(errors.TransientError) as caught:
        act(store)

    assert time.monotonic() - started_s < 15
    assert caught.value.reason == "StorageUnreachable"
    assert dead.endpoint in caught.value.message
    assert "state-bucket" in caught.value.message
    assert "\n" not in caught.value.message


@each_operation
def test_the_sentence_about_a_dead_server_repeated_the_encoded_url_of_the_request(
    tmp_path: Path, act: Callable[[ObjectStore], object]
) -> None:
    store = storage.open_store("s3://state-bucket/p/q", s3server.S3Server(tmp_path).options())

    with pytest.raises(errors.TransientError) as caught:
        act(store)

    assert "endpoint URL" not in caught.value.message
    assert "%2F" not in caught.value.message
    assert ": Could not connect; check that the server runs" in caught.value.message


def test_a_silent_server_is_unreachable_within_15_seconds(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    proxy.silent = True
    started_s = time.monotonic()

    with pytest.raises(errors.TransientError) as caught:
        lossy_store.info("a")

    assert time.monotonic() - started_s < 15
    assert caught.value.reason == "StorageUnreachable"


def test_a_restarted_server_is_found_again_by_the_same_store(tmp_path: Path) -> None:
    with s3server.running(tmp_path) as server:
        store = storage.open_store(f"s3://{server.new_bucket()}/p", server.options())
        store.write("a", b"1")
        server.stop()
        with pytest.raises(errors.TransientError):
            store.read("a")
        server.start()

        assert store.read("a") == b"1"


@each_operation
def test_the_404_of_a_proxy_that_has_lost_the_store_is_no_absence(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy, act: Callable[[ObjectStore], object]
) -> None:
    lossy_store.write("a", b"1")  # the bucket has answered just now
    proxy.has_lost_the_store = frozenset(["GET", "HEAD", "PUT", "POST", "DELETE"])

    with pytest.raises(errors.TransientError) as caught:
        act(lossy_store)

    assert caught.value.reason == "StorageUnreachable"


def test_a_look_that_a_proxy_answers_404_is_compared_with_a_listing(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    lossy_store.write("a", b"1")
    proxy.has_lost_the_store = frozenset(["HEAD"])

    with pytest.raises(errors.TransientError, match="check the proxy or ingress"):
        lossy_store.info("a")
    assert lossy_store.info("none") is None


def test_create_recognises_its_own_write_when_the_answer_was_lost(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    proxy.lose_answers("PUT", 1)

    lossy_store.create("epoch", b"mine")

    assert lossy_store.read("epoch") == b"mine"


def test_create_recognises_its_own_write_when_every_answer_was_lost(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    proxy.lose_answers("PUT", 100)

    lossy_store.create("epoch", b"mine")

    assert lossy_store.read("epoch") == b"mine"


def test_create_does_not_take_an_equal_body_of_another_writer_for_its_own(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    lossy_store.create("epoch", b"same")
    proxy.lose_answers("PUT", 1)

    with pytest.raises(errors.ObjectExistsError):
        lossy_store.create("epoch", b"same")


def test_a_lost_answer_to_any_other_request_is_asked_for_again(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    for method in ("GET", "HEAD", "PUT", "POST"):
        proxy.lose_answers(method, 1)

    lossy_store.write("a", b"1")
    lossy_store.copy_many([("a", "b")])
    lossy_store.delete_many(["a"])

    assert lossy_store.info("b") is not None
    assert lossy_store.read("b") == b"1"
    assert [info.key for info in lossy_store.list("")] == ["b"]


@pytest.mark.parametrize(
    "harm", [s3proxy.Harm.BUSY, s3proxy.Harm.THROTTLE], ids=["503 SlowDown", "429 TooManyRequests"]
)
@pytest.mark.parametrize("act", [OPERATIONS[name] for name in ("read", "info", "copy_many")])
def test_a_store_that_is_too_busy_is_asked_for_longer_than_one_that_is_away(
    s3: s3server.S3Server, act: Callable[[ObjectStore], object], harm: s3proxy.Harm
) -> None:
    """One in four requests was refused, and a savepoint of 220 files failed three times in a row.

    The answer to a HEAD has no body, so its 429 has no word that says so.
    """
    with s3proxy.proxy_to(s3.endpoint, seed=1) as busy:
        options = dataclasses.replace(s3.options(), endpoint=busy.endpoint)
        store = storage.open_store(f"s3://{s3.new_bucket()}/p", options)
        store.write("a", b"1")
        name = busy.arm(s3proxy.Fault(harm, times=5))

        act(store)

        assert busy.has_struck(name)


def test_secrets_are_in_no_text_form_of_the_options(s3: s3server.S3Server) -> None:
    options = StorageOptions(access_key="ACCESS", secret_key="SECRET", session_token="TOKEN")

    assert not {"ACCESS", "SECRET", "TOKEN"} & set(repr(options).replace("'", " ").split())


def test_what_is_too_large_for_one_copy_is_copied_in_parts_by_the_server(
    s3: s3server.S3Server, proxy: lossyproxy.LossyProxy
) -> None:
    """CopyObject takes up to 5 GB; what is larger goes by UploadPartCopy, between buckets too."""
    options = dataclasses.replace(s3.options(), endpoint=proxy.endpoint)
    source = storage.open_store(f"s3://{s3.new_bucket()}/from", options)
    target = storage.open_store(f"s3://{s3.new_bucket()}/to", options)
    body = bytes(range(256)) * 8192
    source.write("a b/large", body)
    proxy.refuses_whole_copies = True

    target.copy_from(source, [("a b/large", "copy")])

    assert target.read("copy") == body
    operations = [line for line in s3.requests() if target.uri.split("/")[2] in line]
    assert any("UploadPartCopy" in line or "partNumber=1" in line for line in operations)


def test_a_server_that_answers_as_if_it_ignored_conditions_is_refused_at_the_start(
    lossy_store: ObjectStore, proxy: lossyproxy.LossyProxy
) -> None:
    owner = OwnerRecord(namespace="default", job="flights", owner_id="uid-1", created_at=datetime.now(UTC))
    proxy.ignores_conditions = True

    with pytest.raises(errors.SpecRejectedError, match="If-None-Match"):
        epochs.ensure_owner(lossy_store, owner)

    proxy.ignores_conditions = False
    assert epochs.ensure_owner(lossy_store, owner).owner_id == "uid-1"
