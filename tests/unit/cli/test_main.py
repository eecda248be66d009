"""The command as a whole: every part explains itself, and nothing ends with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import commandtrees
import pytest
import statefulspark
from statefulspark.cli import main

_ALL = [path for path, _ in commandtrees.walk(main.program)]


def test_the_commands_are_these() -> None:
    assert [" ".join(path) for path in _ALL] == [
        "",
        "init",
        "run",
        "checkpoint",
        "checkpoint list",
        "checkpoint show",
        "checkpoint verify",
        "checkpoint create",
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
        "completion",
        "version",
    ]


def test_every_command_is_on_the_page_about_the_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    leaves = [path for path, command in commandtrees.leaves(main.program) if not command.hidden]

    for noun, *verb in leaves:
        row = next((line for line in page.splitlines() if line.startswith(f"| `{noun}")), "")
        rows = [line for line in page.splitlines() if line.startswith(f"| `{noun}")]
        assert row, noun
        assert not verb or any(f"{verb[0]}" in line.split("|")[1] for line in rows), (noun, verb)


@pytest.mark.parametrize("path", _ALL, ids=" ".join)
def test_every_command_teaches_with_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main([*path, "--help"])

    text = capsys.readouterr().out
    assert code == 0
    assert "example" in text
    assert f"statefulspark {' '.join(path)}".strip() in text.partition("example")[2]


@pytest.mark.parametrize(
    "arguments",
    [("unheard-of",), ("checkpoint", "show", "forty"), ("checkpoint", "show", "0"), ("run",), ("run", "a.py", "b.py")],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_sentence(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(arguments)

    said = capsys.readouterr().err
    assert code == 2
    assert (said.count("\n"), said[:7]) == (1, "error: ")
    assert "--help" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("run", "job.py", "--endpont", "http://minio:9000"),
            "No such option '--endpont'. Did you mean '--endpoint'? See `statefulspark run --help`.",
            id="a typo",
        ),
        pytest.param(
            ("run", "job.py", "--rehersal"),
            "No such option '--rehersal'. Did you mean '--rehearsal'? See `statefulspark run --help`.",
            id="a longer name",
        ),
        pytest.param(
            ("savepoint", "list", "--storag=s3://b"),
            "No such option '--storag'. Did you mean '--storage'? See `statefulspark savepoint list --help`.",
            id="with a value",
        ),
        pytest.param(
            ("doctor", "s3://c"),
            "Got unexpected extra argument (s3://c). See `statefulspark doctor --help`.",
            id="one too many",
        ),
        pytest.param(
            ("savpoint", "list"),
            "No such command 'savpoint'. Did you mean 'savepoint'? See `statefulspark --help`.",
            id="a command",
        ),
        pytest.param(
            ("checkpoint", "crate"),
            "No such command 'crate'. Did you mean 'create'? See `statefulspark checkpoint --help`.",
            id="a verb",
        ),
    ],
)
def test_what_is_no_flag_is_told_by_its_command_with_the_flag_that_was_meant(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--endpont` was told to look at the help of all commands."""
    assert main.main(arguments) == 2

    assert capsys.readouterr().err == f"error: {said}\n"


def test_version_names_what_matters_for_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["version"]) == 0

    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["statefulspark", "format", "python", "pyspark"]
    assert (lines["statefulspark"], lines["format"]) == (statefulspark.__version__, "1")


def test_a_reader_that_closes_early_is_no_traceback() -> None:
    code = (
        "import sys; from statefulspark.cli import main; from statefulspark.commandline import terminal;"
        "terminal.write = lambda text: (_ for _ in ()).throw(BrokenPipeError());"
        "sys.exit(main.main(['version']))"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_run_waits_for_no_import_of_another_command() -> None:
    """The JVM is started behind these imports, so each of them makes every start of a driver longer."""
    code = "import sys; from statefulspark.cli import main; main.main(['run', '--help']); print(*sys.modules)"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    loaded = {name for name in ended.stdout.split() if name.startswith("statefulspark.cli.")}
    names = ("main", "options", "run")
    assert loaded == {f"statefulspark.cli.{name}" for name in names}


@pytest.mark.parametrize("arguments", [(), ("checkpoint",)], ids=["nothing", "a noun"])
def test_without_a_command_all_of_them_are_explained(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(arguments) == 2

    shown = capsys.readouterr().err
    children = [path[-1] for path in _ALL if path[:-1] == arguments and path != arguments and path != ("code",)]
    assert [name for name in children if f"\n  {name} " not in shown] == []


def test_a_line_of_all_commands_is_that_of_the_command() -> None:
    context = click.Context(main.program)

    for name, (_, line) in main.program._modules.items():
        command = main.program.get_command(context, name)
        assert command is not None
        assert (command.hidden, command.short_help or "") == (not line, line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_values(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert "_STATEFULSPARK_COMPLETE" in script
    assert f"{shell}_complete" in script


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("statefulspark che", ["checkpoint"]),
        ("statefulspark checkpoint cr", ["create"]),
        ("statefulspark savepoint create --form", ["--format"]),
        ("statefulspark savepoint create --format ", ["native", "canonical"]),
        ("statefulspark run job.py --restore-claim-mode ", ["NoClaim", "Claim"]),
    ],
)
def test_the_script_asks_the_command(
    words: str, completed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_STATEFULSPARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))

    main.main([])

    assert [line.partition(",")[2] for line in capsys.readouterr().out.splitlines()] == completed


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
