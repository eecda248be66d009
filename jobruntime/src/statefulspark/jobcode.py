"""Code of a job that is not in its image: read by its checksum, kept below the job's root, and laid into a folder.

The checksum is the SHA-256 of the object. Nothing is run or unpacked that does not have it, and a zip writes nothing
outside of its folder, no links, and no more than fits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from statefulspark import errors, ziplimits
from statefulspark.contract import layout
from statefulspark.storage.port import ObjectStore

LARGEST = 32 * 1024 * 1024
"""The largest object; more belongs into an image."""
LARGEST_UNPACKED = 256 * 1024 * 1024
"""The most that a zip may unpack to, together."""
MOST_FILES = 10_000
LARGEST_DIRECTORY = 4 * 1024 * 1024
"""Bytes of a zip's table of contents, which zipfile reads before a file is counted; 10,000 long names have less."""
_SHOWN = 300
ARCHIVE = ".zip"


def read(store: ObjectStore, key: str, checksum: str) -> bytes:
    """Return an object with a checksum.

    Args:
        store: Where it is.
        key: Its key.
        checksum: Its SHA-256, as hexadecimal digits.

    Raises:
        SpecRejectedError: `CodeMissing`, `CodeTooLarge` or `CodeChecksumMismatch`.
        TransientError: Storage cannot be reached.
    """
    where, info = f"{store.uri}/{key}", store.info(key)
    if info is None:
        raise errors.SpecRejectedError(
            "CodeMissing", f"There is no code at {where}; upload it, or correct the address in spec.job.source."
        )
    if info.size_bytes > LARGEST:
        raise errors.SpecRejectedError(
            "CodeTooLarge",
            f"The code at {where} has {info.size_bytes} bytes, and {LARGEST} are allowed; put what it depends on into the "
            "image.",
        )
    body = store.read(key, most_bytes=LARGEST)
    if hashlib.sha256(body).hexdigest() != checksum:
        # The checksum that it has is not told: who may name an object need not be one who may read it.
        raise errors.SpecRejectedError(
            "CodeChecksumMismatch",
            f"The code at {where} does not have the checksum {checksum}; if it is the code to run, correct "
            "spec.job.source.s3.sha256 to what `sha256sum` says of your copy.",
        )
    return body


def is_kept(root: ObjectStore, checksum: str, name: str) -> bool:
    """Tell whether code is kept below a job's root."""
    return root.info(layout.code(checksum, name)) is not None


def keep(root: ObjectStore, checksum: str, name: str, body: bytes) -> None:
    """Keep verified code below a job's root, so that its revision can run again whatever happens to the original."""
    root.write(layout.code(checksum, name), body)


def drop(root: ObjectStore, checksums: Collection[str]) -> None:
    """Delete the kept code with some checksums."""
    for checksum in sorted(checksums):
        root.delete_folder(f"{layout.CODE}/{checksum}")


def require_file(body: bytes, name: str, file: str) -> None:
    """Refuse code that must not be laid out, or does not have the job's file; nothing is unpacked.

    Args:
        body: The content.
        name: The name of the object.
        file: The path of the job's file in it.

    Raises:
        SpecRejectedError: `CodeArchiveInvalid` or `CodeMissing`.
    """
    paths = [name]
    if name.endswith(ARCHIVE):
        with _opened(body, name) as archive:
            paths = sorted(entry.filename for entry in _entries(archive, name))
    if file not in paths:
        shown = ", ".join(path for path in paths if path.endswith(".py")) or "no Python file"
        raise errors.SpecRejectedError(
            "CodeMissing", f"{name} has no file {file!r}, which spec.job.file names; it has: {shown[:_SHOWN]}."
        )


def lay_out(body: bytes, name: str, folder: Path) -> None:
    """Write verified code into a folder: a Python file as it is, a zip unpacked.

    Args:
        body: The content.
        name: The name of the object.
        folder: An existing folder.

    Raises:
        SpecRejectedError: `CodeArchiveInvalid`: it is no zip, or is damaged; or it must not be unpacked, and nothing was
            written.
    """
    if not name.endswith(ARCHIVE):
        folder.joinpath(name).write_bytes(body)
        return
    with _opened(body, name) as archive:
        for entry in _entries(archive, name):
            target = folder.joinpath(entry.filename)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as content, target.open("wb") as written:
                shutil.copyfileobj(content, written)


@contextlib.contextmanager
def _opened(body: bytes, name: str) -> Iterator[zipfile.ZipFile]:
    try:
        ziplimits.require_directory(body, LARGEST_DIRECTORY)
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, zlib.error) as error:
        raise errors.SpecRejectedError(
            "CodeArchiveInvalid", f"{name} cannot be unpacked: {error}; make the zip again, without a password."
        ) from error


def _entries(archive: zipfile.ZipFile, name: str) -> list[zipfile.ZipInfo]:
    """Return the files of a zip, or refuse it before anything of it is unpacked.

    Raises:
        SpecRejectedError: `CodeArchiveInvalid`.
    """
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    # zipfile unpacks no more of an entry than the size that is told here.
    size_bytes = sum(entry.file_size for entry in entries)
    if size_bytes > LARGEST_UNPACKED or len(entries) > MOST_FILES:
        raise errors.SpecRejectedError(
            "CodeArchiveInvalid",
            f"{name} unpacks to {len(entries)} files with {size_bytes} bytes, and {MOST_FILES} files with "
            f"{LARGEST_UNPACKED} bytes are allowed; put what the job depends on into the image.",
        )
    folders = {parent.as_posix() for entry in entries for parent in PurePosixPath(entry.filename).parents}
    for entry in entries:
        path = entry.filename
        is_link = stat.S_ISLNK(entry.external_attr >> 16)
        leads_out = "\\" in path or ":" in path or any(part in ("", ".", "..") for part in path.split("/"))
        if is_link or leads_out or path in folders:
            raise errors.SpecRejectedError(
                "CodeArchiveInvalid",
                f"{name} has the entry {entry.filename!r}, which is a link, leads out of its folder, or is also a folder; "
                "nothing was unpacked. Make the zip again from plain files.",
            )
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise errors.SpecRejectedError(
                "CodeArchiveInvalid",
                f"{name} has the entry {entry.filename!r}, which is neither stored nor deflated; nothing was unpacked. Make "
                "the zip again with deflate, as `zip` does.",
            )
    return entries
