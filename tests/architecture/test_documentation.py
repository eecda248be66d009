"""The documentation: every link leads somewhere, code in it is code, its commands exist, and generated pages are current."""

from __future__ import annotations

import ast
import functools
import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import commandtrees
import pytest
import statefulspark as ss
import yaml
from sitepages import advice, catalogue, driver_reasons, examples, operator_reasons
from statefulspark.cli import main
from statefulspark.contract import api, engine
from statefulspark.server import metrics as driver_metrics
from statefulspark.testing import KeyedHarness
from statefulspark_operator.api import crd
from statefulspark_operator.api.spec import StatefulSparkJobSpec
from statefulspark_operator.kubectl import program
from statefulspark_operator.telemetry import metrics as operator_metrics

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    (*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("bench/**/*.md")),
    key=lambda page: page.relative_to(ROOT).as_posix(),
)
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[a-z]*)\n(?P<text>.*?)^ *(?P=ticks)$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.M)
_COMMAND = re.compile(r"^(?:\$ )?(?P<command>(?:kubectl )?statefulspark .*)$")
_NAMES = {page.relative_to(ROOT).as_posix(): page for page in PAGES}
every_page = pytest.mark.parametrize("name", _NAMES)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a page."""

    language: str
    text: str


def blocks_of(page: Path) -> tuple[Block, ...]:
    """Return the blocks of code of a page."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return tuple(Block(block["language"], textwrap.dedent(block["text"])) for block in found)


def prose_of(page: Path) -> str:
    """Return a page without its blocks of code and without code in its lines."""
    return re.sub(r"`[^`\n]*`", lambda code: "`" * len(code[0]), _FENCE.sub("", page.read_text(encoding="utf-8")))


@functools.cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(_anchor(heading["text"]) for heading in _HEADING.finditer(text))


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def links_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the relative links of a page: path, which may be empty, and anchor."""
    for link in _LINK.finditer(prose_of(page)):
        path, _, anchor = link["target"].partition("#")
        if not path.startswith(("http:", "https:", "mailto:")):
            yield path, anchor


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    broken = []
    for path, anchor in links_of(page):
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and target.is_relative_to(ROOT)
        if not is_there or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(f"{path}#{anchor}" if anchor else path)
    return broken


@every_page
def test_every_relative_link_leads_somewhere(name: str) -> None:
    assert broken_links(_NAMES[name]) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = DOCS / "index.md"

    assert [path for path, _ in links_of(page) if path == "tutorial.md"] == ["tutorial.md"]
    assert "shown-at-once-visiblebatch" in anchors_of(DOCS / "sinks.md")
    assert "stop---drain" in anchors_of(DOCS / "cli.md")


_TEST = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(\w+))?`")


@every_page
def test_every_test_that_a_page_names_exists(name: str) -> None:
    for path, function in _TEST.findall(_NAMES[name].read_text(encoding="utf-8")):
        assert (ROOT / path).is_file(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{function}"


def test_what_people_suffer_elsewhere_is_answered_with_something_to_look_at() -> None:
    lines = (DOCS / "why.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    asked = [row for row in rows[2:] if not row[0].startswith("**")]

    assert len(asked) > 80, "the rows are read"
    assert [row[0] for row in asked if len(row) != 3 or not row[1]] == []
    assert [row[0] for row in asked if not (_LINK.search(row[2]) or _TEST.search(row[2]))] == []


@every_page
def test_python_in_a_page_is_python(name: str) -> None:
    for block in blocks_of(_NAMES[name]):
        if block.language == "python":
            ast.parse(block.text, filename=name)


@every_page
def test_yaml_and_json_in_a_page_can_be_read(name: str) -> None:
    for block in blocks_of(_NAMES[name]):
        if block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        if block.language == "json" and "…" not in block.text:
            json.loads(block.text)


@every_page
def test_names_of_the_library_in_examples_exist(name: str) -> None:
    used = {
        ast.unparse(node)
        for block in blocks_of(_NAMES[name])
        if block.language == "python"
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Attribute) and re.fullmatch(r"ss(\.\w+)+", ast.unparse(node))
    }
    told = set(re.findall(r"`(ss\.[A-Za-z_.]+[A-Za-z])", _NAMES[name].read_text(encoding="utf-8")))

    assert {dotted for dotted in used | told if not _exists(dotted)} == set()


def _exists(dotted: str) -> bool:
    """Tell whether a name is public: `ss.Job`, `ss.sinks.KafkaSink`, `ss.Secret.env`."""
    owner: object = ss
    for part in dotted.split(".")[1:]:
        if part not in dir(owner):
            return False
        owner = getattr(owner, part)
    return True


_CRDS = {
    "StatefulSparkJob": crd.build_crd(),
    "SparkSavepoint": crd.build_savepoint_crd(),
}


def _schema(kind: str) -> dict[str, Any]:
    return _CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def unknown_fields(schema: dict[str, Any], value: object, path: str = "") -> Iterator[str]:
    """Yield the fields of a document that its schema does not have."""
    if isinstance(value, list):
        for child in value:
            yield from unknown_fields(schema.get("items", {}), child, path)
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, child in value.items():
        below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if below is None:
            yield f"{path}.{name}"
        elif isinstance(below, dict):
            yield from unknown_fields(below, child, f"{path}.{name}")


def resources_of(page: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield resources of ours in a page: manifests, parts of specs, and patches; each with its kind."""
    for block in blocks_of(page):
        if block.language == "yaml":
            for document in yaml.safe_load_all(block.text):
                if isinstance(document, dict) and set(document) & {"spec", "kind"}:
                    yield str(document.get("kind", "StatefulSparkJob")), {"spec": document.get("spec", {})}
        for patch in re.findall(r"-p '(\{.*?\})'", block.text, re.S):
            yield "StatefulSparkJob", json.loads(patch)


