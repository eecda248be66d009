"""Asks a Prometheus over its HTTP API: the one in the cluster, or one on this machine over what that has recorded."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import processes
from demo import kubectl

from bench.dashboard import objects

PROGRAM = Path("build", "bin", "prometheus")
_PROXY = f"/api/v1/namespaces/{objects.NAMESPACE}/services/prometheus:{objects.PROMETHEUS_PORT}/proxy"
_TIMEOUT_S = 30.0

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Api:
    """The HTTP API of a Prometheus.

    Attributes:
        get: Returns what is at a path with its query.
    """

    get: Callable[[str], str]

    def at(self, expression: str, moment_s: float) -> Json:
        """Ask for one moment."""
        return self._ask("query", query=expression, time=f"{moment_s:.3f}")

    def over(self, expression: str, began_s: float, ended_s: float, step: float) -> Json:
        """Ask for a time."""
        return self._ask(
            "query_range", query=expression, start=f"{began_s:.3f}", end=f"{ended_s:.3f}", step=f"{step:.0f}"
        )

    def label_values(self, label: str, series: str, began_s: float, ended_s: float) -> tuple[str, ...]:
        """Return the values that a label of a series had in a time."""
        asked = {"match[]": series, "start": f"{began_s:.3f}", "end": f"{ended_s:.3f}"}
        return tuple(cast("list[str]", self._ask(f"label/{label}/values", **asked)["data"]))

    def rules(self) -> Sequence[Json]:
        """Return all rules with their state and their health."""
        groups = cast("list[Json]", cast("Json", self._ask("rules")["data"])["groups"])
        return [rule for group in groups for rule in cast("list[Json]", group["rules"])]

    def targets(self) -> Sequence[Json]:
        """Return what is scraped now, and how it went."""
        return cast("Sequence[Json]", cast("Json", self._ask("targets", state="active")["data"])["activeTargets"])

    def _ask(self, question: str, **parameters: str) -> Json:
        return cast("Json", json.loads(self.get(f"/api/v1/{question}?{urllib.parse.urlencode(parameters)}")))


def in_cluster(kube: kubectl.Kubectl) -> Api:
    """Return the API of the Prometheus in the cluster, by way of the API server."""
    return Api(lambda path: kube.call("get", "--raw", f"{_PROXY}{path}"))


class OverRecording(processes.Server):
    """A Prometheus on this machine that scrapes nothing and answers from a folder of data.

    Args:
        data: The folder.
        log: What it prints.
    """

    def __init__(self, data: Path, log: Path) -> None:
        super().__init__("Prometheus over what was recorded", log)
        self._data, (self._port,) = data, processes.free_ports(1)

    @property
    def api(self) -> Api:
        """Its API."""
        return Api(self._get)

    def command(self) -> Sequence[str]:
        """Return what to start; it keeps all data, however old."""
        configuration = self._data.with_name("nothing.yml")
        configuration.write_text("scrape_configs: []\n")
        return [
            str(PROGRAM),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self._data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={processes.LOOPBACK}:{self._port}",
        ]

    def answers(self) -> bool:
        """Tell whether it is ready."""
        try:
            return "Ready" in self._get("/-/ready")
        except OSError:
            return False

    def _get(self, path: str) -> str:
        url = f"http://{processes.LOOPBACK}:{self._port}{path}"
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return str(answer.read().decode())
