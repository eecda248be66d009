"""What the source says of the members of an enum, in the docstrings below them."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping
from enum import Enum


def described(enum: type[Enum]) -> Mapping[str, str]:
    """Return the docstring of each member by its name; members without one are absent."""
    definition = ast.parse(inspect.getsource(enum)).body[0]
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{enum} is no class")
    return dict(docstrings(definition.body))


def docstrings(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            text = following.value
            if isinstance(target, ast.Name) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield target.id, " ".join(text.value.split())
