"""What the story needs beside the chart and its jobs: a pod of Prometheus and one of Kafka, with their Services. Pure.

Both programs come from this machine, by way of the node's files, into the image that the jobs have anyway, with its Java and
Python: no image is built for them. The nodes of the bundled cluster see the files of this machine; others do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

NAMESPACE = "monitoring"
PROMETHEUS_PORT = 9090
BROKERS = f"kafka.{NAMESPACE}:9092"
TOPIC = "clicks"
ROWS_PER_SECOND = 200
FEED = ("python", "/feed/feed.py", BROKERS, TOPIC)

Document = dict[str, object]

_KAFKA = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
    "advertised.listeners": f"PLAINTEXT://{BROKERS}",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "/var/lib/kafka",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
_JAVA = "java -Xms128m -Xmx384m -XX:+UseSerialGC -cp '/kafka/*'"
_START_KAFKA = (
    f"{_JAVA} kafka.tools.StorageTool format -t c3RhdGVmdWxzcGFyay10ZQ -c /feed/server.properties && "
    f"exec {_JAVA} kafka.Kafka /feed/server.properties"
)


def namespace(name: str) -> Document:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def prometheus(image: str, program: Path, folder: Path) -> tuple[Document, ...]:
    """Return Prometheus and what it may read of the cluster.

    Args:
        image: Any image; the program brings everything.
        program: The program.
        folder: Has `prometheus.json`; its data and its rules are beside it.
    """
    command = [
        "/bin/prometheus",
        "--config.file=/prometheus/prometheus.json",
        "--storage.tsdb.path=/prometheus/data",
        f"--web.listen-address=0.0.0.0:{PROMETHEUS_PORT}",
    ]
    container = _container("prometheus", image, command, {"program": "/bin/prometheus", "prometheus": "/prometheus"})
    volumes = [_host("program", program, kind="File"), _host("prometheus", folder)]
    account = {"name": "prometheus", "namespace": NAMESPACE}
    reading = {"apiGroups": [""], "resources": ["pods", "services", "endpoints"], "verbs": ["get", "list", "watch"]}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {**_of_rbac("ClusterRole"), "rules": [reading]},
        {
            **_of_rbac("ClusterRoleBinding"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "prometheus"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        _pod("prometheus", [container], volumes, serviceAccountName="prometheus", terminationGracePeriodSeconds=60),
        _service("prometheus", PROMETHEUS_PORT),
    )


def kafka(image: str, jars: Path, feed: str) -> tuple[Document, ...]:
    """Return a broker, and beside it a container that writes clicks all the time.

    Args:
        image: An image with Java and the job runtime's Python.
        jars: Folder that has the broker's jars.
        feed: The script that writes.
    """
    properties = "".join(f"{name}={value}\n" for name, value in _KAFKA.items())
    files = {"feed.py": feed, "server.properties": properties}
    feeding = [*FEED, str(ROWS_PER_SECOND), "0"]
    containers = [
        _container("broker", image, ["sh", "-c", _START_KAFKA], {"jars": "/kafka", "feed": "/feed"}),
        _container("feed", image, feeding, {"feed": "/feed"}),
    ]
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "feed", "namespace": NAMESPACE}, "data": files},
        _pod("kafka", containers, [_host("jars", jars), {"name": "feed", "configMap": {"name": "feed"}}]),
        _service("kafka", 9092),
    )


def _of_rbac(kind: str) -> Document:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "prometheus"}}


def _container(name: str, image: str, command: Sequence[str], mounts: Mapping[str, str]) -> Document:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
    }


def _host(name: str, path: Path, kind: str = "Directory") -> Document:
    return {"name": name, "hostPath": {"path": str(path.resolve()), "type": kind}}


def _pod(name: str, containers: Sequence[Document], volumes: Sequence[Document], **spec: object) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "securityContext": {"runAsUser": 0},  # what it writes into the node's folder is ours, as what was there is
            "containers": list(containers),
            "volumes": list(volumes),
            **spec,
        },
    }


def _service(name: str, port: int) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
