"""One suite for every adapter of the object store port: memory, a local folder, and S3 on a real server.

Memory and S3 also with etags that are no MD5s, as with SSE-KMS. On S3, the account has the rights that docs/howto/secure.md
names, and no others.
"""

from __future__ import annotations

import dataclasses
import http.server
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import etags
import pytest
import s3server
from s3server import S3Server
from statefulspark import errors, storage
from statefulspark.storage import ObjectStore, StorageOptions, allowance, fsspec_connection, fsspec_store, port
from statefulspark.storage.port import DeletedObjects
from statefulspark.testing import stores

ODD_KEYS = (
    "a b/c d.json",
    "plus+and&more=1?x#y",
    "percent%20literal",
    "ünïcödé/日本語/☃",
    "quote'\"back\\slash",
    "Sources/0/[1]{2}~!$@^,;:",
    ".hidden/_metadata.json",
    "a.crc/.b.crc",
)


@pytest.fixture(scope="module")
def s3_account(s3: S3Server) -> StorageOptions:
    return s3.new_user("key-of-a-job")


@pytest.fixture(params=["memory", "memory, encrypted", "file", "s3", "s3, encrypted"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    kind, _, is_encrypted = request.param.partition(", ")
    if kind == "memory":
        yield stores.MemoryStore(etag_of=etags.Encrypted() if is_encrypted else None)
    elif kind == "file":
        yield storage.open_store(f"file://{tmp_path}/root", StorageOptions(allow_local_files=True))
    else:
        server = request.getfixturevalue("s3")
        account, bucket = request.getfixturevalue("s3_account"), server.new_bucket()
        server.allow(bucket, account.access_key, "some/prefix/")
        with s3server.encrypted(server) if is_encrypted else nullcontext(server.endpoint) as endpoint:
            options = dataclasses.replace(account, endpoint=endpoint)
            yield storage.open_store(f"s3://{bucket}/some/prefix", options)


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, store: ObjectStore, tmp_path: Path) -> Callable[[str], ObjectStore]:
    """Open another place of the same kind: another bucket on S3, another folder elsewhere."""
    if isinstance(store, stores.MemoryStore):
        return store.child
    if store.uri.startswith("file:"):
        options = StorageOptions(allow_local_files=True)
        return lambda prefix: storage.open_store(f"file://{tmp_path}/other/{prefix}", options)
    server, account = request.getfixturevalue("s3"), request.getfixturevalue("s3_account")
    bucket = server.new_bucket()
    server.allow(bucket, account.access_key)
    assert isinstance(store, fsspec_store.FsspecStore)
    return lambda prefix: fsspec_store.FsspecStore(store._connection, bucket, prefix)


def test_what_was_written_is_read_back(store: ObjectStore) -> None:
    store.write("a/b", b"body")

    assert store.read("a/b") == b"body"


def test_no_more_of_an_object_is_read_than_the_caller_allows(store: ObjectStore) -> None:
    store.write("a/b", b"1234")

    assert store.read("a/b", most_bytes=4) == b"1234"
    assert store.read_many(["a/b"], most_bytes=4) == {"a/b": b"1234"}
    for read in (lambda: store.read("a/b", most_bytes=3), lambda: store.read_many(["a/b"], most_bytes=3)):
        with pytest.raises(errors.StateUnknownError, match=re.escape(f"{store.uri}/a/b has more than 3 bytes")):
            read()


def test_an_empty_body_is_an_object(store: ObjectStore) -> None:
    store.write("empty", b"")

    assert store.read("empty") == b""
    assert [(info.key, info.size_bytes) for info in store.list("")] == [("empty", 0)]


def test_write_replaces_the_whole_body(store: ObjectStore) -> None:
    store.write("a", b"a long first body")

    store.write("a", b"short")

    assert store.read("a") == b"short"


def test_a_body_of_several_megabytes_survives(store: ObjectStore) -> None:
    body = bytes(range(256)) * 4096 * 20

    store.write("big", body)

    assert store.read("big") == body


@pytest.mark.parametrize(
    "act", [lambda s: s.read("a/none"), lambda s: s.read_many(["a/none"])], ids=["read", "read_many"]
)
def test_reading_what_is_absent_says_which_object(store: ObjectStore, act: Callable[[ObjectStore], object]) -> None:
    with pytest.raises(errors.ObjectNotFoundError) as caught:
        act(store)

    assert caught.value.uri == f"{store.uri}/a/none"


def test_one_absent_object_of_many_is_named(store: ObjectStore) -> None:
    store.write("a", b"1")
    store.write("c", b"3")

    with pytest.raises(errors.ObjectNotFoundError) as caught:
        store.read_many(["a", "b", "c"])

    assert caught.value.uri == f"{store.uri}/b"


def test_read_many_returns_every_body_once_by_key(store: ObjectStore) -> None:
    bodies = {f"k/{number}": b"%d" % number for number in range(100)}
    for key, body in bodies.items():
        store.write(key, body)

    assert store.read_many([*bodies, "k/7"]) == bodies
    assert store.read_many([]) == {}


def test_info_many_describes_every_object_once_by_key_and_tells_what_is_absent(store: ObjectStore) -> None:
    keys = [f"k/{number}" for number in range(40)]
    for key in keys:
        store.write(key, b"1")

    found = store.info_many([*keys, "k/none", "k/7"])

    assert found == {**{key: store.info(key) for key in keys}, "k/none": None}
    assert store.info_many([]) == {}


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        pytest.param(0, 3, b"abc", id="from the beginning"),
        pytest.param(2, 1, b"c", id="one byte in the middle"),
        pytest.param(4, 2, b"ef", id="to the end"),
        pytest.param(4, 100, b"ef", id="beyond the end"),
        pytest.param(6, 1, b"", id="from the end on"),
        pytest.param(99, 1, b"", id="after the end"),
    ],
)
def test_a_range_has_the_bytes_that_there_are(store: ObjectStore, offset: int, length: int, expected: bytes) -> None:
    store.write("a/b", b"abcdef")

    assert store.child("a").read_range("b", offset, length) == expected


