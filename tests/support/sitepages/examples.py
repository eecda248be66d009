"""The index of the examples, from their first sentences."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from sitepages import markdown

_ROOT = Path(__file__).resolve().parents[3]
_COMMAND = r"^ *{program} .*"
_PROGRAMS = ("statefulspark run", "python")
_FUNCTIONS = "tests/unit/operatorstate/test_examples.py"
_ON_FLIGHTS = "tests/spark/driver/test_examples.py"
_ON_SPARK = "tests/spark/testing/test_examples.py"
_PROCESSORS = "tests/unit/operators/transform/test_examples.py"
_WITHOUT_SPARK = "tests/unit/testing/test_examples.py"
TESTS = {
    "flights/delay_statistics.py": _ON_FLIGHTS,
    "flights/first_arrivals.py": _ON_FLIGHTS,
    "flights/flights.py": _ON_SPARK,
    "flights/flights_broken.py": _ON_SPARK,
    "flights/flights_v2.py": _ON_SPARK,
    "flights/prepare.py": _ON_FLIGHTS,
    "kafka/large_orders.py": _ON_SPARK,
    "keyed/card_fraud.py": _ON_SPARK,
    "keyed/count_window_average.py": _WITHOUT_SPARK,
    "keyed/sessions.py": "tests/spark/testing/test_query_harness.py",
    "notebook/first_job.ipynb": _ON_FLIGHTS,
    "operator_state/broadcast_rules.py": _FUNCTIONS,
    "operator_state/buffering_sink.py": _FUNCTIONS,
    "operator_state/counter_source.py": "tests/unit/operatorstate/test_sources.py",
    "operator_state/master_hook.py": _FUNCTIONS,
    "quickstart/counter.py": _WITHOUT_SPARK,
    "sinks/totals.py": _ON_SPARK,
    "transform_with_state/fraud.py": _PROCESSORS,
    "transform_with_state/sensors.py": _PROCESSORS,
    "transform_with_state/sessions.py": "tests/unit/operators/groupstate/test_example.py",
}
"""The test of each example."""


def page() -> str:
    """Return the page."""
    lines = markdown.head(
        "Examples",
        "Every example with what it shows, the command that runs it, and the test that says that it does so. `--dev` keeps "
        "its state beside the file, and `--storage s3://bucket/prefix` where it survives the machine. What a command "
        "needs before it, such as input or tables, is at the top of the file. `make demo` runs the flights on this "
        "machine, `make demo-kubernetes` on a cluster.",
    )
    lines.extend(markdown.table(("example", "what it shows", "run it with", "tested by", "more"), _rows()))
    return markdown.finish(lines)


def files() -> tuple[Path, ...]:
    """Return each Python file of an example with a docstring, and each notebook, folder by folder."""
    found = (path for path in (_ROOT / "examples").glob("*/*") if path.suffix in (".py", ".ipynb"))
    return tuple(path for path in sorted(found) if _shown(path) is not None)


def command(file: Path) -> str | None:
    """Return the command at the top of an example, in one line."""
    if file.suffix == ".ipynb":
        return f"jupyter notebook {file.relative_to(_ROOT).as_posix()}"
    told = (re.search(_COMMAND.format(program=program), _shown(file) or "", re.M) for program in _PROGRAMS)
    match = next((each for each in told if each is not None), None)
    return re.sub(r"\s+", " ", match[0].strip()) if match else None


def _rows() -> Iterator[tuple[str, ...]]:
    for file in files():
        readme = file.parent / "README.md"
        more = f"[{file.parent.name}]({_link(readme)})" if readme.is_file() else ""
        name = f"{file.parent.name}/{file.name}"
        test = _ROOT / TESTS[name]
        yield (
            f"[`{name}`]({_link(file)})", markdown.prose(_first_sentence(_shown(file) or "")),
            markdown.code(command(file)), f"[`{test.name}`]({_link(test)})", more,
        )  # fmt: skip


def _shown(file: Path) -> str | None:
    """Return what a file says of itself: its docstring, or the title of a notebook."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        return "".join(json.loads(text)["cells"][0]["source"]).partition("\n")[0].removeprefix("# ") + "."
    return ast.get_docstring(ast.parse(text))


def _link(file: Path) -> str:
    return f"../{file.relative_to(_ROOT).as_posix()}"


def _first_sentence(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0]
