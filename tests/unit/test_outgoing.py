"""Text that leaves the process has no secret's value, and no command of a terminal."""

from __future__ import annotations

import io
import json
import logging
import uuid
from pathlib import Path

import pytest
from machines import postgres_sink
from statefulspark import errors, launch, outgoing, telemetry
from statefulspark.commandline import terminal as cli_terminal
from statefulspark.sinks.secret import Secret
from statefulspark.storage import StorageOptions
from statefulspark_operator.kubectl import terminal as kubectl_terminal
from statefulspark_operator.kubectl import text

COMMANDS = {
    "clear screen": "\033[2J",
    "clipboard (OSC 52)": "\033]52;c;aGk=\a",
    "title": "\033]0;x\a",
    "answer back": "\033[6n",
    "C1": "\x9b2J",
    "carriage return": "\r",
    "backspace": "\b",
    "other direction": "\u202e",
    "conceal": "\033[08;8m",
}


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def secret() -> str:
    return f'pa"ss\\{uuid.uuid4().hex}'


@pytest.fixture(params=["variable", "file", "key", "session token"])
def revealed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str) -> str:
    """Let the process learn a secret."""
    match request.param:
        case "variable":
            monkeypatch.setenv("PASSWORD_OF_TEST", secret)
            Secret.env("PASSWORD_OF_TEST").reveal()
        case "file":
            (tmp_path / "password").write_text(f"{secret}\n")
            Secret.file(str(tmp_path / "password")).reveal()
        case "key":
            StorageOptions(access_key="me", secret_key=secret)
        case _:
            StorageOptions(access_key="me", secret_key="short", session_token=secret)
    return secret


@pytest.mark.parametrize("log_format", telemetry.LogFormat)
def test_a_revealed_secret_is_in_no_line_of_the_log(revealed: str, log_format: telemetry.LogFormat) -> None:
    shown = _logged(log_format, f"refused {revealed}", {"why": f"{revealed}, again", "of": {"a": revealed}}, revealed)

    assert revealed not in shown
    assert json.dumps(revealed)[1:-1] not in shown
    assert shown.count("***") >= 4


def test_a_revealed_secret_is_in_no_exit_report(
    revealed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "termination-log"
    report.touch()
    monkeypatch.setattr(launch, "TERMINATION_LOG", report)

    def fails() -> int:
        raise RuntimeError(f"cannot log in with {revealed}")

    launch.guard(fails)

    written, shown = report.read_text(), "".join(capfd.readouterr())
    assert "cannot log in with ***" in written
    assert revealed not in json.loads(written)["message"]
    assert revealed not in shown


def test_a_short_value_is_a_part_of_other_words_and_stays() -> None:
    outgoing.keep_out("state")

    assert outgoing.without_secrets("the state") == "the state"


def test_rotated_secrets_are_forgotten_in_the_end() -> None:
    first = uuid.uuid4().hex
    outgoing.keep_out(first)
    for _ in range(2000):
        outgoing.keep_out(uuid.uuid4().hex)

    assert outgoing.without_secrets(first) == first


@pytest.mark.parametrize(
    "dsn",
    [
        "hunter2pass",
        "host=db password='hunter2pass",
        "host=db hunter2pass=x",
        "postgresql://me:hunter2pass%zz@db/shop",
        "postgresql://me:hunter2pass%@db/shop",
        "postgresql://me:hunter2/pass@db/shop",
        "postgresql://me:hunter2@pass@db/shop",
        "postgresql://me:x@db:hunter2pass/shop",
    ],
)
def test_what_is_wrong_with_a_dsn_is_told_without_it(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    monkeypatch.setenv("DSN_OF_TEST", dsn)
    client = postgres_sink("clicks", dsn=Secret.env("DSN_OF_TEST"))._client()

    for ask in (lambda: client.target, lambda: client.check(None)):  # type: ignore[arg-type]  # it does not get that far
        with pytest.raises(errors.SpecRejectedError, match="cannot be parsed, and is not shown") as caught:
            ask()
        assert "hunter2" not in str(caught.value) + str(caught.value.__cause__ or "")
    assert "hunter2" not in client.where


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_terminal_gets_no_command_from_what_others_have_written(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    out, err = Screen(), Screen()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    plugin = kubectl_terminal.Terminal(out=out, err=err)

    for write in (cli_terminal.write, cli_terminal.note, plugin.write, plugin.note):
        write(f"a{command}b\tc\nd")
    shown = out.getvalue() + err.getvalue() + _logged(telemetry.LogFormat.TEXT, command, {"name": command}, command)

    assert command not in shown
    assert "\033" not in shown
    assert out.getvalue().count("b\tc\nd\n") == 2


def test_what_is_no_terminal_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)

    cli_terminal.write("a\033[2Jb")
    kubectl_terminal.Terminal(out=out).write("a\033[2Jb")

    assert out.getvalue() == "a\033[2Jb\n" * 2


def test_colours_of_the_product_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Screen()
    painted = text.coloured("ready", next(iter(text.Tone)))

    kubectl_terminal.Terminal(out=out).write(painted)

    assert out.getvalue() == f"{painted}\n"


def _logged(log_format: telemetry.LogFormat, message: str, extra: dict[str, object], raised: str) -> str:
    formatter = telemetry.JsonFormatter() if log_format is telemetry.LogFormat.JSON else telemetry.TextFormatter()
    try:
        raise RuntimeError(raised)
    except RuntimeError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("statefulspark.x", logging.ERROR, "x.py", 1, message, (), failure)
    vars(record).update(extra)
    return formatter.format(record)