def test_a_range_of_what_is_absent_says_which_object(store: ObjectStore) -> None:
    with pytest.raises(errors.ObjectNotFoundError) as caught:
        store.read_range("a/none", 0, 1)

    assert caught.value.uri == f"{store.uri}/a/none"


def test_create_refuses_a_taken_name_and_leaves_it_alone(store: ObjectStore) -> None:
    store.create("a", b"first")

    with pytest.raises(errors.ObjectExistsError) as caught:
        store.create("a", b"second")

    assert caught.value.uri == f"{store.uri}/a"
    assert store.read("a") == b"first"


def test_create_refuses_even_the_same_body(store: ObjectStore) -> None:
    store.create("a", b"same")

    with pytest.raises(errors.ObjectExistsError):
        store.create("a", b"same")


def test_of_many_creators_exactly_one_wins_each_round(store: ObjectStore) -> None:
    writers, rounds = 8, 25
    barrier = threading.Barrier(writers)

    def win(number: int) -> list[bool]:
        return [_won(barrier, store, f"race/{round_number}", b"%d" % number) for round_number in range(rounds)]

    with ThreadPoolExecutor(writers) as pool:
        outcomes = list(pool.map(win, range(writers)))

    winners = [[number for number in range(writers) if outcomes[number][at]] for at in range(rounds)]
    assert [len(found) for found in winners] == [1] * rounds
    assert [store.read(f"race/{at}") for at in range(rounds)] == [b"%d" % found[0] for found in winners]


def _won(barrier: threading.Barrier, store: ObjectStore, key: str, body: bytes) -> bool:
    barrier.wait(30)
    try:
        store.create(key, body)
    except errors.ObjectExistsError:
        return False
    return True


def test_info_tells_size_time_and_a_tag_that_changes_with_the_body(store: ObjectStore) -> None:
    store.write("a/b", b"four")
    before = store.info("a/b")
    store.write("a/b", b"five!")
    after = store.info("a/b")

    assert before is not None
    assert after is not None
    assert (before.key, before.size_bytes, after.size_bytes) == ("a/b", 4, 5)
    assert before.etag != after.etag
    assert not after.etag.startswith('"')
    assert after.modified_at.tzinfo is not None
    assert abs(after.modified_at - datetime.now(UTC)) < timedelta(minutes=5)


