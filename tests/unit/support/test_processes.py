"""The base of all starters of servers: what waits has a deadline, what fails shows the log, what is ended is gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import processes
import pytest

pytestmark = pytest.mark.slow

_SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


class Listener(processes.Server):
    """A server that does what a program says."""

    starts_within_s = 20.0

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__("the listener", folder / "listener.log")
        self.port = processes.free_port()
        self._program = program

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", self._program, str(self.port)]

    def answers(self) -> bool:
        return processes.is_open(self.port)


LISTENS = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("listening", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[processes.Process]:
    made = processes.Process("the process", tmp_path / "process.log")
    yield made
    made.stop()


def run(process: processes.Process, program: str, *arguments: str) -> None:
    process.launch([sys.executable, "-c", program, *arguments])


def test_a_server_answers_when_its_start_returns_and_is_gone_after_its_stop(tmp_path: Path) -> None:
    server = Listener(tmp_path, LISTENS)

    with processes.serving(server):
        assert processes.is_open(server.port)

    assert (server.exit_code, processes.is_open(server.port)) == (-signal.SIGKILL, False)


def test_a_server_starts_again_on_the_same_port_after_it_was_stopped(tmp_path: Path) -> None:
    server = Listener(tmp_path, LISTENS)
    with processes.serving(server):
        port = server.port
        server.stop()
        server.start()

        assert (server.port, processes.is_open(port)) == (port, True)
        assert server.log.read_text() == "listening\n" * 2


def test_a_server_that_ends_instead_of_answering_fails_with_its_exit_code_and_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    server = Listener(tmp_path, "print('x' * 9000 + 'no such database'); raise SystemExit(3)")

    with pytest.raises(pytest.fail.Exception) as caught:
        server.start()

    message = str(caught.value)
    assert message.startswith(f"the listener ended with 3 before it answers; the end of {server.log}:\nx")
    assert message.endswith("no such database\n")
    assert len(message) < 4000


def test_a_server_that_never_answers_is_ended_at_the_deadline(tmp_path: Path) -> None:
    server = Listener(tmp_path, _SLEEPS)
    server.starts_within_s = 0.2

    with pytest.raises(pytest.fail.Exception, match="runs, but after 0 s it is still not so that it answers"):
        server.start()

    assert server.exit_code == -signal.SIGKILL


def test_a_process_is_stopped_as_often_as_one_likes(process: processes.Process) -> None:
    assert process.stop() is None, "it was never started"

    run(process, _SLEEPS)

    assert (process.stop(), process.stop()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_a_process_that_ignores_its_signal_is_killed(process: processes.Process) -> None:
    run(process, f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_SLEEPS}")
    process.wait_until(lambda: "up" in process.output, "it sleeps", 20)

    assert process.stop(signal.SIGTERM, within_s=0.2) == -signal.SIGKILL


def test_a_signal_to_the_family_reaches_what_a_process_has_started(process: processes.Process) -> None:
    run(process, _PARENT, f"import os; print(os.getpid(), flush=True); {_SLEEPS}")
    process.wait_until(lambda: "up" in process.output, "its child sleeps", 20)
    child = os.pidfd_open(int(process.output.split()[0]))

    process.send_to_family(signal.SIGKILL)

    assert process.wait_end(20) == -signal.SIGKILL
    assert select.select([child], [], [], 20)[0] == [child], "it has ended, too"
    os.close(child)


def test_a_process_that_does_not_end_is_killed_at_the_deadline(process: processes.Process) -> None:
    run(process, _SLEEPS)
    process.wait_until(lambda: "up" in process.output, "it sleeps", 20)

    with pytest.raises(pytest.fail.Exception, match=r"the process did not end within 0 s.*\n.*up"):
        process.wait_end(0.2)

    assert process.stop() == -signal.SIGKILL


def test_what_holds_at_the_end_of_a_process_is_no_failure(process: processes.Process) -> None:
    run(process, "print('done')")

    process.wait_until(lambda: process.exit_code is not None, "it has ended", 20)

    assert (process.exit_code, process.output) == (0, "done\n")


def test_a_second_start_while_it_runs_is_refused(process: processes.Process) -> None:
    run(process, _SLEEPS)

    with pytest.raises(AssertionError, match="the process runs already"):
        run(process, _SLEEPS)


def test_the_output_is_that_of_the_newest_start(process: processes.Process) -> None:
    for word in ("first", "second"):
        run(process, f"print('{word}')")
        process.wait_end(20)

    assert (process.output, process.log.read_text()) == ("second\n", "first\nsecond\n")


def test_variables_come_on_top_of_those_of_this_process(tmp_path: Path) -> None:
    process = processes.Process("the process", tmp_path / "log", environment={"OF_A_TEST": "yes"})
    run(process, "import os; print(os.environ['OF_A_TEST'], os.environ['PATH'])")

    assert process.wait_end(20) == 0
    assert process.output == f"yes {os.environ['PATH']}\n"


def test_free_ports_are_different_and_free() -> None:
    ports = processes.free_ports(20)

    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((processes.LOOPBACK, port)):
            assert processes.is_open(port)


def test_a_file_that_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"server is missing; run `make server` first\."):
        processes.require(tmp_path / "server", "server")


_UNWINDS = """
import os, signal, sys, time
import processes
with processes.ending_in_order():
    try:
        print("up", flush=True)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # Somebody is impatient.
        time.sleep(0.1)
        print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_asked_to_end_cleans_up_first(tmp_path: Path, number: signal.Signals) -> None:
    support = Path(processes.__file__).parent
    program = processes.Process("it", tmp_path / "log", environment={"PYTHONPATH": str(support)})
    program.launch([sys.executable, "-c", _UNWINDS])
    program.wait_until(lambda: "up" in program.output, "it runs", 20)

    assert program.stop(number) == 128 + number
    assert program.output.splitlines() == ["up", "cleaned up"]


def test_signals_end_a_process_again_as_before_once_the_block_is_over() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with processes.ending_in_order():
        assert signal.getsignal(signal.SIGTERM) is not before

    assert signal.getsignal(signal.SIGTERM) is before
