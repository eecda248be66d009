"""A job file that is wrong in any way ends with an exit code and one sentence, in the log and for the kubelet."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from statefulspark import errors, launch, telemetry
from statefulspark.contract import api, config
from statefulspark.contract.exit_codes import ExitCode, PlannedEnd

pytestmark = pytest.mark.slow

_CONFIG = config.JobConfig(
    name="words", storage=config.StorageConfig(uri="file:///nowhere/at/all", allow_local_files=True)
)

Launch = Callable[[str], api.ExitReport]


@pytest.fixture
def termination_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setattr(launch, "TERMINATION_LOG", path)
    return path


@pytest.fixture
def search_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def run(tmp_path: Path, termination_log: Path, search_path: None) -> Launch:
    def run_source(source: str) -> api.ExitReport:
        file = tmp_path / "job.py"
        file.write_text(source)
        code = launch.run_file(file, _CONFIG)
        report = api.ExitReport.model_validate_json(termination_log.read_bytes())
        assert report.exit_code == code
        assert "\n" not in report.message
        return report

    return run_source


def test_a_job_file_that_is_missing_is_named(tmp_path: Path, termination_log: Path) -> None:
    code = launch.run_file(tmp_path / "nowhere.py", _CONFIG)

    report = api.ExitReport.model_validate_json(termination_log.read_bytes())
    assert (code, report.reason) == (ExitCode.BAD_JOB, "JobFileMissing")
    assert str(tmp_path / "nowhere.py") in report.message


@pytest.mark.parametrize(
    ("source", "reason", "named"),
    [
        pytest.param(
            "x = 1\nraise ValueError('broken')\n",
            "JobFileRaised",
            "job.py line 2 raised ValueError: broken",
            id="it raises",
        ),
        pytest.param("import no_such_module\n", "JobFileRaised", "no_such_module", id="it imports what is not there"),
        pytest.param("def f(:\n", "JobFileRaised", "SyntaxError", id="it is no Python"),
        pytest.param("x = 1\n", "NoQueries", "job.run()", id="it never runs a job"),
        pytest.param("import sys\nsys.exit(0)\n", "JobFileRaised", "sys.exit(0)", id="it exits as if it had finished"),
        pytest.param("import sys\nsys.exit('no input')\n", "JobFileRaised", "no input", id="it exits with a text"),
        pytest.param(
            "import statefulspark as ss\nss.Job('w').run()\n",
            "NoQueries",
            "declares no query",
            id="its job has no query",
        ),
        pytest.param("import statefulspark as ss\nss.Job('Big')\n", "UidInvalid", "'Big'", id="its job has a bad name"),
        pytest.param(
            "import statefulspark as ss\njob = ss.Job('w')\njob.query(uid='a')(print)\njob.query(uid='a')(print)\n",
            "UidDuplicate",
            "'a'",
            id="two queries have one uid",
        ),
    ],
)
def test_a_bad_job_file_is_told_by_name(run: Launch, source: str, reason: str, named: str) -> None:
    report = run(source)

    assert (report.exit_code, report.reason) == (ExitCode.BAD_JOB, reason)
    assert named in report.message


def test_a_job_file_imports_its_neighbours(run: Launch, tmp_path: Path) -> None:
    (tmp_path / "launch_test_neighbour.py").write_text("raise KeyError('neighbour')\n")

    report = run("import launch_test_neighbour\n")

    assert "job.py line 1 raised KeyError: 'neighbour'" in report.message


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (
            "ValueError('[UNRESOLVED_COLUMN] no column `x`. SQLSTATE: 42703;\\n+- Project [x]\\n')",
            "SQLSTATE: 42703. Correct",
        ),
        ("ValueError('\\n first\\n second')", "raised ValueError: first. Correct"),
        ("ValueError('it is wrong.')", "raised ValueError: it is wrong. Correct"),
        ("ValueError()", "raised ValueError. Correct"),
    ],
    ids=["a plan of Spark follows", "it begins with an empty line", "it ends with a full stop", "it says nothing"],
)
def test_an_exception_of_many_lines_filled_the_status_with_all_of_them(run: Launch, raised: str, sentence: str) -> None:
    report = run(f"raise {raised}\n")

    assert sentence in report.message
    assert "\n" not in report.message


def test_a_job_that_has_run_ends_with_its_own_code(tmp_path: Path, search_path: None) -> None:
    file = tmp_path / "job.py"
    file.write_text("from statefulspark import launch\nraise launch.DriverEnded(11)\n")

    assert launch.run_file(file, _CONFIG) == 11


def test_a_job_file_is_told_what_its_process_is_and_only_while_it_runs(tmp_path: Path, search_path: None) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "from statefulspark import launch\n"
        "raise launch.DriverEnded(11 if launch.requested_role() is launch.Role.STANDBY else 0)\n"
    )

    assert launch.run_file(file, _CONFIG, role=launch.Role.STANDBY) == 11
    assert launch.run_file(file, _CONFIG) == 0
    assert launch.requested_role() is launch.Role.DRIVER


@pytest.mark.parametrize(
    ("given", "environment", "shown"),
    [
        (None, None, launch.Display.LIVE),
        (None, "1", launch.Display.PLAIN),
        (launch.Display.PLAIN, None, launch.Display.PLAIN),
        (launch.Display.LIVE, "1", launch.Display.LIVE),
    ],
)
def test_a_job_file_runs_with_the_display_that_was_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: launch.Display | None,
    environment: str | None,
    shown: launch.Display,
) -> None:
    monkeypatch.delenv(telemetry.ENV_PLAIN, raising=False)
    if environment is not None:
        monkeypatch.setenv(telemetry.ENV_PLAIN, environment)
    file = tmp_path / "job.py"
    file.write_text(
        "from pathlib import Path\nfrom statefulspark import launch\n"
        f"Path({str(tmp_path / 'display')!r}).write_text(launch.requested_display())\n"
        "raise launch.DriverEnded(0)\n"
    )

    launch.run_file(file, _CONFIG, display=given)

    assert (tmp_path / "display").read_text() == shown


def test_the_configuration_is_that_of_the_call_while_the_file_runs(
    run: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(config.ENV_CONFIG, raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    report = run("from statefulspark import launch\nraise ValueError(launch.current_config('w').name)\n")

    assert "ValueError: words" in report.message
    with pytest.raises(errors.SpecRejectedError, match="has no configuration"):
        launch.current_config("w")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("{}", "at name: Field required", id="a field is missing"),
        pytest.param('{"name": "w", "storage": {"uri": "gs://b"}}', "at storage.uri", id="a field is wrong"),
        pytest.param("{", "at the document", id="it is no JSON"),
        pytest.param("[]", "at the document", id="it is no object"),
        pytest.param(
            '{"name": "w", "storage": {"uri": "s3://b", "region": "eu"}}',
            "has an unknown field storage.region; did you mean storage.s3.region?",
            id="a field in the wrong place",
        ),
        pytest.param(
            '{"name": "w", "storage": {"url": "s3://b"}}',
            "unknown field storage.url; did you mean storage.uri?",
            id="a field is misspelt, and so another one is missing",
        ),
        pytest.param(
            '{"name": "w", "storage": {"uri": "s3://b"}, "restore": {"takesOverSinks": true}}',
            "unknown field restore.takesOverSinks; did you mean restore.takesOverAs?",
            id="a field of an option",
        ),
        pytest.param(
            '{"name": "w", "storage": {"uri": "s3://b"}, "engine": {"conf": {"a": "b"}}, "zzz": 1}',
            "unknown field zzz; remove it.",
            id="a field that is like no other",
        ),
    ],
)
def test_a_wrong_configuration_file_is_one_sentence(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)

    with pytest.raises(errors.SpecRejectedError) as raised:
        launch.read_config(file)

    assert raised.value.reason == "ConfigInvalid"
    assert named in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("more", ["{}", '{"restore": {"later": true}}', '{"later": 1}'])
def test_a_newer_operator_may_say_more_than_a_driver_knows(tmp_path: Path, more: str) -> None:
    file = tmp_path / "config.json"
    document = {"name": "w", "storage": {"uri": "s3://b"}, "ownerId": "uid-1", **json.loads(more)}
    file.write_text(json.dumps(document))

    assert launch.read_config(file).owner_id == "uid-1"


def test_every_field_of_a_configuration_is_known(tmp_path: Path) -> None:
    written = config.JobConfig(
        name="w",
        storage=config.StorageConfig(uri="s3://b"),
        restore=config.RestoreConfig(source=config.RestoreSource(checkpointID=1)),
        api_tls=config.ApiTlsConfig(certificate="c", key="k"),
        parameters={"any name": "1"},
    )
    file = tmp_path / "config.json"
    file.write_text(written.model_dump_json(by_alias=True))
    in_python = tmp_path / "python.json"
    in_python.write_text(written.model_dump_json(by_alias=False))

    assert launch.read_config(file) == launch.read_config(in_python) == written


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.SpecRejectedError) as raised:
        launch.read_config(tmp_path / "config.json")

    assert raised.value.reason == "ConfigMissing"
    assert "config.json" in raised.value.message


def test_a_failure_of_the_driver_is_ours_and_worth_a_restart(termination_log: Path) -> None:
    def fail() -> int:
        raise ConnectionError("the JVM is gone")

    code = launch.guard(fail)

    report = api.ExitReport.model_validate_json(termination_log.read_bytes())
    assert (code, report.reason) == (ExitCode.FAILED, "DriverFailed")
    assert report.message == (
        "The driver failed with ConnectionError: the JVM is gone. This is a failure of statefulspark or of what it runs on, "
        "not of the job's code; report it with the trace. It continues when it is started again."
    )


@pytest.mark.parametrize("letter", ["x", "ü", "€", "𝄞", '"', "\n", "\x1b"])
def test_a_long_message_fits_into_what_the_kubelet_keeps(termination_log: Path, letter: str) -> None:
    """The kubelet keeps 4096 bytes; letters were counted, and a report of other ones lost its beginning."""
    launch.finish(ExitCode.FAILED, "QueryFailed", letter * 10_000, snapshot="s3://b/s")

    body = termination_log.read_bytes()
    report = api.ExitReport.model_validate_json(body)
    assert 4000 < len(body) <= 4096
    assert (report.reason, report.snapshot, set(report.message)) == ("QueryFailed", "s3://b/s", {letter})


def test_half_a_surrogate_in_a_message_is_reported_by_its_number(tmp_path: Path, termination_log: Path) -> None:
    """JSON that was cut in an emoji, and a file's name that is no UTF-8, ended the driver with a stack and no report."""
    file = tmp_path / "job.py"
    file.write_text("import json\nraise ValueError(json.loads('\"cut \\\\ud83d\"'))\n")

    code = launch.run_file(file, _CONFIG)

    report = api.ExitReport.model_validate_json(termination_log.read_bytes())
    assert (code, report.reason) == (ExitCode.BAD_JOB, "JobFileRaised")
    assert "ValueError: cut \\ud83d" in report.message


