"""What a job file says about itself, read without running it."""

from __future__ import annotations

import ast
from pathlib import Path

from statefulspark import errors, launch


def declared_name(file: Path) -> str:
    """Return the name in the file's `Job("...")`, without running it.

    Raises:
        SpecRejectedError: `JobFileMissing`, or `NameMissing` if no call has a literal name.
        UserCodeError: `JobFileRaised`: it is no Python.
    """
    names = [name for node in ast.walk(launch.parse(file)) if (name := _job_name(node)) is not None]
    if len(names) != 1:
        raise errors.SpecRejectedError(
            "NameMissing", f'The job file {file} holds {len(names)} calls like Job("name"); name the job with --name.'
        )
    return names[0]


def _job_name(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id="Job") | ast.Attribute(attr="Job"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case _:
            return None
