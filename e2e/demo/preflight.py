"""What has to be there before anything is started; all that is missing is said at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from demo import cluster, failure, settings

FREE_DISK_GIB = 5
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
    return [f"{path} is missing; `make demo` builds it." for path in paths if not path.exists()]


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
    return problems
