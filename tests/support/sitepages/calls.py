"""Reads from the source which reasons are given, and with which sentences, without running any of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_WORD = re.compile(r"^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$")
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Call:
    """One place that gives a reason.

    Attributes:
        name: What is called: an error, or an announcement.
        reason: The reason.
        message: The sentence, with an ellipsis where a value stands; empty if it is made elsewhere.
        is_warning: Whether `is_warning=True` is given.
    """

    name: str
    reason: str
    message: str
    is_warning: bool


def find(folder: Path, names: Collection[str], *, other_than: Collection[str] = ()) -> Iterator[Call]:
    """Yield the calls of these names with a reason, file by file.

    Args:
        folder: Where the sources are.
        names: Functions or classes.
        other_than: Files that are left out, as paths below it.
    """
    for file in sorted(folder.rglob("*.py")):
        if file.relative_to(folder).as_posix() not in other_than:
            yield from _in_module(ast.parse(file.read_text(encoding="utf-8")), names)


def _in_module(tree: ast.Module, names: Collection[str]) -> Iterator[Call]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions or [tree]:
        values = _assigned(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name(node.func) in names:
                yield from _of_call(node, values)


def _of_call(node: ast.Call, values: dict[str, ast.expr]) -> Iterator[Call]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    texts = [argument for argument in node.args if _is_text(argument, values)]
    message = given.get("message") or (texts[-1] if len(texts) > 1 else None)
    reason = given.get("reason") or (texts[0] if texts else None)
    warns = given.get("is_warning")
    if reason is None:
        return
    for word in _words(reason, values):
        yield Call(
            name=_name(node.func),
            reason=word,
            message=_text(message, values) if message is not None else "",
            is_warning=isinstance(warns, ast.Constant) and warns.value is True,
        )


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _assigned(function: ast.AST) -> dict[str, ast.expr]:
    """Return what the function gives to its names, for names that are given a value once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _is_text(node: ast.expr, values: dict[str, ast.expr]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in values and _is_text(values[node.id], {})
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.IfExp):
        return _is_text(node.body, values) and _is_text(node.orelse, values)
    if isinstance(node, ast.BoolOp):
        return _is_text(node.values[-1], values)
    return isinstance(node, ast.JoinedStr | ast.BinOp)


def _words(node: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the words that an expression may be."""
    if isinstance(node, ast.Name) and node.id in values:
        yield from _words(values[node.id], {})
    elif isinstance(node, ast.IfExp):
        yield from _words(node.body, values)
        yield from _words(node.orelse, values)
    elif isinstance(node, ast.BoolOp):
        yield from _words(node.values[-1], values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORD.match(node.value):
        yield node.value


def _text(node: ast.expr, values: dict[str, ast.expr]) -> str:
    """Return the sentence; what is known only when it runs is an ellipsis."""
    if isinstance(node, ast.Name) and node.id in values:
        return _text(values[node.id], {})
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, values) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, values) + _text(node.right, values)
    if isinstance(node, ast.BoolOp):
        return _text(node.values[-1], values)
    return ELLIPSIS
