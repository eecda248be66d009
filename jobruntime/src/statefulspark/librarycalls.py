"""Finds calls of this library in a job file that can never work, without running them. Pure.

Query functions are called after Spark is up, so that a missing uid or a misspelt name in one would be told late. A name
that the file binds to anything else, a call with `*args` or `**kwargs`, and whatever a `try` guards are left to Python.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from statefulspark import errors, usercode

_LIBRARY = "statefulspark"


def refuse_wrong(tree: ast.Module, file: Path, library: ModuleType) -> None:
    """Refuse a job file that calls the library in a way that raises.

    Args:
        tree: The file.
        file: Its path, for the message.
        library: `statefulspark`.

    Raises:
        SpecRejectedError: `JobFileRaised`, naming the first such line and what Python would raise there.
    """
    for line, why in sorted(_wrong(tree, library)):
        raise errors.SpecRejectedError(
            "JobFileRaised", f"The job file {file} line {line} raises {why}. {usercode.CORRECT_IT}"
        )


def _wrong(tree: ast.Module, library: ModuleType) -> Iterator[tuple[int, str]]:
    modules, names = _imported(tree)
    for node in _unguarded(tree, modules):
        match node:
            case ast.Attribute(value=owner, attr=name):
                module = _module(owner, modules, library)
                if module is not None and _is_unknown(module, name):
                    hint = _meant(name, dir(module))
                    yield node.lineno, f"AttributeError: module {module.__name__!r} has no attribute {name!r}{hint}"
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                module = _module(owner, modules, library)
                if module is not None:
                    yield from _wrong_call(node, module, name)
            case ast.Call(func=ast.Name(id=local)) if local in names:
                yield from _wrong_call(node, library, names[local])
            case _:
                pass


def _module(node: ast.expr, modules: set[str], library: ModuleType) -> ModuleType | None:
    """Return the module that an expression is: the library, or a public module of it such as `ss.sinks`."""
    match node:
        case ast.Name(id=alias) if alias in modules:
            return library
        case ast.Attribute(value=ast.Name(id=alias), attr=name) if alias in modules and not _is_unknown(library, name):
            public = getattr(library, name)
            return public if isinstance(public, ModuleType) else None
        case _:
            return None


def _imported(tree: ast.Module) -> tuple[set[str], dict[str, str]]:
    """Return the names of the library itself, and of what is imported from it, that the file uses for nothing else."""
    modules: set[str] = set()
    names: dict[str, str] = {}
    bound: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules |= {alias.asname or alias.name for alias in aliases if alias.name == _LIBRARY}
                bound += [alias.asname or alias.name for alias in aliases if alias.name != _LIBRARY]
            case ast.ImportFrom(module=module, names=aliases):
                if module == _LIBRARY:
                    names |= {alias.asname or alias.name: alias.name for alias in aliases}
                else:
                    bound += [alias.asname or alias.name for alias in aliases]
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                bound.append(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.append(name)
            case _:
                pass
    return modules - set(bound), {local: name for local, name in names.items() if local not in bound}


def _unguarded(node: ast.AST, modules: set[str]) -> Iterator[ast.AST]:
    """Yield the nodes below a node that neither a `try` nor an `if` that asks the library guards."""
    if isinstance(node, ast.Try | ast.TryStar):
        return
    if isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id in modules for part in ast.walk(node.test)
    ):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _unguarded(child, modules)


def _is_unknown(library: ModuleType, name: str) -> bool:
    try:
        return not hasattr(library, name)
    except ImportError:  # An extra that is not installed, which says so when it is used.
        return False


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _wrong_call(call: ast.Call, library: ModuleType, name: str) -> Iterator[tuple[int, str]]:
    has_stars = any(isinstance(argument, ast.Starred) for argument in call.args)
    if has_stars or any(keyword.arg is None for keyword in call.keywords) or _is_unknown(library, name):
        return
    try:
        signature = inspect.signature(getattr(library, name))
    except (TypeError, ValueError):  # It has none.
        return
    given = {keyword.arg: keyword for keyword in call.keywords if keyword.arg}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for unknown in () if takes_any else given.keys() - signature.parameters.keys():
        meant = _meant(unknown, signature.parameters)
        yield call.lineno, f"TypeError: {name}() got an unexpected keyword argument {unknown!r}{meant}"
        return
    try:
        signature.bind(*call.args, **given)
    except TypeError as error:
        yield call.lineno, f"TypeError: {name}() {error}"