def test_info_of_what_is_absent_is_none(store: ObjectStore) -> None:
    store.write("folder/file", b"")

    assert store.info("none") is None
    assert store.info("folder/none") is None
    assert store.info("folder") is None


def test_info_sees_a_write_and_a_deletion_at_once(store: ObjectStore) -> None:
    seen = [store.info("a") is not None]
    store.write("a", b"")
    seen.append(store.info("a") is not None)
    store.delete_many(["a"])
    seen.append(store.info("a") is not None)

    assert seen == [False, True, False]


def test_info_tells_the_checksum_that_the_writer_told_also_of_a_copy(store: ObjectStore) -> None:
    """A local folder has nowhere to keep it."""
    store.write("written", b"123456789")
    store.create("created", b"123456789")
    store.write("replaced", b"before")
    store.replace("replaced", b"123456789", etag=etag_of(store, "replaced"))
    store.copy_many([("created", "copied")])

    told = {info.crc32 for key in ("written", "created", "replaced", "copied") if (info := store.info(key))}

    assert told == {None if store.uri.startswith("file:") else "cbf43926"}


def test_nothing_is_told_of_what_others_wrote(s3: s3server.S3Server) -> None:
    bucket = s3.new_bucket()
    fsspec_connection.connect(s3.options()).quick.call_s3("put_object", Bucket=bucket, Key="a", Body=b"body")

    found = storage.open_store(f"s3://{bucket}", s3.options()).info("a")

    assert found is not None
    assert found.crc32 is None


def test_with_sse_kms_an_etag_is_no_md5_and_a_copy_has_another(s3: s3server.S3Server) -> None:
    with s3server.encrypted(s3) as endpoint:
        options = dataclasses.replace(s3.options(), endpoint=endpoint)
        store = storage.open_store(f"s3://{s3.new_bucket()}", options)
        store.write("a", b"body")
        store.copy_many([("a", "b")])

        found = {info.key: info.etag for info in store.list("")}

    assert all(re.fullmatch(r"[0-9a-f]{32}", etag) for etag in found.values())
    assert len({*found.values(), etags.plain("a", b"body", datetime.now(UTC))}) == 3


def test_list_is_recursive_sorted_and_agrees_with_info(store: ObjectStore) -> None:
    for key in ("b/2", "b/1/x", "a", "c", "b/10"):
        store.write(key, key.encode())

    listed = store.list("")

    assert [info.key for info in listed] == ["a", "b/1/x", "b/10", "b/2", "c"]
    assert [info.size_bytes for info in listed] == [1, 5, 4, 3, 1]
    assert [info.etag for info in listed] == [_etag(store, info.key) for info in listed]


def _etag(store: ObjectStore, key: str) -> str:
    found = store.info(key)
    assert found is not None
    return found.etag


def test_a_folder_is_no_prefix_of_a_name(store: ObjectStore) -> None:
    for key in ("run/1", "run-2/1", "runs"):
        store.write(key, b"")

    assert [info.key for info in store.list("run")] == ["run/1"]
    assert store.list_names("run") == ("1",)


def test_listing_what_is_absent_is_empty(store: ObjectStore) -> None:
    assert store.list("") == ()
    assert store.list("none") == ()
    assert store.list_names("none/deeper") == ()


def test_list_names_shows_one_level_with_folders_marked(store: ObjectStore) -> None:
    for key in ("savepoints/00000002-x/_metadata.json", "savepoints/00000002-x/files/a", "savepoints/note", "other"):
        store.write(key, b"")

    assert store.list_names("savepoints") == ("00000002-x/", "note")
    assert store.list_names("") == ("other", "savepoints/")


def test_an_emptied_folder_is_gone(store: ObjectStore) -> None:
    store.write("a/b/c", b"")

    store.delete_many(["a/b/c"])

    assert store.list_names("") == ()


def test_a_folder_is_deleted_whole_and_nothing_beside_it(store: ObjectStore) -> None:
    for key in ("run/1", "run/deep/er/2", "run-2/1", "runs"):
        store.write(key, b"12")

    deleted = store.delete_folder("run")

    assert deleted == DeletedObjects(objects=2, size_bytes=4)
    assert store.list_names("") == ("run-2/", "runs")
    assert store.delete_folder("run") == DeletedObjects()


