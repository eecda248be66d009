"""One word for one idea, over the resource, HTTP, all commands, the library and metrics."""

from __future__ import annotations

import functools
import inspect
import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import commandtrees
import pytest
import statefulspark as ss
import yaml
from sitepages import commands as command_pages
from sitepages import vocabulary
from sitepages.vocabulary import IDEAS, Idea
from statefulspark.contract import flagnames

ROOT = Path(__file__).resolve().parents[2]
_SHORT = {
    "storage.uri": "--storage",
    "storage.s3.endpoint": "--endpoint",
    "storage.s3.region": "--region",
    "storage.s3.caFile": "--storage-ca",
    "storage.ownership": "--ownership",
    "storage.allowLocalFiles": "--allow-local-files",
    "parameters": "--parameter",
    "engine.master": "--master",
    "engine.conf": "--conf",
}
"""Fields whose option is not their path: other commands have it, too, it is repeatable, or it is spark-submit's."""
_FORMATS = {"text", "wide", "json", "yaml", "name", "parquet", "arrow"}
_RETIRED = (
    "--detach", "--detached", "--retained", "--min-pause", "--max-concurrent", "--tolerable-failures",
    "--checkpoint-max-age", "--claim-mode", "--drop-state", "--take-over-sinks", "--restore-take-over-sinks",
    "takeOverSinks", "--again", "--restore-checkpoint", "--root", "--tls-cert", "--tls-key", "--token-file",
    "--door", "checkpoint trigger",
)  # fmt: skip
"""Second words that each idea once had."""
_OTHERS = ("docs/adr", "docs/reference", "e2e/cluster", "e2e/images", "e2e/faults/commandline.py", "bench/older_image.py",
           "CONTRIBUTING.md", "tests/architecture/test_vocabulary.py")  # fmt: skip
"""Decisions of the past, and options of other programs."""
_COMMANDS = [
    (f"{program.name} {' '.join(path)}".strip(), command)
    for program in command_pages.PROGRAMS
    for path, command in commandtrees.walk(program)
]
_OPTIONS = [
    (path, option) for path, command in _COMMANDS for option in command.params if isinstance(option, click.Option)
]
ideas = pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.meaning)


@functools.cache
def _crd(name: str) -> dict[str, Any]:
    document = yaml.load((ROOT / "crds" / f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)
    schema: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@functools.cache
def _api() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "docs" / "openapi.json").read_text())
    return document


@ideas
def test_a_word_of_the_resource_is_a_field(idea: Idea) -> None:
    kind, _, path = idea.resource.rpartition(" ")
    if not path or path.startswith("metadata.") or path == "SparkSavepoint":
        return
    schema = _crd("sparksavepoints" if kind else "statefulsparkjobs")
    for name in path.split("."):
        assert name in schema["properties"], f"{idea.resource}: there is no {name}"
        schema = schema["properties"][name]


@ideas
def test_a_word_of_http_is_a_call_or_a_field(idea: Idea) -> None:
    method, _, path = idea.http.partition(" ")
    if path:
        assert method.lower() in _api()["paths"][path]
    elif idea.http:
        schema, _, field = idea.http.partition(".")
        assert field in _api()["components"]["schemas"][schema]["properties"]


@ideas
def test_a_word_of_a_command_is_an_option_or_a_command(idea: Idea) -> None:
    declared = {name for _, option in _OPTIONS for name in option.opts} | {path for path, _ in _COMMANDS}

    assert not idea.command or idea.command in declared


@ideas
def test_a_word_of_the_library_is_an_argument(idea: Idea) -> None:
    name, _, argument = idea.python.rstrip(")").partition("(")
    if name:
        assert argument in inspect.signature(getattr(ss, name.removeprefix("ss."))).parameters


@ideas
def test_a_word_of_metrics_is_on_their_page(idea: Idea) -> None:
    assert f"`{idea.metric}`" in (ROOT / "docs" / "metrics.md").read_text() or not idea.metric


def test_no_word_has_two_ideas() -> None:
    words = [name for idea in IDEAS for name in (idea.resource, idea.http, idea.command, idea.python) if name]

    assert len(words) == len(set(words))


@pytest.mark.parametrize("field", flagnames.BY_FIELD)
def test_an_option_has_the_words_of_its_field(field: str) -> None:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", field.replace("restore.source.", "restore.").replace(".", "-")).lower()

    assert flagnames.BY_FIELD[field] == _SHORT.get(field, f"--{words}")


def test_an_option_means_the_same_in_every_command() -> None:
    meanings = defaultdict(set)
    for _, option in _OPTIONS:
        words = frozenset(option.type.choices) if isinstance(option.type, click.Choice) else None
        kind = (option.is_flag, option.metavar, words)
        meanings[max(option.opts, key=len)].add(kind if "--output" not in option.opts else "a format")

    assert {name: kinds for name, kinds in meanings.items() if len(kinds) > 1} == {}


def test_there_is_one_set_of_formats() -> None:
    given = [
        {str(getattr(choice, "value", choice)) for choice in option.type.choices}
        for _, option in _OPTIONS
        if "--output" in option.opts and isinstance(option.type, click.Choice)
    ]

    assert len(given) > 10
    assert [words - _FORMATS for words in given if not words <= _FORMATS or not {"text", "json"} <= words] == []


def test_no_second_word_comes_back() -> None:
    pattern = "|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in _RETIRED)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    files = [
        name
        for name in tracked
        if name.endswith((".py", ".md", ".yaml", ".sh", ".toml")) and not name.startswith(_OTHERS)
    ]
    hits = [
        f"{name}: {line.strip()}"
        for name in files
        if (ROOT / name).is_file()
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if re.search(pattern, line)
    ]

    assert len(files) > 500
    assert hits == []


def test_the_page_has_every_idea() -> None:
    page = vocabulary.page()

    assert [idea.meaning for idea in IDEAS if f"| {idea.meaning} |" not in page] == []
