"""A local folder as an object store, for development and for tests.

A write creates a temporary file beside the target and renames it to the target; a create makes a hard link, which fails if
the name exists, so exactly one writer succeeds. Empty folders are removed, so that folders behave as on S3.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from statefulspark import errors
from statefulspark.storage import allowance, port
from statefulspark.storage.port import (
    MOST_BYTES,
    PAGE,
    DeletedObjects,
    ObjectInfo,
    ObjectStore,
    delete_listed,
    split_pages,
    stores_apart,
)

_TEMPORARY = ".tmp-"


class LocalStore:
    """Objects as files below one folder."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    @property
    def uri(self) -> str:
        """The root as a file:// URI without a trailing slash."""
        return f"file://{self._root}"

    def read(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """See the port."""
        path, most_bytes = self._path(key), allowance.body_limit(most_bytes)
        with self._translated("read", key), path.open("rb") as file:
            body = file.read(most_bytes + 1)
        if len(body) > most_bytes:
            raise allowance.too_large(f"{self.uri}/{key}", most_bytes)
        return body

    def read_many(self, keys: Sequence[str], *, most_bytes: int = MOST_BYTES) -> Mapping[str, bytes]:
        """See the port."""
        return {key: self.read(key, most_bytes=most_bytes) for key in keys}

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """See the port."""
        path = self._path(key)
        with self._translated("read", key), path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def write(self, key: str, body: bytes) -> None:
        """See the port."""
        target = self._path(key)
        with self._translated("write", key), self._temporary(target, body) as temporary:
            temporary.replace(target)

    def create(self, key: str, body: bytes) -> None:
        """See the port."""
        target = self._path(key)
        with self._translated("create", key), self._temporary(target, body) as temporary:
            os.link(temporary, target)

    def replace(self, key: str, body: bytes, *, etag: str) -> None:
        """See the port."""
        target = self._path(key)
        with self._translated("replace", key), self._unchanged(target, etag) as is_unchanged:
            if not is_unchanged:
                raise errors.ObjectChangedError(f"{self.uri}/{key}")
            with self._temporary(target, body) as temporary:
                temporary.replace(target)

    def info(self, key: str) -> ObjectInfo | None:
        """See the port."""
        path = self._path(key)
        try:
            with self._translated("look up", key):
                return None if path.is_dir() else self._describe(path)
        except errors.ObjectNotFoundError:
            return None

    def info_many(self, keys: Sequence[str]) -> Mapping[str, ObjectInfo | None]:
        """See the port."""
        return {key: self.info(key) for key in keys}

    def list(self, prefix: str) -> tuple[ObjectInfo, ...]:
        """See the port."""
        folder = self._folder(prefix)
        with self._translated("list", prefix):
            infos = [self._describe_if_present(path) for path in _files_below(folder)]
        return tuple(sorted((info for info in infos if info), key=lambda info: info.key))

    def pages(self, prefix: str, *, size: int = PAGE) -> Iterator[tuple[ObjectInfo, ...]]:
        """See the port."""
        return split_pages(self.list(prefix), size)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """See the port."""
        folder = self._folder(prefix)
        with self._translated("list", prefix):
            return port.direct_names([path.relative_to(folder).as_posix() for path in _files_below(folder)])

    def copy_many(self, pairs: Sequence[tuple[str, str]], *, on_progress: Callable[[int], None] | None = None) -> None:
        """See the port."""
        self.copy_from(self, pairs, on_progress=on_progress)

    def can_copy_from(self, source: ObjectStore) -> bool:
        """See the port."""
        return isinstance(source, LocalStore)

    def copy_from(
        self,
        source: ObjectStore,
        pairs: Sequence[tuple[str, str]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """See the port."""
        if not isinstance(source, LocalStore):
            raise stores_apart(source, self)
        for done, (old, new) in enumerate(pairs, start=1):
            source_path, target_path = source._path(old), self._path(new)
            with source._translated("copy", old), self._temporary(target_path, b"") as temporary:
                shutil.copyfile(source_path, temporary)
                temporary.replace(target_path)
            if on_progress:
                on_progress(done)

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        for key in keys:
            path = self._path(key)
            with self._translated("delete", key):
                path.unlink(missing_ok=True)
            self._remove_empty_folders(path.parent)

    def delete_folder(self, prefix: str) -> DeletedObjects:
        """See the port; a marker is an empty folder here."""
        deleted = delete_listed(self, prefix)
        for folder, _, _ in os.walk(self._folder(prefix), topdown=False):
            self._remove_empty_folders(Path(folder))
        return deleted

    def delete_unchanged(self, key: str, *, etag: str) -> bool:
        """See the port."""
        path = self._path(key)
        with self._translated("delete", key), self._unchanged(path, etag) as is_unchanged:
            if not is_unchanged:
                return not path.exists()
            path.unlink()
        self._remove_empty_folders(path.parent)
        return True

    def child(self, prefix: str) -> LocalStore:
        """See the port."""
        return LocalStore(str(self._folder(prefix)))

    def _path(self, key: str) -> Path:
        return self._root / port.require_key(key)

    def _folder(self, prefix: str) -> Path:
        return self._root / port.require_folder(prefix)

    def _describe(self, path: Path) -> ObjectInfo:
        status = path.stat()
        return ObjectInfo(
            key=path.relative_to(self._root).as_posix(),
            size_bytes=status.st_size,
            etag=f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}",
            modified_at=datetime.fromtimestamp(status.st_mtime, tz=UTC),
        )

    def _describe_if_present(self, path: Path) -> ObjectInfo | None:
        """Describe a listed file; None if another thread has deleted it in the meantime."""
        try:
            return self._describe(path)
        except FileNotFoundError:
            return None

    def _remove_empty_folders(self, folder: Path) -> None:
        while folder != self._root and self._root in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    @contextmanager
    def _unchanged(self, path: Path, etag: str) -> Iterator[bool]:
        """Tell whether a file is unchanged; other conditional changes of its folder wait until the block ends."""
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            yield False
            return
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            info = self._describe_if_present(path)
            yield info is not None and info.etag == etag
        finally:
            os.close(folder)

    @contextmanager
    def _temporary(self, target: Path, body: bytes) -> Iterator[Path]:
        """Write a file beside the target; it is removed at the end unless it was renamed."""
        temporary = target.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        _write_durably(temporary, body)
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _translated(self, action: str, key: str) -> Iterator[None]:
        uri = f"{self.uri}/{key}"
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            raise errors.ObjectNotFoundError(uri) from error
        except FileExistsError as error:
            raise errors.ObjectExistsError(uri) from error
        except PermissionError as error:
            raise errors.StateUnknownError(
                "AccessDenied", f"Could not {action} {uri}: {error.strerror}; check its owner."
            ) from error
        except OSError as error:
            raise errors.StateUnknownError("StorageFailed", f"Could not {action} {uri}: {error}.") from error


def _write_durably(path: Path, body: bytes) -> None:
    """Write a new file and create its folder; try again if another thread removes the empty folder in between."""
    for attempt in range(10):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise errors.StateUnknownError(
                "StorageFailed",
                f"Could not write below file://{path.parent}: a file exists where a folder is needed; remove it.",
            ) from error
        try:
            with path.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            return
        except FileNotFoundError:
            if attempt == 9:
                raise


def _files_below(folder: Path) -> list[Path]:
    return [
        Path(parent) / name
        for parent, _, files in os.walk(folder, onerror=_raise_unless_absent)
        for name in files
        if not name.startswith(_TEMPORARY)
    ]


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