def test_a_store_is_deleted_whole(store: ObjectStore) -> None:
    store.write("a/b", b"")
    store.write("c", b"")

    store.delete_folder("")

    assert (store.list(""), store.list_names("")) == ((), ())


def test_markers_of_folders_that_other_tools_left_are_no_objects_and_go_with_their_folder(
    s3: s3server.S3Server,
) -> None:
    bucket = s3.new_bucket()
    raw = fsspec_connection.connect(s3.options()).quick
    for key in ("kept/", "job/", "job/scratch/", "job/scratch/1/"):
        raw.call_s3("put_object", Bucket=bucket, Key=key, Body=b"")
    store = storage.open_store(f"s3://{bucket}/job", s3.options())
    store.write("scratch/1/a", b"")

    assert [info.key for info in store.list("")] == ["scratch/1/a"]
    assert store.delete_folder("") == DeletedObjects(objects=1)
    assert store.list_names("") == ()
    assert storage.open_store(f"s3://{bucket}", s3.options()).list_names("") == ("kept/",)


def test_more_than_one_page_is_listed_and_deleted_whole(store: ObjectStore) -> None:
    keys = [f"many/{number:05d}" for number in range(2100)]
    store.write("seed", b"x")
    store.copy_many([("seed", key) for key in keys])

    assert [info.key for info in store.list("many")] == keys
    assert len(store.list_names("many")) == 2100
    pages = store.pages("many")
    walked = [next(pages)]
    store.delete_many([info.key for info in walked[0]])
    walked += pages
    assert [len(page) for page in walked] == [1000, 1000, 100]
    assert [info.key for page in walked for info in page] == keys
    assert store.delete_folder("many").objects == 1100
    assert store.list("many") == ()


def test_whether_a_folder_is_empty_is_a_question_for_one_object(store: ObjectStore) -> None:
    for key in ("a/1", "a/2", "a/b/3", "ab"):
        store.write(key, b"")

    assert [info.key for info in port.first(store, "a")] == ["a/1"]
    assert [info.key for info in port.first(store, "a", most=2)] == ["a/1", "a/2"]
    assert [info.key for info in port.first(store, "", most=9)] == ["a/1", "a/2", "a/b/3", "ab"]
    assert port.first(store, "none") == ()
    assert [[info.key for info in page] for page in store.pages("a", size=2)] == [["a/1", "a/2"], ["a/b/3"]]


def test_markers_of_folders_do_not_count_as_the_first_objects(s3: s3server.S3Server) -> None:
    bucket = s3.new_bucket()
    raw = fsspec_connection.connect(s3.options()).quick
    for key in ("job/", "job/a/", "job/a/b/"):
        raw.call_s3("put_object", Bucket=bucket, Key=key, Body=b"")
    store = storage.open_store(f"s3://{bucket}/job", s3.options())

    assert port.first(store, "") == ()
    store.write("a/b/c", b"")
    assert [info.key for info in port.first(store, "")] == ["a/b/c"]


def _allowed(*, most_bytes: int = 100, most: int = 100, seconds: float = 60.0) -> allowance.Allowance:
    return allowance.Allowance(most_bytes, most, most, time.monotonic() + seconds)


def test_a_folder_with_more_than_may_be_listed_is_an_error_that_names_it_and_can_be_deleted(
    s3: s3server.S3Server,
) -> None:
    uri = f"s3://{s3.new_bucket()}/job"
    store = storage.open_store(uri, s3.options())
    for number in range(4):
        store.write(f"a/{number}", b"")
        store.write(f"few/{number % 3}", b"")

    with allowance.holding(limits := _allowed(most=3)):
        assert (len(store.list("few")), len(store.list_names("few")), limits.is_exceeded) == (3, 3, False)
        for look in (store.list, store.list_names):
            with pytest.raises(errors.StateUnknownError, match=re.escape(f"{uri}/a/ has more than 3 objects")):
                look("a")
        assert limits.is_exceeded
        assert port.first(store, "a")
        assert store.delete_folder("a").objects == 4


