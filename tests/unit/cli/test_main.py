"""The command as a whole: every part explains itself, and nothing ends with a traceback."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import statefulspark
from statefulspark.cli import main


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _commands(child, (*path, name))


_ALL = list(_commands(main.build_parser()))


def test_the_commands_are_these() -> None:
    assert [" ".join(path) for path in _ALL] == [
        "",
        "init",
        "run",
        "checkpoint",
        "checkpoint list",
        "checkpoint show",
        "checkpoint verify",
        "checkpoint trigger",
        "checkpoint history",
        "savepoint",
        "savepoint create",
        "savepoint wait",
        "savepoint list",
        "savepoint show",
        "savepoint verify",
        "savepoint copy",
        "savepoint convert",
        "savepoint dispose",
        "state",
        "state read",
        "doctor",
        "status",
        "stop",
        "code",
        "size",
        "version",
    ]


def test_every_command_is_on_the_page_about_the_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    leaves = [path for path in _ALL if path and not any(other[: len(path)] == path != other for other in _ALL)]

    for noun, *verb in leaves:
        row = next((line for line in page.splitlines() if line.startswith(f"| `{noun}")), "")
        rows = [line for line in page.splitlines() if line.startswith(f"| `{noun}")]
        assert row, noun
        assert not verb or any(f"{verb[0]}" in line.split("|")[1] for line in rows), (noun, verb)


@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_every_command_teaches_with_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main([*path, "--help"])

    text = capsys.readouterr().out
    assert raised.value.code == 0
    assert "example" in text
    assert f"statefulspark {' '.join(path)}".strip() in text.partition("example")[2]


@pytest.mark.parametrize(
    "arguments",
    [(), ("unheard-of",), ("checkpoint",), ("checkpoint", "show", "forty"), ("checkpoint", "show", "0"), ("run",)],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_sentence(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main.main(arguments)

    said = capsys.readouterr().err
    assert raised.value.code == 2
    assert (said.count("\n"), said[:7]) == (1, "error: ")
    assert "--help" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("run", "job.py", "--endpont", "http://minio:9000"),
            "unrecognized arguments: --endpont http://minio:9000 (did you mean --endpoint?); "
            "see `statefulspark run --help`.",
            id="a typo",
        ),
        pytest.param(
            ("run", "job.py", "--restore", "checkpoint:41"),
            "unrecognized arguments: --restore checkpoint:41 (did you mean --restore-uri?); "
            "see `statefulspark run --help`.",
            id="the beginning of a flag is none",
        ),
        pytest.param(
            ("savepoint", "list", "--rot=s3://b"),
            "unrecognized arguments: --rot=s3://b (did you mean --root?); see `statefulspark savepoint list --help`.",
            id="with a value",
        ),
        pytest.param(
            ("doctor", "s3://b", "s3://c"),
            "unrecognized arguments: s3://c; see `statefulspark doctor --help`.",
            id="one too many",
        ),
    ],
)
def test_what_is_no_flag_is_told_by_its_command_with_the_flag_that_was_meant(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--endpont` was told to look at the help of all commands, and `--restore` was taken for `--restore-uri`."""
    with pytest.raises(SystemExit):
        main.main(arguments)

    assert capsys.readouterr().err == f"error: {said}\n"


def test_version_names_what_matters_for_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["version"]) == 0

    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["statefulspark", "format", "python", "pyspark"]
    assert (lines["statefulspark"], lines["format"]) == (statefulspark.__version__, "1")


def test_a_reader_that_closes_early_is_no_traceback() -> None:
    code = (
        "import sys; from statefulspark.cli import main, terminal;"
        "terminal.write = lambda text: (_ for _ in ()).throw(BrokenPipeError());"
        "sys.exit(main.main(['version']))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_run_waits_for_no_import_of_another_command() -> None:
    """The JVM is started behind these imports, so each of them makes every start of a driver longer."""
    code = "import sys; from statefulspark.cli import main; main.build_parser('run'); print(*sys.modules)"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    loaded = {name for name in ended.stdout.split() if name.startswith("statefulspark.cli.")}
    names = ("api_client", "main", "options", "run", "terminal")
    assert loaded == {f"statefulspark.cli.{name}" for name in names}


@pytest.mark.parametrize("word", [None, "--help", "no-such-command"])
def test_without_a_known_command_all_of_them_are_explained(word: str | None) -> None:
    assert list(_commands(main.build_parser(word))) == _ALL


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["--", "--name", "ada"], ["--name", "ada"]),
        (["--", "--", "x"], ["--", "x"]),
        (["--"], []),
        ([], []),
    ],
)
def test_what_follows_two_hyphens_is_the_job_files(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    arguments: list[str],
) -> None:
    file = tmp_path / "job.py"
    file.write_text("import sys\nprint(sys.argv)\nsys.exit(3)\n")
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr("statefulspark.engine.sparklogfile.start_jvm", lambda conf: None)

    assert (
        main.main(["run", str(file), "--name", "words", "--storage", tmp_path.as_uri(), "--allow-local-files", *words])
        == 13
    )

    assert capfd.readouterr().out == f"{[str(file), *arguments]}\n"
