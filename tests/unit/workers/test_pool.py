"""Tasks run where the state of their partition is, and end with the workers that Spark knows: on PySpark's real daemon."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import workerdaemonrig

pytestmark = pytest.mark.slow

_WITHIN_S = 20.0


@pytest.fixture
def daemon() -> Iterator[workerdaemonrig.Daemon]:
    with workerdaemonrig.running() as running:
        yield running


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _members(group: int) -> list[int]:
    """Return the processes of a process group."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(process.name))
    return found


def _pool(daemon: workerdaemonrig.Daemon, *others: int) -> int:
    [pool] = set(_members(daemon.process.pid)) - {daemon.process.pid, *others}
    return pool


@contextmanager
def _room_for_connections(pid: int, count: int) -> Iterator[None]:
    """Let a process have just so many more files open while the block runs."""
    taken = {int(descriptor.name) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
    free = [descriptor for descriptor in range(len(taken) + count + 1) if descriptor not in taken]
    before, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[count], most))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (before, most))


def _two_partitions(daemon: workerdaemonrig.Daemon) -> tuple[list[workerdaemonrig.Worker], list[int]]:
    """Have two partitions worked on at the same time; return the workers and the processes that have the state."""
    workers = [daemon.worker(), daemon.worker()]
    processes = [worker.ask(partition, "w") for partition, worker in enumerate(workers)]
    for worker in workers:
        worker.go_on()
    return workers, processes


def test_a_task_runs_where_the_state_of_its_partition_is_whichever_worker_gets_it(
    daemon: workerdaemonrig.Daemon,
) -> None:
    workers, processes = _two_partitions(daemon)
    assert not {worker.pid for worker in workers} & set(processes)
    for batch in range(6):
        asked = workers if batch % 2 else workers[::-1]
        assert [worker.ask(partition, "w") for partition, worker in enumerate(asked)] == processes
        for worker in asked:
            worker.go_on()


def test_tasks_without_state_run_in_the_worker_that_spark_chose(daemon: workerdaemonrig.Daemon) -> None:
    (first, second), (zero, _) = _two_partitions(daemon)
    assert first.ask(0, "w") == zero
    assert [second.ask(partition, "n") for partition in (0, 1)] == [second.pid, second.pid]
    first.go_on()
    assert second.ask(0, "s") == zero


def test_queries_that_run_at_the_same_time_have_their_state_apart(daemon: workerdaemonrig.Daemon) -> None:
    first, second = daemon.worker(), daemon.worker()
    one, other = first.ask(0, "w", "one"), second.ask(0, "w", "other")
    assert one != other
    first.go_on()
    second.go_on()
    assert [worker.ask(0, "s", query) for worker in (first, second) for query in ("one", "other")] == [one, other] * 2


def test_there_are_as_many_processes_as_tasks_ran_at_the_same_time(daemon: workerdaemonrig.Daemon) -> None:
    workers = [daemon.worker() for _ in range(4)]
    assert len({worker.ask(partition, "s") for partition, worker in enumerate(workers)}) == 1


def test_a_task_ends_with_the_worker_that_spark_kills_and_no_other_does(daemon: workerdaemonrig.Daemon) -> None:
    (first, second), (zero, one) = _two_partitions(daemon)
    assert (first.ask(1, "w"), second.ask(0, "w")) == (one, zero)
    daemon.kill(first)
    _wait(lambda: not _is_there(one))
    with pytest.raises(EOFError):
        first.read()
    second.go_on()
    assert second.ask(0, "s") == zero


def test_a_process_that_dies_ends_the_worker_that_spark_knows(daemon: workerdaemonrig.Daemon) -> None:
    (first, second), (zero, one) = _two_partitions(daemon)
    first.start(1, "d")
    with pytest.raises(EOFError):
        first.read()
    _wait(lambda: not _is_there(one) and not _is_there(first.pid))
    assert second.ask(1, "s") == zero


def test_a_process_that_dies_between_two_tasks_costs_its_state_and_no_task(daemon: workerdaemonrig.Daemon) -> None:
    worker = daemon.worker()
    process = worker.ask(0, "s")
    os.kill(process, signal.SIGKILL)
    _wait(lambda: not _is_there(process))
    assert worker.ask(0, "s") != process


def test_a_task_that_fails_ends_worker_and_process(daemon: workerdaemonrig.Daemon) -> None:
    worker = daemon.worker()
    process = worker.ask(0, "s")
    worker.start(0, "f")
    _wait(lambda: not _is_there(process))
    worker.close()
    _wait(lambda: not _is_there(worker.pid))
    assert daemon.worker().ask(0, "s") != process


def test_state_stays_when_spark_ends_its_idle_workers(daemon: workerdaemonrig.Daemon) -> None:
    worker = daemon.worker()
    process = worker.ask(0, "s")
    daemon.kill(worker)
    _wait(lambda: not _is_there(worker.pid))
    assert daemon.worker().ask(0, "s") == process


def test_nothing_is_left_when_spark_ends_the_daemon() -> None:
    with workerdaemonrig.running() as daemon:
        _two_partitions(daemon)
        assert len(_members(daemon.process.pid)) == len(["daemon", "pool", "two workers", "", "two processes", ""])
    _wait(lambda: not _members(daemon.process.pid))


def test_nothing_is_left_when_the_daemon_dies_and_spark_ends_its_workers() -> None:
    with workerdaemonrig.running() as daemon:
        workers, _ = _two_partitions(daemon)
        daemon.process.kill()
        for worker in workers:
            worker.close()
        _wait(lambda: not _members(daemon.process.pid))


def test_without_a_pool_workers_run_their_tasks_themselves(daemon: workerdaemonrig.Daemon) -> None:
    worker = daemon.worker()
    process = worker.ask(0, "s")
    pool = _pool(daemon, worker.pid, process)
    os.kill(pool, signal.SIGKILL)
    _wait(lambda: not _is_there(pool) and not _is_there(process))
    assert [worker.ask(0, "s"), daemon.worker().ask(1, "s") != worker.pid] == [worker.pid, True]


def test_a_worker_runs_its_task_itself_while_no_process_can_be_made(daemon: workerdaemonrig.Daemon) -> None:
    worker = daemon.worker()
    pool = _pool(daemon, worker.pid)
    with _room_for_connections(pool, len(["of the task", "of who asks"])):
        assert worker.ask(0, "s") == worker.pid
    assert worker.ask(0, "s") not in {worker.pid, pool}
    assert _is_there(pool)


def test_a_process_knows_the_broadcast_variables_that_spark_sent_to_the_worker(daemon: workerdaemonrig.Daemon) -> None:
    """Three of them: two came with tasks that ran in both processes, one with a task that ran in the worker."""
    (first, second), (zero, one) = _two_partitions(daemon)
    assert [first.ask(partition, "+") for partition in (0, 1)] == [zero, one]
    assert first.ask(2, "m") == first.pid
    assert [worker.ask(partition, "?") for worker in (first, second) for partition in (0, 1)] == [3, 3, 0, 0]


def test_a_task_with_encrypted_broadcast_variables_runs_in_the_worker_that_they_are_for(
    daemon: workerdaemonrig.Daemon,
) -> None:
    worker = daemon.worker()
    assert worker.ask(0, "x") == worker.pid


def test_who_does_not_know_the_secret_gets_no_worker(daemon: workerdaemonrig.Daemon) -> None:
    stranger = daemon.worker("guess")
    assert stranger.greeting == "err"
    with pytest.raises(EOFError):
        stranger.ask(0, "s")