def test_a_document_with_more_values_than_are_read_is_an_error_that_names_it(s3: s3server.S3Server) -> None:
    uri = f"s3://{s3.new_bucket()}/job"
    store = storage.open_store(uri, s3.options())
    few, many, none = b'{"a": [1, 2]}', b' {"a": [1, 2, 3]}', b"PK, , , , , ,"
    for key, body in (("few", few), ("many", many), ("none", none)):
        store.write(key, body)

    with allowance.holding(limits := _allowed(most=3)):
        assert store.read_many(["few", "none"]) == {"few": few, "none": none}
        assert not limits.is_exceeded
        with pytest.raises(errors.StateUnknownError, match=re.escape(f"{uri}/many has more than 3 values")):
            store.read("many")
        assert limits.is_exceeded


def test_an_allowance_limits_what_is_read_of_one_object(store: ObjectStore) -> None:
    store.write("a", b"abcd")

    for most_bytes, own, is_exceeded in ((4, 100, False), (3, 100, True), (100, 3, False)):
        with allowance.holding(limits := _allowed(most_bytes=most_bytes)):
            if min(most_bytes, own) < 4:
                with pytest.raises(errors.StateUnknownError, match="has more than 3 bytes"):
                    store.read("a", most_bytes=own)
            else:
                assert store.read("a", most_bytes=own) == b"abcd"
        assert limits.is_exceeded is is_exceeded
    assert store.read("a") == b"abcd"


def test_a_body_that_drips_ends_with_the_time_of_the_allowance() -> None:
    with dripping() as endpoint:
        options = storage.StorageOptions(endpoint=endpoint, access_key="a", secret_key="b")
        store = storage.open_store("s3://drip/job", options)
        for look in (lambda: store.read("a"), lambda: store.list(""), lambda: list(store.pages(""))):
            began_s = time.monotonic()
            with allowance.holding(_allowed(most_bytes=2**30, seconds=0.5)), pytest.raises(errors.TransientError):
                look()
            assert time.monotonic() - began_s < 20
            with (
                allowance.holding(_allowed(seconds=-1.0)),
                pytest.raises(errors.TransientError, match="in time"),
            ):
                look()


