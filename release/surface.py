"""What each release promised by name, and what this tree breaks of it.

`release/surfaces/` has a folder for each release: its CRDs, the Python library as a stub, its HTTP API, commands and
metrics. `python -m release.surface --write` adds the one of this tree, and `--check` compares the tree with all of them. A
break is possible in a version that announces one (`docs/releases.md`); there, a name of the library goes only if it was
deprecated before.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe
from statefulspark.server import metrics as driver_metrics
from statefulspark_operator.api import crd
from statefulspark_operator.telemetry import metrics as operator_metrics

from release import artifacts, calls, stub, versions

RELEASED = Path(__file__).with_name("surfaces")
_PYTHON, _METRICS = "python.pyi", "metrics.txt"
_WIDEST = frozenset({"Any", "object"})


def files() -> dict[str, str]:
    """Return the surface of this tree: the content of each file by its name."""
    http, commands = {calls.HTTP: calls.http_text()}, {calls.COMMANDS: calls.commands_text()}
    return {**crd.files(), _PYTHON: stub.text(), _METRICS: metrics_text(), **http, **commands}


def metrics_text() -> str:
    """Return every metric on a line: its type, its name and its labels."""
    operator = (
        *operator_metrics.JobMetrics().families(),
        *operator_metrics.operator_families(jobs=0, passes=0, failed_passes=0),
    )
    lines = [
        f"driver {family.kind} {driver_metrics.PREFIX}{family.name} {' '.join((*driver_metrics.JOB_LABELS, *family.labels))}"
        for family in driver_metrics.FAMILIES
    ]
    for family in operator:
        suffix = "_total" if family.type == "counter" else ""
        lines.append(f"operator {family.type} {family.name}{suffix} {' '.join(getattr(family, '_labelnames', ()))}")
    return "\n".join(sorted(line.rstrip() for line in lines)) + "\n"


def breaks(version: str, current: dict[str, str], released: Path) -> Iterator[str]:
    """Yield what a tree breaks of the releases before it, one sentence each. The operator's command compares the CRDs.

    Args:
        version: The version that the tree states.
        current: The surface of the tree.
        released: Folder with the surface of each release.
    """
    for folder in sorted(path for path in released.iterdir() if path.is_dir()):
        if folder.name == version:
            continue  # The release itself, from the commit that made it.
        old_stub = (folder / _PYTHON).read_text()
        if _line(folder.name) == _line(version):
            found = (
                *python_breaks(old_stub, current[_PYTHON]),
                *metric_breaks((folder / _METRICS).read_text(), current[_METRICS]),
                *calls.breaks((folder / calls.HTTP).read_text(), current[calls.HTTP]),
                *calls.breaks((folder / calls.COMMANDS).read_text(), current[calls.COMMANDS]),
            )
        else:
            found = tuple(undeprecated_removals(old_stub, current[_PYTHON]))
        yield from (f"{folder.name}: {sentence}" for sentence in found)


def _line(version: str) -> tuple[str, ...]:
    """Return the part of a version that a break raises."""
    major, minor, *_ = re.split(r"[.+-]", version)
    return (major, minor) if major == "0" else (major,)


def metric_breaks(released: str, current: str) -> Iterator[str]:
    """Yield a sentence for each released metric that is gone, or has another type or other labels."""
    before, now = _metrics(released), _metrics(current)
    for name, (kind, labels) in before.items():
        if name not in now:
            yield f"the metric {name} is gone."
        elif now[name] != (kind, labels):
            yield f"the metric {name} was a {kind} with {labels}, and is a {now[name][0]} with {now[name][1]}."


def _metrics(text: str) -> dict[str, tuple[str, str]]:
    lines = (line.split() for line in text.splitlines() if line)
    return {f"{name} of the {source}": (kind, ", ".join(sorted(labels))) for source, kind, name, *labels in lines}


def python_breaks(released: str, current: str) -> Iterator[str]:
    """Yield a sentence for each change after which code that was right against a released stub may fail."""
    before, now = _parsed(released), _parsed(current)
    for found in griffe.find_breaking_changes(before, now):
        yield _sentence(found)
    yield from _type_breaks(before, now)


def undeprecated_removals(released: str, current: str) -> Iterator[str]:
    """Yield a sentence for each name that is gone, and that the release did not say would go."""
    for found in griffe.find_breaking_changes(_parsed(released), _parsed(current)):
        if found.kind is griffe.BreakageKind.OBJECT_REMOVED and not _is_deprecated(found.obj):
            yield f"{_name(found.obj)} is gone, and was not deprecated."


def _is_deprecated(member: griffe.Object | griffe.Alias) -> bool:
    decorators = getattr(member, "decorators", ())
    if any(str(decorator.value).startswith("deprecated(") for decorator in decorators):
        return True
    return member.parent is not None and _is_deprecated(member.parent)


def _parsed(text: str) -> griffe.Module:
    return griffe.visit("surface", filepath=Path(_PYTHON), code=text)


def _name(member: griffe.Object | griffe.Alias) -> str:
    return member.path.removeprefix("surface.")


def _sentence(found: griffe.Breakage) -> str:
    subject = _name(found.obj)
    parameter = found.old_value if found.old_value is not None else found.new_value
    if isinstance(parameter, griffe.Parameter):
        subject = f"{subject}({parameter.name})"
    return f"{subject}: {found.kind.value[0].lower()}{found.kind.value[1:]}."


def _type_breaks(before: griffe.Object | griffe.Alias, now: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield what griffe does not compare: types, values of constants, and what a subclass has to define."""
    if before.is_class:
        for name in now.members.keys() - before.members.keys():
            if _is_abstract(now.members[name]):
                yield f"{_name(now.members[name])}: a subclass has to define it."
    for name, old in before.members.items():
        new = now.members.get(name)
        if new is None or old.is_alias or old.kind is not new.kind:
            continue
        if isinstance(old, griffe.Function) and isinstance(new, griffe.Function):
            yield from _signature_breaks(old, new)
        elif isinstance(old, griffe.Attribute) and isinstance(new, griffe.Attribute):
            if str(old.value) != str(new.value):
                yield f"{_name(old)}: its value was {old.value}, and is {new.value}."
            if not _alternatives(new.annotation) <= _alternatives(old.annotation):
                yield f"{_name(old)}: its type was {old.annotation}, and is {new.annotation}."
        else:
            yield from _type_breaks(old, new)


