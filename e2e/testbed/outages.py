"""What is taken away for a while: the API server, the speed of etcd, the operator, the memory of a container.

Only a cluster of our own can lose these; in a foreign one the scenarios that ask for it are left out.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from demo import failure, kubectl, process

from testbed import bed, job, waiting

ASLEEP_S, AWAKE_S = 0.4, 0.1
"""Of etcd, in turns: every write of the API server then waits for some of them."""
_PROC = Path("/proc")
_COMMAND_TIMEOUT_S = 60.0
_TAKES_ALL = """
import os, signal, sys, time
victims, hogs = ['/proc/' + pid for pid in sys.argv[1:]], []
while all(map(os.path.exists, victims)) and len(hogs) < 500:
    hog = os.fork()
    if not hog:
        taken = b'x' * (48 << 20)
        time.sleep(60)
        os._exit(0)
    hogs.append(hog)
    time.sleep(0.02)
for hog in hogs:
    os.kill(hog, signal.SIGKILL)
"""
"""Many small processes: the kernel weighs what a process has, so that one large hog would go before any victim. They are
gone when one victim is."""
_PID_INSIDE = re.compile(r"^NSpid:.*\t(\d+)$", re.MULTILINE)
"""A process's number in the innermost namespace, in its status."""
_BEFORE_ALL, _AFTER_ALL = 1000, 0
"""For the kernel's choice. A hog has what its container has, which is between them."""
_HOG_TIMEOUT_S = 120.0


def require_own(cluster: bed.Bed) -> None:
    """Leave a scenario out of a foreign cluster."""
    if cluster.chosen.foreign is not None:
        pytest.skip("a cluster that is not ours loses nothing of its own")


@contextmanager
def without_api_server(cluster: bed.Bed) -> Iterator[None]:
    """Keep the API server away while the block runs; it answers again afterwards."""
    require_own(cluster)
    _service("stop", "kube-apiserver")
    try:
        yield
    finally:
        _service("start", "kube-apiserver")
        waiting.until(lambda: _answers(cluster.operator()), bool, "the API server answers")


@contextmanager
def slow_etcd(cluster: bed.Bed) -> Iterator[None]:
    """Let etcd sleep most of the time while the block runs."""
    require_own(cluster)
    pid, over = _pid_of_etcd(), threading.Event()
    sleeper = threading.Thread(target=_doze, args=(pid, over), daemon=True)
    sleeper.start()
    try:
        yield
    finally:
        over.set()
        sleeper.join()


@contextmanager
def without_operator(cluster: bed.Bed) -> Iterator[None]:
    """Have no operator while the block runs."""
    operator = cluster.operator()
    _scale(operator, 0)
    waiting.until(lambda: _pods_of(operator), lambda pods: not pods, "the operator is gone")
    try:
        yield
    finally:
        _scale(operator, 1)


def kill_operator(cluster: bed.Bed) -> None:
    """Delete every pod of the operator without grace; its Deployment makes others."""
    operator = cluster.operator()
    for pod in _pods_of(operator):
        operator.delete_pod_now(pod)


def take_all_memory(subject: job.Job, pod: str, victims: str) -> None:
    """Use up the memory of a pod's container, until the kernel has killed one of those that it is told to take first.

    Args:
        subject: Whose pod it is.
        pod: Its name.
        victims: Pattern of their command lines.

    Raises:
        AssertionError: All of them live on.
    """
    require_own(subject.bed)
    uid = subject.kube.call("get", "pod", pod, "--output", "jsonpath={.metadata.uid}")
    processes = _processes_of(uid)
    chosen = [one for one in processes if re.search(victims, " ".join(_arguments(one)))]
    for one in processes:
        _weigh(one, _BEFORE_ALL if one in chosen else _AFTER_ALL)
    inside = [pid for one in chosen for pid in _PID_INSIDE.findall(_text(one / "status"))]
    # The call ends when its process is killed, too, or the pod is gone.
    with contextlib.suppress(failure.DemoFailedError):
        subject.kube.call("exec", pod, "--", "python3", "-c", _TAKES_ALL, *inside, timeout_s=_HOG_TIMEOUT_S)
    gone = [one for one in chosen if not one.exists()]
    assert gone, f"The kernel has killed none of {len(chosen)} processes of {pod} like {victims!r}."


def _processes_of(pod_uid: str) -> list[Path]:
    """Return the processes of a pod, which are this machine's, too, in the cluster that is ours."""
    return [one for one in _PROC.glob("[0-9]*") if f"/pod{pod_uid}/" in _text(one / "cgroup")]


def _weigh(process_folder: Path, adjustment: int) -> None:
    """Say how early the kernel kills a process, unless that has ended."""
    with contextlib.suppress(OSError):
        (process_folder / "oom_score_adj").write_text(str(adjustment), "utf-8")


def _service(what: str, name: str) -> None:
    command = (*bed.COMMAND, "service", what, "control", name)
    process.run(command, timeout_s=_COMMAND_TIMEOUT_S, log=bed.LOGS / "commands.log")


def _answers(kube: kubectl.Kubectl) -> bool:
    try:
        return kube.call("get", "--raw", "/readyz").strip() == "ok"
    except failure.DemoFailedError:
        return False


def _scale(operator: kubectl.Kubectl, replicas: int) -> None:
    operator.call("scale", "deployment", "--all", f"--replicas={replicas}")


def _pods_of(operator: kubectl.Kubectl) -> list[str]:
    return [str(kubectl.text(pod, "metadata", "name")) for pod in operator.list("pods")]


def _pid_of_etcd() -> int:
    (pid,) = [int(one.name) for one in _PROC.glob("[0-9]*") if is_etcd(_arguments(one), bed.DIRECTORY)]
    return pid


def is_etcd(arguments: Sequence[str], directory: Path) -> bool:
    """Tell whether a command line is that of a cluster's etcd."""
    folder = str(directory / "etcd")
    return any(name == "--data-dir" and value.endswith(folder) for name, value in itertools.pairwise(arguments))


def _arguments(process_folder: Path) -> list[str]:
    return _text(process_folder / "cmdline").split("\0")


def _text(file: Path) -> str:
    """Return what a file of a process says, nothing if that has ended."""
    with contextlib.suppress(OSError):
        return file.read_bytes().decode(errors="replace")
    return ""


def _doze(pid: int, over: threading.Event) -> None:
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        over.wait(ASLEEP_S)
        os.kill(pid, signal.SIGCONT)
        over.wait(AWAKE_S)
