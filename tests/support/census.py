"""How large the project is, and how finely it is cut: the figures by which it is kept small.

A *single-use helper* is a private function or method that its module mentions exactly once, apart from the definition.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("jobruntime/src", "operator/src")
TESTS = ("tests",)


@dataclass(frozen=True, slots=True)
class Census:
    """Figures of some folders.

    Attributes:
        modules: Python modules.
        lines: Lines of them.
        functions: Functions and methods.
        single_use: Those that are single-use helpers.
    """

    modules: int
    lines: int
    functions: int
    single_use: int

    @property
    def single_use_share(self) -> float:
        """Single-use helpers among all functions."""
        return self.single_use / max(1, self.functions)


def count(root: Path, folders: Sequence[str]) -> Census:
    """Count what is in some folders below a root."""
    texts = [path.read_text("utf-8") for path in _modules(root, folders)]
    trees = [ast.parse(text) for text in texts]
    return Census(
        modules=len(texts),
        lines=sum(text.count("\n") for text in texts),
        functions=sum(1 for tree in trees for _ in _functions(tree)),
        single_use=sum(len(single_use_helpers(tree)) for tree in trees),
    )


def _modules(root: Path, folders: Sequence[str]) -> list[Path]:
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.AST) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _Function))


def single_use_helpers(tree: ast.Module) -> list[_Function]:
    """Return the single-use helpers of a module; a name that is defined twice stands for no single function."""
    functions = list(_functions(tree))
    defined = Counter(function.name for function in functions)
    mentioned = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    return [
        function
        for function in functions
        if function.name.startswith("_")
        and not function.name.endswith("__")
        and defined[function.name] == mentioned[function.name] == 1
    ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="make census", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", metavar="FOLDER", help="list the single-use helpers below a folder, with their lines")
    arguments = parser.parse_args()
    if arguments.list:
        for path in _modules(Path(), [arguments.list]):
            for helper in single_use_helpers(ast.parse(path.read_text("utf-8"))):
                print(f"{path}:{helper.lineno} {helper.name} {(helper.end_lineno or 0) - helper.lineno + 1}")
        return
    counted = {"product": count(ROOT, PRODUCT), "tests": count(ROOT, TESTS)}
    if arguments.json:
        print(json.dumps({name: asdict(census) for name, census in counted.items()}, indent=2))
        return
    for name, census in counted.items():
        print(
            f"{name:8} {census.modules:>5,} modules {census.lines:>8,} lines {census.functions:>6,} functions, "
            f"{census.single_use_share:.1%} of them single-use helpers"
        )


if __name__ == "__main__":
    main()
