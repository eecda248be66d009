"""The Python API, from its docstrings: every public name, in the order of the stubs that list them."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from types import ModuleType

import pydantic
import statefulspark
from sitepages import markdown, members
from statefulspark import _exports

_TITLES = {
    "statefulspark.declaration": "Queries",
    "statefulspark.job": "The job",
    "statefulspark.operators": "Operators",
    "statefulspark.planning": "Sources",
    "statefulspark.sinks": "Secrets",
    "statefulspark.state": "Keyed state",
    "statefulspark.state_reading": "Reading state",
}
_GUIDES = {
    "Keyed state": "[Keyed state](../state.md)",
    "Operators": "[Keyed state](../state.md)",
    "ss.sinks": "[Sinks](../sinks.md)",
    "ss.sinks.spi": "[A sink of your own](../sinks.md#a-sink-of-your-own)",
    "ss.driver": "[Functions on the driver](../operator-state.md)",
    "ss.codecs": "[Classes of your own](../state.md)",
    "ss.compat": "[Spark's own operators](../state.md#sparks-statefulprocessor-unchanged)",
    "ss.testing": "[Test a job without a cluster](../testing.md)",
}
_DOORS = ("sinks", "sinks.spi", "driver", "codecs", "compat", "testing")
"""Public modules with a stub that lists their names; `ss.errors` has classes of its own, and `__all__`."""
_FENCED = re.compile(r"(```.*?```)", re.DOTALL)
_SECTIONS = re.compile(r"^(Args|Returns|Yields|Raises|Attributes|Example|Examples|Note):$")


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Python API",
        "Everything that `import statefulspark as ss` gives, from the docstrings: first the names of `ss`, then those of "
        f"{', '.join(f'`ss.{door}`' for door in _DOORS)}, and `ss.errors`.",
    )
    for title, names in _groups().items():
        lines.extend(_section(title, statefulspark, names))
    for door in _DOORS:
        module = importlib.import_module(f"statefulspark.{door}")
        lines.extend(_section(f"ss.{door}", module, dir(module)))
    lines.extend(_section("ss.errors", statefulspark.errors, statefulspark.errors.__all__))
    return markdown.finish(lines)


def _section(title: str, module: ModuleType, names: Iterable[str]) -> Iterator[str]:
    yield from (f"## {title}", "")
    if title in _GUIDES:
        yield from (f"With examples: {_GUIDES[title]}.", "")
    for name in names:
        if not name.startswith("__") and not inspect.ismodule(getattr(module, name)):
            yield from _entry(name, module)


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, module in _exports.homes(vars(statefulspark)).items():
        if module == statefulspark.__name__:
            continue
        home = next((prefix for prefix in (module, ".".join(module.split(".")[:2])) if prefix in _TITLES), module)
        groups.setdefault(_TITLES.get(home, home), []).append(name)
    return dict(sorted(groups.items(), key=lambda item: _order(item[0])))


def _order(title: str) -> tuple[int, str]:
    order = ("The job", "Queries", "Operators", "Keyed state", "Sources")
    return (order.index(title) if title in order else len(order), title)


def _entry(name: str, public: ModuleType) -> Iterator[str]:
    thing = getattr(public, name)
    yield from (f"### {name}", "")
    if inspect.isclass(thing):
        yield from _class(name, thing)
    elif callable(thing):
        yield from _signature(name, thing)
        yield from _docstring(thing.__doc__)
    else:
        yield from _constant(name, public)


def _constant(name: str, public: ModuleType) -> Iterator[str]:
    """Yield what the source says below a constant."""
    module = importlib.import_module(_exports.homes(vars(public))[name])
    for candidate in (module, *_modules_below(module)):
        found = dict(members.docstrings(ast.parse(inspect.getsource(candidate)).body))
        if name in found:
            yield from (markdown.prose(found[name]), "")
            return


def _modules_below(module: object) -> Iterator[typing.Any]:
    prefix = f"{getattr(module, '__name__', '')}."
    yield from (each for name, each in sorted(sys.modules.items()) if name.startswith(prefix))


def _class(name: str, kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from _docstring(kind.__doc__)
        said = members.described(kind)
        rows = [(f"`{name}.{member.name}`", markdown.prose(said.get(member.name, ""))) for member in kind]
        yield from markdown.table(("member", "meaning"), rows)
        return
    if not _is_abstract(kind) and not issubclass(kind, Exception | pydantic.BaseModel):
        yield from _signature(name, kind)
    yield from _docstring(kind.__doc__ if kind.__doc__ and not _is_made(kind) else None)
    for method, function in _methods(kind):
        yield from (f"#### {name}.{method}", "")
        if isinstance(function, property):
            yield from _docstring(function.__doc__)
        else:
            yield from _signature(f"{name}.{method}", function)
            yield from _docstring(function.__doc__)


def _is_made(kind: type) -> bool:
    """Tell whether `dataclass` made the docstring, which is only the signature."""
    return (kind.__doc__ or "").startswith(f"{kind.__name__}(")


def _is_abstract(kind: type) -> bool:
    return getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)


def _methods(kind: type) -> Iterator[tuple[str, typing.Any]]:
    """Yield public methods and properties with a docstring, those of its bases too unless they are not ours."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("statefulspark"):
            continue
        for name, value in vars(base).items():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            is_method = inspect.isfunction(plain) or isinstance(plain, property)
            if is_method and not name.startswith("_") and name not in seen and plain.__doc__:
                seen.add(name)
                yield name, plain


