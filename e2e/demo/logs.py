"""Keeps the logs of the drivers and the operator, also of pods that are gone by the time somebody asks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from demo import kubectl

END_TIMEOUT_S = 5.0


class LogFollower:
    """One `kubectl logs --follow` per pod, each into a file of its own."""

    def __init__(self, folder: Path) -> None:
        """Write into a folder, which is made when the first log is."""
        self._folder = folder
        self._followers: dict[str, subprocess.Popen[bytes]] = {}

    def follow(self, kube: kubectl.Kubectl, names: Iterable[str]) -> None:
        """Follow these pods, or `deployment/NAME`; one whose container did not run yet is tried again."""
        for name in names:
            running = self._followers.get(name)
            path = self.path(name)
            if running is None or (running.poll() is not None and not path.stat().st_size):
                self._start(kube, name, path)

    def path(self, name: str) -> Path:
        """Return the file of a pod's log."""
        return self._folder / f"{name.replace('/', '-')}.log"

    def close(self) -> None:
        """End all followers."""
        for process in self._followers.values():
            if process.poll() is None:
                process.terminate()
        for process in self._followers.values():
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._followers.clear()

    def tails(self, lines: int) -> tuple[str, ...]:
        """Return the last lines of every log, with its name above them."""
        texts = []
        for path in sorted(self._folder.glob("*.log")):
            last = path.read_text("utf-8", errors="replace").splitlines()[-lines:]
            texts.append("\n".join((f"--- {path}", *last)))
        return tuple(texts)

    def _start(self, kube: kubectl.Kubectl, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            self._followers[name] = subprocess.Popen(
                kube.logs_command(name, follow=True), stdout=file, stderr=subprocess.DEVNULL
            )