@every_page
def test_every_field_in_a_manifest_of_a_page_exists(name: str) -> None:
    for kind, document in resources_of(_NAMES[name]):
        if kind in _CRDS:
            assert list(unknown_fields(_schema(kind), document)) == []


def test_a_field_that_does_not_exist_is_found() -> None:
    document = {"spec": {"checkpoint": {"intervall": "1s"}, "job": {"parameters": {"any": "thing"}}}}

    assert list(unknown_fields(_schema("StatefulSparkJob"), document)) == [".spec.checkpoint.intervall"]


def test_the_flights_example_is_a_valid_resource_with_no_unknown_field() -> None:
    *_, job = yaml.safe_load_all((ROOT / "examples" / "flights" / "job.yaml").read_text(encoding="utf-8"))
    spec = StatefulSparkJobSpec.model_validate(job["spec"])

    assert json.loads(spec.model_dump_json(by_alias=True, exclude_unset=True)) == job["spec"]


_FIELD = re.compile(r"`((?:status\.)?[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+)(?::[^`]*)?`")
_FOR_USERS = [name for name in _NAMES if re.match(r"docs/(concepts|howto|migrate|trouble)/", name)]


@pytest.mark.parametrize("name", _FOR_USERS)
def test_every_field_that_a_page_talks_about_exists(name: str) -> None:
    root = _schema("StatefulSparkJob")["properties"]
    text = _NAMES[name].read_text(encoding="utf-8")
    if name.startswith("docs/migrate/"):
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.M)  # the first column has the names of the other engine
    told = [field.split(".") for field in _FIELD.findall(text)]

    ours = [path for path in told if path[0] == "status" or path[0] in root["spec"]["properties"]]
    assert [".".join(path) for path in ours if not _has(root, path)] == []


def _has(root: dict[str, Any], path: list[str]) -> bool:
    schema, rest = (root["status"], path[1:]) if path[0] == "status" else (root["spec"], path)
    for name in rest:
        schema = schema.get("properties", {}).get(name) or {}
        if not schema:
            return False
        if schema.get("type") == "array" or "additionalProperties" in schema:
            return True
    return True


@every_page
def test_every_metric_in_a_page_exists(name: str) -> None:
    told = set(re.findall(r"\bstatefulspark_[a-z_]+\b", _NAMES[name].read_text(encoding="utf-8")))

    assert told - _METRICS - {"statefulspark_operator", "statefulspark_sinks", "statefulspark_function_"} == set()