def _signature_breaks(old: griffe.Function, new: griffe.Function) -> Iterator[str]:
    if _is_abstract(new) and not _is_abstract(old):
        yield f"{_name(old)}: a subclass has to define it."
    for parameter in old.parameters:
        if parameter.name not in new.parameters:
            continue  # griffe says so.
        accepted = _alternatives(new.parameters[parameter.name].annotation)
        if not _alternatives(parameter.annotation) <= accepted and not accepted & _WIDEST:
            now = new.parameters[parameter.name].annotation
            yield f"{_name(old)}({parameter.name}): its type was {parameter.annotation}, and is {now}."
    may_return = _alternatives(old.returns)
    if not _alternatives(new.returns) <= may_return and not may_return & _WIDEST:
        yield f"{_name(old)}: it returned {old.returns}, and returns {new.returns}."


def _is_abstract(member: griffe.Object | griffe.Alias) -> bool:
    return any(str(decorator.value) == "abstractmethod" for decorator in getattr(member, "decorators", ()))


def _alternatives(annotation: griffe.Expr | str | None) -> frozenset[str]:
    """Return the members of a union, and of the literals in it."""
    if annotation is None:
        return frozenset({"None"})
    parts = [ast.parse(str(annotation), mode="eval").body]
    alternatives: set[str] = set()
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
            parts += (part.left, part.right)
        elif isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id == "Literal":
            values = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            alternatives.update(f"Literal[{ast.unparse(value)}]" for value in values)
        else:
            alternatives.add(ast.unparse(part))
    return frozenset(alternatives)


def main() -> int:
    """Write or check the surface.

    Returns:
        0, 1 if something is broken, 2 for other arguments.
    """
    parser = argparse.ArgumentParser("release.surface", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the folder of the version that the tree states")
    action.add_argument("--check", action="store_true", help="name what the tree breaks of the releases")
    options = parser.parse_args()
    version, current = versions.agreed(versions.stated(artifacts.ROOT)), files()
    if options.write:
        folder = RELEASED / version
        folder.mkdir(exist_ok=True)
        for name, text in current.items():
            (folder / name).write_text(text)
        return 0
    broken = tuple(breaks(version, current, RELEASED))
    for sentence in broken:
        print(sentence, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