@contextmanager
def dripping() -> Iterator[str]:
    """Run a server that sends one byte of each answer in a tenth of a second, and never ends it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("ETag", '"e"')
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.1)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_characters_in_keys_are_taken_as_they_are(store: ObjectStore, key: str) -> None:
    store.create(key, b"odd")
    store.copy_many([(key, f"copy/{key}")])

    assert store.read_many([key, f"copy/{key}"]) == {key: b"odd", f"copy/{key}": b"odd"}
    assert sorted(info.key for info in store.list("")) == sorted([key, f"copy/{key}"])
    store.delete_many([key, f"copy/{key}"])
    assert store.list("") == ()


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a/.", "x" * 1025, "nul\0"])
def test_a_key_that_leaves_its_root_or_has_no_name_is_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as caught:
        store.read(key)

    assert caught.value.reason == "StorageKeyInvalid"


def test_copies_are_equal_and_independent_and_progress_counts_up(store: ObjectStore) -> None:
    store.write("a", b"1")
    store.write("b", b"2")
    done: list[int] = []

    store.copy_many([("a", "x/a"), ("b", "x/b"), ("a", "x/a2")], on_progress=done.append)
    store.write("a", b"changed")

    assert store.read_many(["x/a", "x/b", "x/a2"]) == {"x/a": b"1", "x/b": b"2", "x/a2": b"1"}
    assert done == [1, 2, 3]


def test_a_copy_ends_when_what_hears_of_it_refuses_to_go_on(store: ObjectStore) -> None:
    """So a savepoint that nobody wants any more is not copied to its end."""
    count = 200
    store.write("a", b"1")

    def refuse(done: int) -> None:
        raise errors.StatefulSparkError("SnapshotGivenUp", f"given up after {done}")

    with pytest.raises(errors.StatefulSparkError, match="given up after 1"):
        store.copy_many([("a", f"x/{number:03d}") for number in range(count)], on_progress=refuse)

    assert len(store.list("x")) < count / 2


def test_copying_what_is_absent_names_it(store: ObjectStore) -> None:
    store.write("a", b"")

    with pytest.raises(errors.ObjectNotFoundError) as caught:
        store.copy_many([("a", "x"), ("none", "y")])

    assert caught.value.uri == f"{store.uri}/none"


def test_another_bucket_or_folder_of_the_same_server_is_copied_from(
    store: ObjectStore, elsewhere: Callable[[str], ObjectStore]
) -> None:
    source = elsewhere("moved/here")
    source.write("a b/ü", b"1")
    source.write("c", b"2")
    done: list[int] = []

    assert store.can_copy_from(source)
    store.copy_from(source, [("a b/ü", "x/a"), ("c", "x/c")], on_progress=done.append)

    assert store.read_many(["x/a", "x/c"]) == {"x/a": b"1", "x/c": b"2"}
    assert source.read("c") == b"2"
    assert done == [1, 2]


def test_copying_what_is_absent_elsewhere_names_it(store: ObjectStore, elsewhere: Callable[[str], ObjectStore]) -> None:
    source = elsewhere("moved")

    with pytest.raises(errors.ObjectNotFoundError) as caught:
        store.copy_from(source, [("none", "y")])

    assert caught.value.uri == f"{source.uri}/none"


def test_a_store_on_another_server_is_told_apart(store: ObjectStore) -> None:
    other = stores.MemoryStore("memory://another-server")

    assert not store.can_copy_from(other)
    with pytest.raises(errors.InternalError, match="memory://another-server"):
        store.copy_from(other, [("a", "b")])


def test_deleting_what_is_absent_is_fine(store: ObjectStore) -> None:
    store.write("a", b"")

    store.delete_many(["a", "b", "a"])
    store.delete_many([])

    assert store.list("") == ()


def test_a_child_sees_only_what_is_below_it(store: ObjectStore) -> None:
    store.write("job/x/1", b"1")
    store.write("job2/x", b"")
    child = store.child("job/").child("x")

    child.write("2", b"2")

    assert child.uri == f"{store.uri}/job/x"
    assert [info.key for info in child.list("")] == ["1", "2"]
    assert child.info("1") is not None
    assert store.read("job/x/2") == b"2"
    assert store.child("").uri == store.uri


def test_threads_share_a_store(store: ObjectStore) -> None:
    def round_trip(number: int) -> bytes:
        store.write(f"t/{number}", b"%d" % number)
        return store.read(f"t/{number}")

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(round_trip, range(64))) == [b"%d" % number for number in range(64)]


def test_replace_writes_only_what_was_looked_at(store: ObjectStore) -> None:
    store.write("a/b", b"first")
    seen = etag_of(store, "a/b")
    store.replace("a/b", b"second", etag=seen)

    with pytest.raises(errors.ObjectChangedError) as caught:
        store.replace("a/b", b"third", etag=seen)

    assert caught.value.uri == f"{store.uri}/a/b"
    assert store.read("a/b") == b"second"


def test_replace_never_makes_an_object(store: ObjectStore) -> None:
    store.write("other", b"body")

    for key in ("absent", "absent/folder/absent"):
        with pytest.raises(errors.ObjectChangedError):
            store.replace(key, b"body", etag=etag_of(store, "other"))

    assert [info.key for info in store.list("")] == ["other"]


def test_of_many_that_replace_the_same_body_one_wins(store: ObjectStore) -> None:
    store.write("a", b"before")
    seen = etag_of(store, "a")

    def replaced(number: int) -> bool:
        try:
            store.replace("a", b"%d" % number, etag=seen)
        except errors.ObjectChangedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(replaced, range(8)))

    assert outcomes.count(True) == 1
    assert store.read("a") == b"%d" % outcomes.index(True)


def test_a_conditional_delete_leaves_another_body_alone(store: ObjectStore) -> None:
    store.write("a", b"first")
    seen = etag_of(store, "a")
    store.write("a", b"second")

    assert not store.delete_unchanged("a", etag=seen)
    assert store.read("a") == b"second"


def test_a_conditional_delete_removes_what_was_looked_at_and_may_be_repeated(store: ObjectStore) -> None:
    store.write("a/b", b"first")
    seen = etag_of(store, "a/b")

    assert store.delete_unchanged("a/b", etag=seen)
    assert store.delete_unchanged("a/b", etag=seen)
    assert store.list("") == ()


def etag_of(store: ObjectStore, key: str) -> str:
    info = store.info(key)
    assert info is not None
    return info.etag
