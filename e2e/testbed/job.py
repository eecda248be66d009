"""One resource in a namespace of its own: applied, changed and looked at the way a person does it with kubectl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from demo import failure, kubectl, resources
from demo.resources import Document
from statefulspark import errors
from statefulspark.contract import layout
from statefulspark.storage import ObjectStore

from testbed import bed, totals, waiting

NAME = "totals"
RESOURCE = f"statefulsparkjob/{NAME}"
SECRET = "s3"  # noqa: S105 - the name of an object, not a secret
FILES = Path(__file__).with_name("jobs")
FOLDER = "/opt/scenario"
FILE = f"{FOLDER}/totals.py"
BALLAST_MB_PER_BATCH = 30
"""How much of the ballast in `jobs/totals.py` a batch adds."""
TIRES = "        if count > 2500:\n            raise ValueError('it is tired')\n"
"""What makes a version fail some seconds after it has taken over."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The resource's status as a person reads it.

    Attributes:
        phase: In one word.
        message: In one sentence.
        reason: Of the condition that says why it is so: Stalled if it is true, else Ready.
        epoch: Of the newest driver.
        stalled: The operator has stopped trying.
        status: All of it.
    """

    phase: str
    message: str
    reason: str
    epoch: int
    stalled: bool
    status: Mapping[str, object]

    def condition(self, kind: str) -> Mapping[str, object]:
        """Return a condition by its type, empty before the operator has written it."""
        listed = cast("list[Mapping[str, object]]", self.status.get("conditions") or [])
        return next((one for one in listed if one["type"] == kind), {})


@dataclass(frozen=True, slots=True)
class Job:
    """The resource of one scenario.

    Attributes:
        bed: Where it runs.
        namespace: Its own.
    """

    bed: bed.Bed
    namespace: str

    @property
    def kube(self) -> kubectl.Kubectl:
        """Kubectl for its namespace."""
        return self.bed.connection.kubectl(self.namespace)

    @property
    def output(self) -> ObjectStore:
        """What its sink has written."""
        return self.bed.connection.open_store(f"{self.namespace}/output")

    @property
    def state_uri(self) -> str:
        """Its `storage.uri`."""
        return self.bed.connection.uri(f"{self.namespace}/state")

    @property
    def state(self) -> ObjectStore:
        """Its root on storage."""
        root = self.bed.connection.open_store(f"{self.namespace}/state")
        return root.child(layout.job_prefix(self.namespace, NAME))

    def prepare(self) -> None:
        """Create the namespace with the credentials and the job files."""
        good = FILES.joinpath("totals.py").read_text("utf-8")
        files = {
            "totals.py": good,
            "renamed.py": good.replace('uid="a"', 'uid="b"'),
            "tires.py": good.replace("        yield key,", TIRES + "        yield key,"),
            "raises.py": FILES.joinpath("raises.py").read_text("utf-8"),
        }
        self.kube.apply(
            [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
                self.secret(),
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": files},
            ]
        )

    def secret(self, secret_key: str | None = None, key_name: str = "AWS_SECRET_ACCESS_KEY") -> Document:
        """Return the Secret with the credentials, or with a wrong secret key, or under a wrong name."""
        connection = self.bed.connection
        keys = {"AWS_ACCESS_KEY_ID": connection.access_key, key_name: secret_key or connection.secret_key}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": keys}

    def document(self, **spec: object) -> Document:
        """Return the resource with some parts of its spec replaced or, where both are mappings, merged."""
        connection = self.bed.connection
        base: Document = {
            "image": self.bed.chosen.job_image,
            "imagePullPolicy": "IfNotPresent",
            "job": {"file": FILE, "parameters": {"output": connection.uri(f"{self.namespace}/output")}},
            "storage": {
                "uri": self.state_uri,
                "s3": {
                    "endpoint": connection.s3_pod_endpoint,
                    "region": connection.region,
                    "credentialsSecretRef": {"name": SECRET},
                },
            },
            "checkpoint": {"interval": "3s", "retention": {"count": 3}},
            "sparkConf": {"spark.sql.shuffle.partitions": "2"},
            "driver": {
                "heap": "1Gi",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}},
                "podTemplate": mount_files("driver"),
            },
        }
        return {
            "apiVersion": "statefulspark.io/v1alpha1",
            "kind": "StatefulSparkJob",
            "metadata": {"name": NAME},
            "spec": resources.merge(base, spec),
        }

    def apply(self, **spec: object) -> None:
        """Apply the resource."""
        self.kube.apply([self.document(**spec)])

    def refusal(self, **spec: object) -> str:
        """Apply a resource that the API server must refuse, and return what kubectl says."""
        try:
            self.apply(**spec)
        except failure.DemoFailedError as error:
            return error.message
        raise AssertionError("The API server took it.")

    def change(self, **spec: object) -> None:
        """Change parts of the spec."""
        self.kube.patch(RESOURCE, {"spec": spec})

    def see(self) -> Seen:
        """Look at the resource."""
        found = cast("Mapping[str, object]", json.loads(self.kube.call("get", RESOURCE, "--output", "json")))
        status = cast("Mapping[str, object]", found.get("status") or {})
        seen = Seen(
            phase=kubectl.text(status, "phase") or "",
            message=kubectl.text(status, "message") or "",
            reason="",
            epoch=int(kubectl.text(status, "epoch") or 0),
            stalled=False,
            status=status,
        )
        stalled = seen.condition("Stalled").get("status") == "True"
        reason = str(seen.condition("Stalled" if stalled else "Ready").get("reason", ""))
        return Seen(seen.phase, seen.message, reason, seen.epoch, stalled, status)

    def wait_stalled(self, reason: str) -> Seen:
        """Wait until the operator has stopped trying for a reason."""
        return waiting.until(self.see, lambda seen: seen.stalled and seen.reason == reason, f"Stalled, {reason}")

    def wait_upgrade(self, state: str) -> None:
        """Wait until the upgrade reaches a state, however short: looks from time to time would miss some."""
        condition = f"--for=jsonpath={{.status.upgrade.state}}={state}"
        limit_s = waiting.PATIENCE_S
        self.kube.call("wait", RESOURCE, condition, f"--timeout={limit_s:.0f}s", timeout_s=limit_s + 10)

    def wait_running(self, epoch: int = 1) -> Seen:
        """Wait until the driver of an epoch, or a newer one, runs all queries."""
        return waiting.until(self.see, lambda seen: seen.phase == "Running" and seen.epoch >= epoch, "Running")

    def wait_batch(self, batch_id: int) -> int:
        """Wait until a batch, or a newer one, is committed, and return the newest."""

        def look() -> int:
            return totals.committed(self.output)

        return waiting.until(look, lambda seen: seen >= batch_id, f"batch {batch_id}", explain=lambda: str(self.see()))

    def wait_checkpoint(self, newer_than: int = 0) -> int:
        """Wait until the status names a checkpoint with a higher id, and return its id."""

        def look() -> int:
            return int(kubectl.text(self.see().status, "lastCheckpoint", "id") or 0)

        return waiting.until(
            look, lambda seen: seen > newer_than, f"a checkpoint after {newer_than}", explain=lambda: str(self.see())
        )

    def files(self) -> dict[str, str]:
        """Return every object of the state with its ETag."""
        return {found.key: found.etag for found in self.state.list("")}

    def savepoints(self) -> list[str]:
        """Return the names of the savepoints on storage."""
        return [name for name in self.state.list_names(layout.SAVEPOINTS) if name.endswith("/")]

    def driver_pod(self) -> str:
        """Return the name of the current driver's pod."""
        return kubectl.text(self.see().status, "driver", "pod") or ""

    def committed(self) -> int:
        """Return the number of the last committed batch, -1 before the first."""
        return totals.committed(self.output)

    def kill_driver_process(self) -> None:
        """Kill the process of the driver; its pod is left to say so."""
        # The oldest process with this command line is the driver; tini, the container's pid 1, ends with it.
        kill = "kill -9 $(pgrep -o -f '/statefulspark run ')"
        self.kube.call("exec", self.driver_pod(), "--", "sh", "-c", kill)

    def forget(self) -> None:
        """Delete the namespace without waiting; the operator takes its finalizer off by itself."""
        try:
            self.kube.call("delete", RESOURCE, "--ignore-not-found", "--wait=false")
            self.kube.call("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
        finally:
            self.kube.call("delete", "namespace", self.namespace, "--ignore-not-found", "--wait=false")

    def describe(self) -> str:
        """Return status, pods and the newest log lines, for a failed scenario."""
        parts = [("get", RESOURCE, "--output", "yaml"), ("get", "pods,events")]
        parts += [("logs", pod, "--tail", "60") for pod in self._pods()]
        return "\n\n".join(self._say(*part) for part in parts)

    def _pods(self) -> list[str]:
        said = self._say("get", "pods", "--output", "name")
        return [word for word in said.split() if word.startswith("pod/")]  # and not the words of an error

    def _say(self, *arguments: str) -> str:
        try:
            return self.kube.call(*arguments)
        except errors.StatefulSparkError as error:
            return error.message


def mount_files(container: str) -> Document:
    """Return a pod template that mounts the job files into a container."""
    mount = {"name": "files", "mountPath": FOLDER, "readOnly": True}
    volume = {"name": "files", "configMap": {"name": "files"}}
    return {"spec": {"containers": [{"name": container, "volumeMounts": [mount]}], "volumes": [volume]}}
