"""Reads code on storage before its revision runs, and keeps a copy of it in the job's folder.

A pass that starts a revision checks its code first, and keeps it a moment later. What was checked last is remembered in
between, so that it is downloaded once; it is one object of at most 32 MiB for all jobs, and if it is forgotten, because
another job came between, the object is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statefulspark import jobcode
from statefulspark.contract import layout
from statefulspark.storage import ObjectStore

from statefulspark_operator.api.code import ObjectCode


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where the code of a job is, and where it is kept.

    Attributes:
        root: The job's folder.
        open_folder: Opens the folder at a URI, with the job's credentials.
    """

    root: ObjectStore
    open_folder: Callable[[str], ObjectStore]


@dataclass(frozen=True, slots=True)
class _Checked:
    """Verified code, for the job whose credentials have read it and for nobody else."""

    root: str
    source: ObjectCode
    body: bytes


class CodeCopies:
    """Checks code, and keeps copies of it; threads may share it, and two of them read an object twice at worst."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._checked: _Checked | None = None

    def check(self, where: CodePlace, source: ObjectCode, file: str) -> None:
        """Check that code is there, has its checksum, and has the job's file.

        Args:
            where: Where it is; what is kept of it in the job's folder is taken first.
            source: The code.
            file: The path of the job's file in it.

        Raises:
            SpecRejectedError: `CodeMissing`, `CodeChecksumMismatch`, `CodeTooLarge` or `CodeArchiveInvalid`.
            TransientError: Storage did not answer.
        """
        if jobcode.is_kept(where.root, source.sha256, source.name):
            body = jobcode.read(where.root, layout.code(source.sha256, source.name), source.sha256)
            jobcode.require_file(body, source.name, file)
            return
        body = _download(where, source)
        jobcode.require_file(body, source.name, file)
        self._checked = _Checked(where.root.uri, source, body)

    def keep(self, where: CodePlace, source: ObjectCode) -> None:
        """Copy code into the job's folder, unless it is there; raises what `check` raises."""
        checked = self._checked
        is_this = checked is not None and (checked.root, checked.source) == (where.root.uri, source)
        if not jobcode.is_kept(where.root, source.sha256, source.name):
            body = checked.body if checked is not None and is_this else _download(where, source)
            jobcode.keep(where.root, source.sha256, source.name, body)
        if is_this:
            self._checked = None


def _download(where: CodePlace, source: ObjectCode) -> bytes:
    folder, _, name = source.uri.rpartition("/")
    return jobcode.read(where.open_folder(folder), name, source.sha256)
