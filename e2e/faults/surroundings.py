"""What a job under load has around it: servers that all scenarios share, an amount of load, and its drivers' own things."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import kafkabroker
import postgresserver
import s3server
import standalone

HOSTS = ("127.0.0.2", "127.0.0.3")
"""Of executors, each as its own node."""
_CORES, _MEMORY = 2, "1300m"
"""Of a node: an executor of the driver, and one of its successor that takes over beside it."""
_CLOCK = Path(__file__).with_name("clock.c")


@dataclass(frozen=True, slots=True)
class Servers:
    """What all scenarios share."""

    s3: s3server.S3Server
    kafka: kafkabroker.Broker
    postgres: postgresserver.Postgres


@contextmanager
def serving(folder: Path) -> Iterator[Servers]:
    """Run the servers while the block runs; they begin empty.

    Args:
        folder: Gets what they store, and their logs.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with ExitStack() as stack:
        (folder / "s3").mkdir(parents=True, exist_ok=True)
        (folder / "kafka").mkdir(parents=True, exist_ok=True)
        s3 = stack.enter_context(s3server.running(folder / "s3"))
        kafka = stack.enter_context(kafkabroker.running(folder / "kafka"))
        yield Servers(s3, kafka, stack.enter_context(postgresserver.running()))


@dataclass(frozen=True, slots=True)
class Load:
    """How much is sent.

    Attributes:
        per_second: Events.
        keys: Number of keys.
        for_s: At least so long, however short the fault.
    """

    per_second: float = 60.0
    keys: int = 24
    for_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Local:
    """What the drivers have of their own on this machine.

    Attributes:
        environment: Variables of the drivers.
        disk: Where Spark keeps what is local; None for the machine's.
        clock: File with the seconds that are added to their clock; None for the machine's.
        packs_all: Whether all changes of keyed state go into packs.
        nodes: Where executors run; None where tasks run in the driver.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    disk: Path | None = None
    clock: Path | None = None
    packs_all: bool = False
    nodes: standalone.Cluster | None = None


@contextmanager
def local_things(folder: Path, *, disk_bytes: int, has_own_clock: bool, has_executors: bool = False) -> Iterator[Local]:
    """Provide a disk of a size, a clock and nodes while the block runs; a disk needs root, and a clock a C compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    with _disk_and_clock(folder, disk_bytes=disk_bytes, has_own_clock=has_own_clock) as local:
        if not has_executors:
            yield local
            return
        nodes = folder / "nodes"
        nodes.mkdir()
        with standalone.cluster(nodes, hosts=HOSTS, memory=_MEMORY, cores=_CORES) as cluster:
            yield replace(local, nodes=cluster)


@contextmanager
def _disk_and_clock(folder: Path, *, disk_bytes: int, has_own_clock: bool) -> Iterator[Local]:
    environment: dict[str, str] = {}
    disk, clock = folder / "disk" if disk_bytes else None, folder / "clock" if has_own_clock else None
    if clock is not None:
        library = folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_CLOCK), "-ldl"], check=True)
        clock.write_text("0")
        environment |= {"LD_PRELOAD": str(library), "FAULT_CLOCK": str(clock)}
    if disk is None:
        yield Local(environment, disk, clock)
        return
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "faults", str(disk)], check=True)
    try:
        yield Local(environment | {"SPARK_LOCAL_DIRS": str(disk), "TMPDIR": str(disk)}, disk, clock)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