def test_a_driver_without_a_kubelet_ends_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "TERMINATION_LOG", tmp_path / "absent")

    assert launch.finish(ExitCode.SUCCESS, PlannedEnd.STOPPED, "Stopped on request.") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_person_reads_last_why_a_job_ended_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason was a field at the end of a line of the log."""
    monkeypatch.setattr(launch, "TERMINATION_LOG", tmp_path / "absent")
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(telemetry.TextFormatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])

    launch.finish(ExitCode.SUCCESS, PlannedEnd.DRAINED, "All queries ended at checkpoint 2.")

    assert capsys.readouterr().err == "ended: All queries ended at checkpoint 2.\n"


def last_line(stderr: str) -> dict[str, str]:
    """Return the line of the driver's end: Spark's JVM, on its way up beside the job file, may have last words, too."""
    lines: list[dict[str, str]] = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    return next(line for line in reversed(lines) if "code" in line)


def test_the_process_says_one_line_and_exits_with_the_code(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("import statefulspark as ss\njob = ss.Job('words')\nraise ValueError('broken')\n")
    command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(file), "--storage", "s3://bucket/prefix"]
    environment = {name: value for name, value in os.environ.items() if name != config.ENV_CONFIG}

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)

    line = last_line(ended.stderr)
    assert ended.returncode == ExitCode.BAD_JOB
    assert (line["level"], line["code"], line["reason"]) == ("ERROR", "BAD_JOB", "JobFileRaised")
    assert f"{file} line 3 raised ValueError: broken" in line["why"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_before_the_job_runs_ends_the_process_as_drained(tmp_path: Path, name: str) -> None:
    """It would otherwise die of the signal and say nothing."""
    file = tmp_path / "job.py"
    source = ["import os, signal", "import statefulspark as ss", "job = ss.Job('words')"]
    source += [f"os.kill(os.getpid(), signal.{name})", "raise ValueError('still here')"]
    file.write_text("\n".join(source))
    command = [sys.executable, "-m", "statefulspark.cli.main", "run", str(file), "--storage", "s3://bucket/prefix"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    line = last_line(ended.stderr)
    assert ended.returncode == ExitCode.SUCCESS
    assert (line["level"], line["code"]) == ("INFO", "SUCCESS")
    assert line["why"] == f"{name} came before the job ran; its state is unchanged."
    assert "still here" not in ended.stderr


def _python(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != config.ENV_CONFIG} | environment
    return subprocess.run(
        [sys.executable, file.name], cwd=file.parent, capture_output=True, text=True, timeout=60, env=env, check=False
    )


def test_a_job_file_that_python_runs_says_why_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("import statefulspark as ss\nss.Job('words').run()\n")

    ended = _python(file, KUBERNETES_SERVICE_HOST="10.0.0.1")

    line = json.loads(ended.stderr.splitlines()[-1])
    assert ended.returncode == ExitCode.USAGE
    assert (line["message"], line["reason"]) == ("driver ends", "ConfigMissing")
    assert "The job words has no configuration, and state on a pod's own disk is lost with the pod" in line["why"]
    assert "start it with `statefulspark run FILE" in line["why"]


def test_python_ran_no_job_file_without_a_configuration(tmp_path: Path) -> None:
    """`python job.py` refused to start; it has what `run --dev` has, so that both go on from one state."""
    file = tmp_path / "job.py"
    file.write_text(
        "import statefulspark as ss\nfrom statefulspark import launch\nprint(launch.current_config('words').to_json())\n"
    )

    ended = _python(file)

    given = config.JobConfig.model_validate_json(ended.stdout)
    folder = (tmp_path / ".statefulspark").as_uri()
    assert given == config.JobConfig(
        name="words", storage=config.StorageConfig(uri=folder, allow_local_files=True), api_port=0
    )


def test_in_a_repl_state_is_kept_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config.ENV_CONFIG, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.chdir(tmp_path)

    assert launch.current_config("words").storage.uri == (tmp_path / ".statefulspark").as_uri()


def test_importing_a_job_file_ended_the_importing_process(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text("import statefulspark as ss\njob = ss.Job('words')\njob.run()\n")
    file = tmp_path / "importer.py"
    file.write_text("import words\nprint('still here', words.job.name)\n")

    ended = _python(file)

    assert (ended.returncode, ended.stdout) == (0, "still here words\n")
    assert "the job is not run, because its file is being imported" in ended.stderr


def test_a_job_that_a_function_of_an_imported_module_runs_is_run(tmp_path: Path) -> None:
    """As the script of an entry point does."""
    (tmp_path / "words.py").write_text("import statefulspark as ss\ndef main():\n    ss.Job('words').run()\n")
    file = tmp_path / "starter.py"
    file.write_text("import words\nwords.main()\n")

    ended = _python(file)

    assert ended.returncode == ExitCode.BAD_JOB
    assert json.loads(ended.stderr.splitlines()[-1])["reason"] == "NoQueries"


def test_a_job_in_a_repl_ended_the_repl_and_logged_json(tmp_path: Path) -> None:
    lines = ["import statefulspark as ss", "ss.Job('words').run()", "print('still here')"]
    command = [sys.executable, "-i", "-q"]
    env = {name: value for name, value in os.environ.items() if name != config.ENV_CONFIG}

    ended = subprocess.run(
        command, input="\n".join(lines), cwd=tmp_path, capture_output=True, text=True, timeout=60, env=env, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, "still here\n")
    assert "error: The job words declares no query; decorate one with @job.query." in ended.stderr


def test_of_a_job_file_that_raises_only_its_own_lines_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("def broken():\n    raise ValueError('no')\n\nbroken()\n")
    command = [sys.executable, "-m", "statefulspark.cli.main", "run", "job.py", "--name", "w", "--storage", "s3://b/p"]

    brief, verbose = (
        subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False).stderr
        for more in ((), ("--verbose",))
    )

    assert f'  File "{file}", line 4, in <module>\n    broken()\n  File "{file}", line 2, in broken\n' in brief
    assert "runpy" not in brief
    assert "runpy" in verbose
    assert f"The job file {file} line 2 raised ValueError: no" in json.loads(brief.splitlines()[-1])["why"]


def test_a_refusal_below_a_library_names_no_line_of_it() -> None:
    """A store is called through the event loop of its client; a line of that is no line of the job."""
    library: dict[str, Callable[[Exception], None]] = {}
    code = compile("def call(error):\n    raise error\n", "/venv/site-packages/looping.py", "exec")
    exec(code, library)  # noqa: S102 - a library of the test

    with pytest.raises(errors.SpecRejectedError) as raised:
        library["call"](errors.SpecRejectedError("StorageUriInvalid", "It is no location."))

    below_this_test = raised.tb.tb_next
    refusal = raised.value.with_traceback(below_this_test)
    assert below_this_test is not None
    assert launch.located(refusal, refusal.message) == "It is no location."
