"""Code that is no part of an image: nothing is laid out that has another checksum, and a zip stays in its folder."""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from fuzzing import targets
from statefulspark import errors, jobcode
from statefulspark.cli import main
from statefulspark.contract import layout
from statefulspark.contract.exit_codes import ExitCode
from statefulspark.storage import StorageOptions, open_store
from statefulspark.testing import stores

FILE = b"import statefulspark\n"


def checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def a_zip(**entries: bytes) -> bytes:
    """A zip; '__' in a name stands for '/'."""
    return a_zip_of({name.replace("__", "/"): content for name, content in entries.items()})


def a_zip_of(entries: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return target.getvalue()


def a_link() -> bytes:
    target, entry = io.BytesIO(), zipfile.ZipInfo("rules.py")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    return target.getvalue()


def a_bomb() -> bytes:
    return a_zip_of({f"{number}.py": bytes(jobcode.LARGEST_UNPACKED // 8 + 1) for number in range(8)})


def test_code_is_read_by_its_checksum() -> None:
    store = stores.MemoryStore()
    store.write("code/flights.py", FILE)

    assert jobcode.read(store, "code/flights.py", checksum(FILE)) == FILE


@pytest.mark.parametrize(
    ("body", "asked", "reason"),
    [
        pytest.param(None, "ab" * 32, "CodeMissing", id="nothing there"),
        pytest.param(FILE, "ab" * 32, "CodeChecksumMismatch", id="another content"),
        pytest.param(bytes(jobcode.LARGEST + 1), "ab" * 32, "CodeTooLarge", id="too large"),
    ],
)
def test_what_is_not_the_code_is_refused_by_its_address(body: bytes | None, asked: str, reason: str) -> None:
    store = stores.MemoryStore()
    if body is not None:
        store.write("flights.py", body)

    with pytest.raises(errors.SpecRejectedError) as refused:
        jobcode.read(store, "flights.py", asked)

    assert (refused.value.reason, f"{store.uri}/flights.py" in refused.value.message) == (reason, True)


def test_a_python_file_is_laid_out_as_it_is_and_a_zip_unpacked(tmp_path: Path) -> None:
    jobcode.lay_out(FILE, "one.py", tmp_path)
    jobcode.lay_out(a_zip(flights=FILE, shared__rules=b"LIMIT = 3\n"), "job.zip", tmp_path)

    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"one.py": FILE, "flights": FILE, "shared/rules": b"LIMIT = 3\n"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(a_zip_of({"../out.py": FILE}), id="a path upwards"),
        pytest.param(a_zip_of({"a/../../out.py": FILE}), id="a path upwards from inside"),
        pytest.param(a_zip_of({"/tmp/out.py": FILE}), id="an absolute path"),
        pytest.param(a_zip_of({"a\\..\\..\\out.py": FILE}), id="a path of Windows"),
        pytest.param(a_zip_of({"c:/out.py": FILE}), id="a drive"),
        pytest.param(a_link(), id="a link"),
        pytest.param(a_zip_of({"a": FILE, "a/b.py": FILE}), id="a file that is a folder"),
        pytest.param(a_bomb(), id="a bomb"),
        pytest.param(b"PK no zip at all", id="no zip"),
        pytest.param(a_zip(flights=FILE)[:-30], id="a part of a zip"),
        pytest.param(a_zip(flights=FILE)[:-6] + b"\xff\xff\xff\x0f\0\0", id="a zip whose table is elsewhere"),
        pytest.param(targets.a_code_archive(zipfile.ZIP_BZIP2), id="another compression"),
    ],
)
def test_a_zip_that_leads_out_of_its_folder_writes_nothing(tmp_path: Path, body: bytes) -> None:
    folder = tmp_path / "job"
    folder.mkdir()

    with pytest.raises(errors.SpecRejectedError) as refused:
        jobcode.lay_out(body, "job.zip", folder)

    assert refused.value.reason == "CodeArchiveInvalid"
    assert [path for path in tmp_path.rglob("*") if path != folder] == []


def test_a_zip_without_the_jobs_file_says_what_it_has() -> None:
    body = a_zip_of({"app/main.py": FILE, "app/data.csv": b""})

    jobcode.require_file(body, "job.zip", "app/main.py")
    with pytest.raises(errors.SpecRejectedError) as refused:
        jobcode.require_file(body, "job.zip", "main.py")

    assert (refused.value.reason, refused.value.message.endswith("it has: app/main.py.")) == ("CodeMissing", True)


def test_kept_code_is_found_by_its_checksum_until_it_is_dropped() -> None:
    root, sums = stores.MemoryStore(), (checksum(FILE), checksum(b""))
    jobcode.keep(root, sums[0], "flights.py", FILE)
    jobcode.keep(root, sums[1], "empty.py", b"")

    jobcode.drop(root, {sums[1]})

    assert [info.key for info in root.list("")] == [layout.code(sums[0], "flights.py")]
    assert (jobcode.is_kept(root, sums[0], "flights.py"), jobcode.is_kept(root, sums[1], "empty.py")) == (True, False)


@pytest.mark.parametrize(("asked", "code"), [(checksum(FILE), ExitCode.SUCCESS), ("ab" * 32, ExitCode.BAD_JOB)])
def test_the_command_lays_out_what_has_the_checksum_and_nothing_else(
    tmp_path: Path, asked: str, code: ExitCode
) -> None:
    source, target = tmp_path / "code", tmp_path / "job"
    target.mkdir()
    open_store(source.as_uri(), StorageOptions(allow_local_files=True)).write("flights.py", FILE)
    command = ["code", f"{source.as_uri()}/flights.py", "--sha256", asked, "--into", str(target), "--allow-local-files"]

    assert main.main(command) == code

    assert [path.name for path in target.iterdir()] == (["flights.py"] if code is ExitCode.SUCCESS else [])


def test_a_zip_whose_table_of_contents_is_too_large_is_not_opened() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("flights.py", b"")
    size = struct.pack("<L", jobcode.LARGEST_DIRECTORY + 1)
    claimed = body.getvalue()[:-10] + size + body.getvalue()[-6:]

    with pytest.raises(errors.SpecRejectedError, match="its table of contents has more than"):
        jobcode.require_file(claimed, "flights.zip", "flights.py")
