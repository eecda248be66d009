"""A git repository that a namespace follows, by Argo CD's engine (`build/bin/gitops-agent`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml
from demo.kubectl import Json

from testbed import waiting

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "build" / "bin" / "gitops-agent"
_MANIFEST = "manifests/job.yaml"
_AUTHOR = ("-c", "user.name=A Person", "-c", "user.email=person@example.com")
_END_S = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """What Argo CD would say about a resource.

    Attributes:
        revision: Commit that is applied.
        status: `Progressing`, `Healthy`, `Suspended` or `Degraded`.
        message: The reason.
    """

    revision: str
    status: str
    message: str


class Repository:
    """A repository of one manifest."""

    def __init__(self, folder: Path) -> None:
        """Create it, empty."""
        self.folder = folder
        (folder / _MANIFEST).parent.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch", "main")

    def commit(self, document: Json, message: str) -> str:
        """Commit a manifest, and return the commit."""
        (self.folder / _MANIFEST).write_text(yaml.safe_dump(document), "utf-8")
        self._git("add", "--all")
        self._git(*_AUTHOR, "commit", "--quiet", "--allow-empty", "--message", message)
        return self._git("rev-parse", "HEAD").strip()

    def revert(self) -> str:
        """Take the newest commit back by another one, and return that."""
        self._git(*_AUTHOR, "revert", "--no-edit", "HEAD")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        command = ("git", "-C", str(self.folder), *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Loop:
    """The agent that keeps a namespace as the repository says, for as long as the context lasts."""

    def __init__(self, repository: Repository, *, kubeconfig: Path, namespace: str, application: str) -> None:
        """Take what it needs; nothing is started.

        Args:
            repository: Its repository.
            kubeconfig: Of the cluster.
            namespace: The namespace that it keeps.
            application: Value of its tracking label.
        """
        self._command = (
            str(AGENT),
            *("-repository", str(repository.folder), "-directory", "manifests"),
            *("-namespace", namespace, "-application", application),
            *("-health", str(ROOT / "charts" / "gitops")),
        )
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        self._output = repository.folder.parent / "agent.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Loop:
        """Start it."""
        with self._output.open("wb") as output, self._output.with_suffix(".log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=log, env=self._environment)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_END_S)

    def lines(self) -> Sequence[Mapping[str, object]]:
        """Return what it has said so far."""
        assert self._process is not None
        assert self._process.poll() is None, self._output.with_suffix(".log").read_text("utf-8")
        text = self._output.read_text("utf-8")
        return [
            cast("Mapping[str, object]", json.loads(line))
            for line in text.splitlines(keepends=True)
            if line[-1] == "\n"
        ]

    def healths(self, resource: str) -> list[Health]:
        """Return the health of a resource from the first on, without repetitions."""
        told = [line for line in self.lines() if line.get("resource") == resource]
        return [Health(str(line["revision"]), str(line["health"]), str(line["message"])) for line in told]

    def wait_health(self, resource: str, status: str, revision: str) -> Health:
        """Wait until the newest health of a resource is a status, at a commit."""

        def newest() -> Health | None:
            told = self.healths(resource)
            return told[-1] if told else None

        def is_there(seen: Health | None) -> bool:
            return seen is not None and (seen.status, seen.revision) == (status, revision)

        seen = waiting.until(newest, is_there, f"{resource} {status} at {revision[:8]}")
        assert seen is not None
        return seen