def _metrics() -> Iterator[str]:
    families = (
        *operator_metrics.JobMetrics().families(),
        *operator_metrics.operator_families(jobs=0, passes=0, failed_passes=0),
    )
    for family in families:
        yield f"{family.name}_total" if family.type == "counter" else family.name
    for family in driver_metrics.FAMILIES:
        yield f"{driver_metrics.PREFIX}{family.name}"
        yield f"{driver_metrics.PREFIX}{family.name}_total"


_METRICS = frozenset(_metrics())


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the calls of our two commands in blocks for a console, as words."""
    for block in blocks_of(page):
        if block.language in ("console", "", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                found = _COMMAND.match(line.strip())
                if found is not None:
                    yield _words(found["command"])


def _words(command: str) -> list[str]:
    words = shlex.split(command, comments=True)
    ends = [place for place, word in enumerate(words) if word in ("&&", "|", "&", ";")]
    return words[: ends[0]] if ends else words


_PROGRAMS = {"statefulspark": main.program, "kubectl": program.program}


@every_page
def test_every_command_in_a_page_exists_with_its_flags(name: str) -> None:
    for words in commands_of(_NAMES[name]):
        arguments = words[2:] if words[0] == "kubectl" else words[1:]
        if "--help" not in arguments:
            commandtrees.parse(_PROGRAMS[words[0]], arguments)


@pytest.mark.parametrize("name", catalogue.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    committed = (DOCS / name).read_text(encoding="utf-8")

    assert committed == catalogue.PAGES[name](), (
        f"docs/{name} is not what the code says; run `make docs-pages` and commit."
    )


def test_every_example_has_a_command_and_a_test() -> None:
    files = {f"{file.parent.name}/{file.name}": file for file in examples.files()}

    assert [name for name, file in files.items() if examples.command(file) is None] == []
    assert sorted(examples.TESTS) == sorted(files)
    for name, test in examples.TESTS.items():
        assert re.search(rf"\b{Path(name).stem}\b", (ROOT / test).read_text(encoding="utf-8")), (name, test)


@pytest.mark.parametrize(
    "file", [file for file in examples.files() if file.suffix == ".py"], ids=lambda file: file.name
)
def test_the_command_of_an_example_has_flags_that_exist(file: Path) -> None:
    words = shlex.split(examples.command(file) or "")

    if words[0] == "statefulspark":
        assert commandtrees.parse(main.program, words[1:]).params["file"] == file.relative_to(ROOT)


def test_everything_that_has_a_meaning_has_an_advice() -> None:
    told = (advice.PHASE, advice.SAVEPOINT_PHASE, advice.STANDBY, advice.UPGRADE, advice.CONDITION)

    for table in (*told, advice.EXIT_CODE, advice.ABORT, advice.REASON):
        assert set(table) == set(type(next(iter(table))))


def test_no_reason_is_explained_that_nobody_gives() -> None:
    runtime = _source("jobruntime/src/statefulspark")
    operator = _source("operator/src/statefulspark_operator")

    assert [word for word in driver_reasons.TOLD_HERE if f'"{word}"' not in runtime] == []
    assert [word for word in operator_reasons.ANSWERS if f'"{word}"' not in operator] == []


def test_every_reason_with_an_exit_code_has_its_section() -> None:
    tree = ast.parse((ROOT / "tests/unit/test_reasons.py").read_text(encoding="utf-8"))
    codes = next(
        node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_CODES"
    )
    assert isinstance(codes.value, ast.Dict)
    words = {word for words in codes.value.values for word in ast.literal_eval(words).split()}
    sections = set(re.findall(r"^## (\w+)$", driver_reasons.page(), re.M))

    assert words - sections == set()


def _source(folder: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / folder).rglob("*.py"))


def test_the_site_shows_every_page_and_none_that_is_not_there() -> None:
    shown = set(_in_navigation(_site()["nav"]))
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}

    assert shown - written == {"adr/index.md"}, "the site makes that one"
    assert {name for name in written - shown if not name.startswith("adr/")} == set()


def _in_navigation(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for child in entry:
            yield from _in_navigation(child)
    elif isinstance(entry, dict):
        yield from _in_navigation(list(entry.values()))


class _SiteLoader(yaml.SafeLoader):
    """Reads mkdocs.yml without making the Python objects that it names."""


_SiteLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def _site() -> dict[str, object]:
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_SiteLoader)  # noqa: S506 -- a SafeLoader


@pytest.mark.parametrize(
    "word",
    [
        "epoch", "generation", "key group", "closure", "fence", "gate", "native", "canonical", "standby", "lineage",
        "checkpoint", "savepoint", "uid", "marker", "manifest",
    ],
)  # fmt: skip
def test_the_glossary_has_the_word(word: str) -> None:
    assert f"| **{word}** |" in (DOCS / "concepts/glossary.md").read_text(encoding="utf-8")


# The tutorial: its blocks are what the template has, and are run.

_TEMPLATE = ROOT / "jobruntime/src/statefulspark/template"
_TUTORIAL = tuple(block.text for block in blocks_of(DOCS / "tutorial.md") if block.language == "python")
_HEAD = "import statefulspark as ss\nfrom collections.abc import Iterator\n"


def order(customer: str, amount: int) -> dict[str, object]:
    return {"customer": customer, "amount": amount}


def test_the_tutorial_shows_the_function_of_the_template() -> None:
    assert _TUTORIAL[0] in (_TEMPLATE / "job.py").read_text(encoding="utf-8")


def test_the_test_of_the_tutorial_passes() -> None:
    names: dict[str, object] = {}
    test = _TUTORIAL[1].replace("from job import Totals\n", "")

    exec(_HEAD + _TUTORIAL[0] + test, names)  # noqa: S102 -- the page's own code

    assert isinstance(names["harness"], KeyedHarness)


def test_the_change_of_the_tutorial_keeps_the_state() -> None:
    names: dict[str, type[ss.KeyedProcessFunction]] = {}
    exec(_HEAD + _TUTORIAL[0] + _TUTORIAL[2], names)  # noqa: S102 -- the page's own code
    harness = KeyedHarness(names["Totals"](), key="customer")
    harness.feed(order("ada", 2))

    harness.restart(names["TotalsAndLargest"]())

    assert harness.feed(order("ada", 40), order("ada", 3)) == [("ada", 3, 45, 40)]


def test_the_tutorial_makes_the_folder_that_it_talks_about(tmp_path: Path) -> None:
    command = next(words for words in commands_of(DOCS / "tutorial.md") if words[1] == "init")
    words = [*command[1:-1], str(tmp_path / command[-1])]

    assert main.main(words) == 0
    assert {"job.py", "test_job.py", "job.yaml", "Dockerfile"} <= {
        file.name for file in (tmp_path / "my-job").iterdir()
    }


def test_every_state_of_a_standby_is_told_in_the_page_of_the_api() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")

    assert [state.value for state in api.StandbyState if f"| `{state.value}` |" not in page] == []


def test_every_setting_that_is_refused_is_in_the_page() -> None:
    page = (DOCS / "migrate/spark.md").read_text(encoding="utf-8")
    refused = (*engine.REFUSED_SETTINGS, *engine.REFUSED_PREFIXES, *engine.FIELDS)

    assert [setting.key for setting in refused if f"`{setting.key}" not in page] == []


def test_every_change_since_the_last_release_has_a_kind() -> None:
    kinds = {
        kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    changes = [file.name for file in (ROOT / "changes").iterdir() if file.name != "README.md"]

    assert [name for name in changes if not re.fullmatch(rf"(?:\d+|\+[\w-]+)\.(?:{'|'.join(kinds)})\.md", name)] == []


def test_every_row_of_the_table_of_trust_names_the_test_that_shows_it() -> None:
    page = (ROOT / "docs/howto/secure.md").read_text(encoding="utf-8")
    rows = [line for line in page.partition("## Who is trusted with what")[2].splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 10, "the search finds the rows"
    assert [row for row in rows if not re.search(r"`(tests|e2e)/[\w/]+\.py`", row.split(" | ")[-1])] == []
