"""The few kubectl calls of the demo, the same that a person would type."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from demo import failure, process

Json = Mapping[str, object]

CALL_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl against one cluster and namespace.

    Attributes:
        command: How kubectl is started, for example `("build/bin/cluster", "kubectl")`.
        kubeconfig: The cluster's kubeconfig.
        namespace: Namespace of every call.
    """

    command: tuple[str, ...]
    kubeconfig: Path
    namespace: str

    def call(self, *arguments: str, stdin: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Run one command and return what it printed."""
        return process.run(self._full(arguments), timeout_s=timeout_s, stdin=stdin)

    def apply(self, documents: Sequence[Json]) -> None:
        """Apply objects; those that exist are brought to what is written."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        self.call("apply", "--filename", "-", stdin=text)

    def list(self, kinds: str) -> tuple[Json, ...]:
        """Return all objects of the kinds, comma-separated, that the namespace holds."""
        answer = json.loads(self.call("get", kinds, "--output", "json", "--request-timeout", "10s"))
        return tuple(cast("Sequence[Json]", answer["items"]))

    def delete_pod_now(self, pod: str) -> None:
        """Delete a pod without any grace, as if its machine had died."""
        self.call("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")

    def patch(self, resource: str, change: Json) -> None:
        """Merge a change into an object."""
        self.call("patch", resource, "--type", "merge", "--patch", json.dumps(change))

    def delete(self, resource: str, timeout_s: float) -> None:
        """Delete an object and wait until it is gone; one that is gone already is fine."""
        wait = f"--timeout={timeout_s:.0f}s"
        self.call("delete", resource, "--ignore-not-found", wait, timeout_s=timeout_s + CALL_TIMEOUT_S)

    def logs_command(self, pod: str, *, follow: bool) -> tuple[str, ...]:
        """Return the command that prints a pod's log."""
        return self._full(("logs", pod, "--follow") if follow else ("logs", pod, "--tail", "30"))

    def shown(self, *arguments: str) -> str:
        """Return a command as a person types it."""
        return shlex.join(self._full(arguments))

    def _full(self, arguments: Sequence[str]) -> tuple[str, ...]:
        return (*self.command, "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments)


def text(value: object, *path: str) -> str | None:
    """Return the text or number at a path inside a JSON object as text, or None if there is none."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return None if value is None or isinstance(value, Mapping | list) else str(value)


def one(objects: Sequence[Json], kind: str, name: str) -> Json:
    """Return the one object of a kind and name.

    Raises:
        DemoFailedError: There is none.
    """
    for candidate in objects:
        if candidate.get("kind") == kind and text(candidate, "metadata", "name") == name:
            return candidate
    raise failure.DemoFailedError(f"There is no {kind} {name} any more; somebody deleted it.")
