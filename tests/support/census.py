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
    texts = [path.read_text("utf-8") for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    defined = [name for tree in trees for name in _functions(tree)]
    return Census(
        len(texts), sum(map(str.count, texts, "\n" * len(texts))), len(defined), sum(map(_single_uses, trees))
    )


def _functions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _single_uses(tree: ast.Module) -> int:
    """Count the single-use helpers of a module; a name that is defined twice stands for no single function."""
    defined = Counter(_functions(tree))
    mentioned = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    private = (name for name in defined if name.startswith("_") and not name.endswith("__"))
    return sum(1 for name in private if defined[name] == 1 and mentioned[name] == 1)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="make census", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    counted = {"product": count(ROOT, PRODUCT), "tests": count(ROOT, TESTS)}
    if as_json:
        print(json.dumps({name: asdict(census) for name, census in counted.items()}, indent=2))
        return
    for name, census in counted.items():
        print(
            f"{name:8} {census.modules:>5,} modules {census.lines:>8,} lines {census.functions:>6,} functions, "
            f"{census.single_use_share:.1%} of them single-use helpers"
        )


if __name__ == "__main__":
    main()
