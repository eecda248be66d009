"""The ports that a pod's processes listen on, and who gets through to them, tried from inside other pods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from demo import kubectl
from demo.resources import Document

LET_IN, KEPT_OUT = "let in", "kept out"
_CALL_TIMEOUT_S = 120.0

Door = str
"""Address and port of a pod, as in `10.0.0.1:8090`."""

_LISTENING = """
for name in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(name).readlines()[1:]:
        address, port = line.split()[1].split(":")
        loopback = address.endswith("7F") or address == "0" * 24 + "01000000"
        if line.split()[3] == "0A" and not loopback:
            print(int(port, 16))
"""
_TRY = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def tried(door):
    host, port = door.split(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except TimeoutError:
        return "kept out"
    except OSError as error:
        return type(error).__name__
    return "let in"
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(dict(zip(sys.argv[1:], pool.map(tried, sys.argv[1:])))))
"""


def of(kube: kubectl.Kubectl, pod: str) -> list[Door]:
    """Return every port of a pod that is open to more than the pod itself; the pod's image has Python."""
    ports = kube.call("exec", pod, "--", "python3", "-c", _LISTENING, timeout_s=_CALL_TIMEOUT_S).split()
    address = kube.call("get", "pod", pod, "--output", "jsonpath={.status.podIP}")
    return [f"{address}:{port}" for port in sorted(set(ports), key=int)]


def metrics_of(listed: Iterable[Door]) -> Door:
    """Return that of a driver's metrics."""
    return next(door for door in listed if door.endswith(":9090"))


def tried(kube: kubectl.Kubectl, pod: str, listed: Iterable[Door]) -> Mapping[Door, str]:
    """Connect to each port from inside a pod, and return `LET_IN`, `KEPT_OUT` or the error, port by port."""
    said = kube.call("exec", pod, "--", "python3", "-c", _TRY, *listed, timeout_s=_CALL_TIMEOUT_S)
    return cast("Mapping[str, str]", json.loads(said))


def ask(kube: kubectl.Kubectl, pod: str, url: str) -> str:
    """Return what a page says when it is asked for from inside a pod."""
    program = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=10).read().decode())"
    return kube.call("exec", pod, "--", "python3", "-c", program, url, timeout_s=_CALL_TIMEOUT_S)


def visitor(name: str, namespace: str, image: str) -> list[Document]:
    """Return a pod that only waits to be sent somewhere, and its namespace."""
    container = {"name": "visitor", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec},
    ]