class _Written:
    """An annotation as it stands in the source, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(name: str, function: typing.Any) -> Iterator[str]:
    signature = _plain(inspect.signature(function))
    text = f"{name}{signature}"
    if len(text) > 100:
        arguments = _arguments(signature)
        end = text[text.rindex(")") + 1 :] if ") ->" in text else ""
        text = "\n".join((f"{name}(", *(f"    {argument}," for argument in arguments), f"){end}"))
    yield from ("```text", text, "```", "")


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    is_marked = False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            is_marked = True
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        yield str(parameter)


def _plain(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        each.replace(annotation=_written(each.annotation), default=_default(each.default))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return signature.replace(parameters=parameters, return_annotation=_written(signature.return_annotation))


def _written(annotation: typing.Any) -> typing.Any:
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _default(value: typing.Any) -> typing.Any:
    """Return a default that is the same in every process."""
    if value is inspect.Parameter.empty or isinstance(value, str | int | float | tuple | bytes | None):
        return value
    if isinstance(value, Enum):
        return _Written(f"{type(value).__name__}.{value.name}")
    if dataclasses.is_dataclass(value):
        return value
    return _Written(getattr(value, "__name__", "…"))


def _docstring(text: str | None) -> Iterator[str]:
    """Yield a docstring of Google's style as Markdown."""
    block: list[str] = []
    section = ""
    for line in [*inspect.cleandoc(text or "").splitlines(), "Note:"]:
        begins = _SECTIONS.match(line)
        if begins is None:
            block.append(line)
            continue
        yield from _part(section, block)
        section, block = begins[1], []


def _part(section: str, block: list[str]) -> Iterator[str]:
    text = textwrap.dedent("\n".join(block)).strip("\n")
    if not text:
        return
    if section in ("Args", "Attributes", "Raises"):
        title = {"Args": "Arguments", "Raises": "Errors"}.get(section, section)
        yield from (f"**{title}**", "")
        for item in re.split(r"\n(?=\S)", text):
            name, _, meaning = " ".join(item.split()).partition(": ")
            yield f"- `{name}`: {markdown.prose(meaning)}"
        yield ""
        return
    if section in ("Returns", "Yields"):
        yield f"**{section}**"
        yield ""
    yield from _paragraphs(text)


def _paragraphs(text: str) -> Iterator[str]:
    for number, part in enumerate(_FENCED.split(text)):
        if number % 2:
            yield from (part, "")
            continue
        for paragraph in part.strip("\n").split("\n\n"):
            yield from _paragraph(paragraph)


def _paragraph(text: str) -> Iterator[str]:
    if text.startswith("    "):
        yield from ("```text", textwrap.dedent(text), "```", "")
    elif text.lstrip().startswith(("- ", "* ")):
        yield from (text, "")
    elif text.strip():
        yield from (markdown.prose(text), "")
