"""The folder in which mutmut works: a copy of both distributions and of the tests, laid out the one way mutmut knows.

mutmut takes one `src` folder and leaves decorated functions alone. So the two source folders are laid over each other, and
a property, or a validator of a model, is written as a function that is made one afterwards. The working tree itself is
never changed.
"""

from __future__ import annotations

import ast
import functools
import json
import shutil
from pathlib import Path

from mutation.groups import Group

ROOT = Path(__file__).resolve().parents[3]
_SOURCES = ("jobruntime/src", "operator/src")
_OPENED = frozenset({"property", "field_validator", "model_validator"})
_UNRELATED = shutil.ignore_patterns("__pycache__", "jars", "*.egg-info")
_CONFTEST = '''"""Properties draw the same examples each time, however busy the machine is. Quick tests run first."""

import json
from pathlib import Path

import hypothesis

hypothesis.settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    max_examples=50,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("mutants")


def pytest_collection_modifyitems(items):
    measured = Path("mutmut-stats.json")
    took_s = json.loads(measured.read_text())["duration_by_test"] if measured.exists() else {}
    items.sort(key=lambda item: took_s.get(item.nodeid, 0))
'''


def lay_out(group: Group, folder: Path) -> None:
    """Make the folder anew; nothing of an earlier run is used, since a result depends on more than a function's text."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in _SOURCES:
        shutil.copytree(ROOT / source, folder / "src", ignore=_UNRELATED, dirs_exist_ok=True)
    for name in ("support", *group.tests):
        _copy(ROOT / "tests" / name, folder / "tests" / name)
    _copy(ROOT / "tests" / "golden", folder / "tests" / "golden")
    (folder / "tests" / "conftest.py").write_text(_CONFTEST)
    (folder / "pyproject.toml").write_text(_settings(group))
    for path in changed_files(group, folder):
        path.write_text(with_plain_methods(path.read_text()))


def changed_files(group: Group, folder: Path) -> tuple[Path, ...]:
    """Return the files of the group's modules.

    Raises:
        SystemExit: A module is named of which there is no file.
    """
    found = {pattern: sorted((folder / "src").glob(pattern)) for pattern in group.modules}
    empty = [pattern for pattern, paths in found.items() if not paths]
    if empty:
        raise SystemExit(f"{group.name}: there is no {', '.join(empty)}; mend tests/support/mutation/groups.py.")
    return tuple(path for paths in found.values() for path in paths)


def with_plain_methods(source: str) -> str:
    """Write every decorated method as a function, and below it what makes it one: the same class, open to mutants.

    These are properties and pydantic's validators, as in `name = property(name)` and
    `name = field_validator("uri")(classmethod(name))`.
    """
    lines = source.splitlines()
    for method in sorted(_decorated(ast.parse(source)), key=lambda one: one.lineno, reverse=True):
        made = functools.reduce(
            lambda inner, one: f"{ast.unparse(one)}({inner})", method.decorator_list[::-1], method.name
        )
        lines.insert(method.end_lineno or 0, f"{' ' * method.col_offset}{method.name} = {made}")
        del lines[method.decorator_list[0].lineno - 1 : method.lineno - 1]
    return "\n".join(lines) + "\n"


def _decorated(tree: ast.Module) -> list[ast.FunctionDef]:
    methods = [one for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body]
    return [one for one in methods if isinstance(one, ast.FunctionDef) and _is_opened(one)]


def _is_opened(method: ast.FunctionDef) -> bool:
    """Tell whether a method has only decorators that may as well be called; mutmut knows one `classmethod` itself."""
    called = [one.func if isinstance(one, ast.Call) else one for one in method.decorator_list]
    names = [one.id if isinstance(one, ast.Name) else "" for one in called]
    return bool({*names} & _OPENED) and {*names} <= {*_OPENED, "classmethod"}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _settings(group: Group) -> str:
    """Write mutmut's settings and pytest's: warnings are errors here, too, so that a mutant that warns dies."""
    tests = [f"tests/{name}" for name in group.tests]
    modules = [f"src/{name}" for name in group.modules]
    return f"""
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "--strict-markers", "--strict-config", "-p", "no:cacheprovider"]
pythonpath = ["src", "tests/support"]
filterwarnings = ["error", "ignore::ResourceWarning"]
markers = ["spark: needs Spark", "s3: needs an S3 server", "api: needs an API server", "slow: takes long"]

[tool.mutmut]
source_paths = ["src/"]
only_mutate = {json.dumps(modules)}
do_not_mutate_patterns = ["assert_never"]
pytest_add_cli_args_test_selection = {json.dumps(tests)}
use_git_change_detection = false
use_setproctitle = false
track_dependencies = false
timeout_multiplier = 2.0
timeout_constant = 3.0
"""
