"""The memory of a driver's processes, as Linux shows it: of real ones, and of a tree that is written down."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from statefulspark.server import memory
from statefulspark.server.memory import MemoryPart

MIB = 1 << 20


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A driver with a JVM, a daemon below it and two workers below that, beside the processes of others."""
    processes = [(1, 0, "tini"), (7, 1, "python"), (9, 7, "java"), (20, 9, "python (daemon)"), (21, 20, "python")]
    for number, parent, name in [*processes, (22, 20, "a) S 1 (b"), (50, 1, "java")]:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "stat").write_text(f"{number} ({name}) S {parent} {number} 0 -1")
        (folder / "smaps_rollup").write_text(f"00-ff [rollup]\nRss: 9999 kB\nPss: {number} kB\nPss_Anon: 1 kB\n")
    (tmp_path / "self").mkdir()
    return tmp_path


def test_each_process_counts_for_its_part_and_those_of_others_do_not(proc: Path) -> None:
    assert memory.by_part(proc, driver=7) == {
        MemoryPart.DRIVER: 7 * 1024,
        MemoryPart.JVM: 9 * 1024,
        MemoryPart.WORKERS: (20 + 21 + 22) * 1024,
    }


def test_a_process_that_ends_meanwhile_is_left_out(proc: Path) -> None:
    (proc / "21" / "smaps_rollup").unlink()
    (proc / "22" / "stat").unlink()

    assert memory.by_part(proc, driver=7)[MemoryPart.WORKERS] == 20 * 1024


def test_a_system_that_does_not_tell_has_no_part(tmp_path: Path) -> None:
    assert memory.by_part(tmp_path / "proc") == {}


def _keep_64_mib(is_ready: Event, is_over: Event) -> None:
    kept = b"x" * (64 * MIB)
    is_ready.set()
    is_over.wait()
    del kept


@pytest.fixture
def worker() -> Iterator[None]:
    """A child that has 64 MiB."""
    spawned = multiprocessing.get_context("spawn")
    is_ready, is_over = spawned.Event(), spawned.Event()
    child = spawned.Process(target=_keep_64_mib, args=(is_ready, is_over))
    child.start()
    assert is_ready.wait(60)
    yield
    is_over.set()
    child.join()


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")
def test_a_real_worker_is_seen(worker: None) -> None:
    kept = memory.by_part()

    assert kept[MemoryPart.WORKERS] >= 64 * MIB
    assert kept[MemoryPart.DRIVER] > 10 * MIB
