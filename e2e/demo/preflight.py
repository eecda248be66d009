"""What has to be there before anything is started; all that is missing is said at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from demo import cluster, failure, machine, settings

FREE_DISK_GIB = 5
DRIVER_GIB, EXECUTOR_GIB = 3, 2
"""What a pod may take; while a standby gets ready, there are twice as many pods."""
PROGRAMS = (cluster.CLUSTER, cluster.HELM)


def check(chosen: settings.Settings) -> None:
    """Look at the machine.

    Raises:
        DemoFailedError: Something is missing; the message has one line for each.
    """
    needed = [*PROGRAMS, *(() if chosen.foreign else chosen.image_archives)]
    problems = [*_missing_files(needed), *_problems_of_this_machine(chosen)]
    if problems:
        raise failure.DemoFailedError("The demo cannot start:\n" + "\n".join(f"  - {problem}" for problem in problems))


def _missing_files(paths: Iterable[Path]) -> list[str]:
    return [f"{path} is missing; `make demo-kubernetes` builds it." for path in paths if not path.exists()]


def _problems_of_this_machine(chosen: settings.Settings) -> list[str]:
    if chosen.foreign is not None:
        kubeconfig = chosen.foreign.kubeconfig
        return [] if kubeconfig.exists() else [f"KUBECONFIG names {kubeconfig}, which does not exist."]
    problems = []
    if os.geteuid() != 0:
        problems.append("Starting a cluster needs root. Run as root, or set KUBECONFIG to use a cluster of your own.")
    free_gib = shutil.disk_usage(Path.cwd()).free / 2**30
    if free_gib < FREE_DISK_GIB:
        problems.append(
            f"{free_gib:.1f} GiB of disk are free here; {FREE_DISK_GIB} GiB are needed for images and state."
        )
    return [*problems, *no_room(chosen.executors, machine.available_gib(Path("/proc/meminfo")))]


def no_room(executors: int, available_gib: float | None) -> list[str]:
    """Say that executors do not fit into this machine's memory; without any, or where it cannot be told, nothing is said."""
    needed_gib = 2 * (DRIVER_GIB + executors * EXECUTOR_GIB)
    if not executors or available_gib is None or available_gib >= needed_gib:
        return []
    return [
        f"{available_gib:.1f} GiB of memory are available; DEMO_EXECUTORS={executors} needs {needed_gib} GiB. "
        "Ask for fewer executors, or for none."
    ]
