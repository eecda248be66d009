"""What happens on the cluster while Prometheus looks on: three jobs, and one of everything that the dashboard is there for.

`archive/totals` runs a little and is suspended, so that the operator prunes its folder. `shop/clicks` reads Kafka with an
executor, and for a while gets more than it can take. `shop/totals` is upgraded, killed, and given a version that fails: it
goes back, and an alert fires until the spec is mended. And for a minute there is no storage for anybody.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import yaml
from demo import cluster, kubectl, process, setup
from testbed import bed, claims, job, pauses, waiting

from bench.dashboard import monitors, objects, prometheus, recording

HERE = Path(__file__).resolve().parent
JARS = Path("build", "kafka")
MONITORING = ("serviceMonitor", "podMonitor", "rules", "dashboard")
ALERT = "StatefulSparkUpgradeBlocked"
CALM_S = 60.0
"""Long enough for each scraper to have seen what is there: the operator is asked every 30 seconds."""
STORAGE_AWAY_S = 60.0
BURST = ("6000", "10")
"""Rows per second, and for how long."""
PRUNED_WITHIN_S = 600.0

Json = Mapping[str, object]


def play(raised: bed.Bed, folder: Path) -> None:
    """Play everything, and leave what Prometheus has recorded in a folder.

    Raises:
        AssertionError: Something did not happen in time, or a rule or a target of the chart does not work.
    """
    kube = raised.connection.kubectl(objects.NAMESPACE)
    chart = render_chart(raised)
    _start_prometheus(raised, kube, chart, folder)
    api = prometheus.in_cluster(kube)
    archive, shop = (job.Job(raised, namespace) for namespace in ("archive", "shop"))
    told = recording.Recording(began_s=time.time())
    try:
        _suspend_one(archive, told)
        _start_the_others(shop, kube, told)
        _change_and_kill(shop, told)
        _flood(kube, told)
        _fail_a_version(shop, api, told)
        _take_storage_away(raised, shop, told)
        waiting.until(archive.see, _is_pruned, "the folder of the suspended job is pruned", timeout_s=PRUNED_WITHIN_S)
        time.sleep(CALM_S)
        told.ended_s = time.time()
        told.rules = [_rule(rule) for rule in api.rules()]
        _check(api, told)
        claims.is_exact(shop)
    finally:
        told.ended_s = told.ended_s or time.time()
        told.write(folder)
        # Its data is whole only after an orderly end.
        kube.call("delete", "pod", "prometheus", "--ignore-not-found", timeout_s=120)


def render_chart(raised: bed.Bed) -> list[Json]:
    """Return the objects of the chart with everything for monitoring turned on."""
    sets = [part for name in MONITORING for part in ("--set", f"monitoring.{name}.enabled=true")]
    helm = [str(cluster.HELM), "template", setup.RELEASE, str(setup.CHART), "--namespace", setup.OPERATOR_NAMESPACE]
    text = process.run([*helm, *sets], timeout_s=60, log=raised.chosen.logs / "commands.log")
    return [cast("Json", document) for document in yaml.safe_load_all(text) if document]


def _start_prometheus(raised: bed.Bed, kube: kubectl.Kubectl, chart: list[Json], folder: Path) -> None:
    folder.joinpath("prometheus.json").write_text(json.dumps(monitors.configure(chart), indent=2), "utf-8")
    folder.joinpath(monitors.RULES_FILE).write_text(json.dumps(monitors.rules(chart), indent=2), "utf-8")
    image = raised.chosen.job_image
    kube.apply([objects.namespace(objects.NAMESPACE)])
    kube.apply(objects.prometheus(image, prometheus.PROGRAM, folder))
    kube.apply(objects.kafka(image, JARS, HERE.joinpath("jobs", "feed.py").read_text("utf-8")))
    raised.operator().apply([one for one in chart if one["kind"] == "Service"])
    kube.call("wait", "pod/prometheus", "--for=condition=Ready", "--timeout=120s", timeout_s=130)


def _suspend_one(archive: job.Job, told: recording.Recording) -> None:
    archive.prepare()
    archive.apply(checkpoint={"retention": {"count": 1}, "pruneDelay": "30s"})
    archive.wait_batch(10)
    archive.wait_checkpoint()
    time.sleep(CALM_S)
    _mark(told, "archive suspended")
    archive.change(suspend=True)
    waiting.until(archive.see, lambda seen: seen.reason == "Suspended", "Suspended")


def _start_the_others(shop: job.Job, kube: kubectl.Kubectl, told: recording.Recording) -> None:
    shop.prepare()
    code = HERE.joinpath("jobs", "clicks.py").read_text("utf-8")
    shop.kube.patch("configmap/files", {"data": {"clicks.py": code}})
    kube.call("wait", "pod/kafka", "--for=condition=Ready", "--timeout=120s", timeout_s=130)
    _mark(told, "two jobs start")
    shop.kube.apply([_clicks(shop)])
    shop.apply(checkpoint={"pruneDelay": "30s"})
    shop.wait_running()
    shop.kube.call(
        "wait",
        "statefulsparkjob/clicks",
        "--for=jsonpath={.status.phase}=Running",
        "--timeout=300s",
        timeout_s=310,
    )
    time.sleep(CALM_S)


def _clicks(shop: job.Job) -> Json:
    parameters = {
        "output": shop.bed.connection.uri(f"{shop.namespace}/clicks"),
        "brokers": objects.BROKERS,
        "topic": objects.TOPIC,
    }
    executor = {
        "instances": 1,
        "heap": "512Mi",
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1536Mi"}},
        "podTemplate": job.mount_files("executor"),
    }
    document = shop.document(job={"file": f"{job.FOLDER}/clicks.py", "parameters": parameters}, executor=executor)
    return {**document, "metadata": {"name": "clicks"}}


def _change_and_kill(shop: job.Job, told: recording.Recording) -> None:
    _mark(told, "warm upgrade")
    pauses.warm(shop)
    time.sleep(CALM_S)
    _mark(told, "driver killed")
    shop.kill_driver_process()
    shop.wait_running(epoch=3)
    time.sleep(CALM_S)


def _flood(kube: kubectl.Kubectl, told: recording.Recording) -> None:
    _mark(told, "a burst of clicks")
    kube.call("exec", "kafka", "--container", "feed", "--", *objects.FEED, *BURST, timeout_s=120)


def _fail_a_version(shop: job.Job, api: prometheus.Api, told: recording.Recording) -> None:
    _mark(told, "version that fails")
    shop.change(job={"file": f"{job.FOLDER}/tires.py"})
    waiting.until(lambda: _state(api), lambda state: state == "firing", f"{ALERT} fires")
    time.sleep(CALM_S / 2)
    _mark(told, "it is taken back")
    shop.change(job={"file": job.FILE})
    waiting.until(lambda: _state(api), lambda state: state == "inactive", f"{ALERT} is resolved")


def _take_storage_away(raised: bed.Bed, shop: job.Job, told: recording.Recording) -> None:
    _mark(told, "storage away")
    raised.stop_s3()
    try:
        time.sleep(STORAGE_AWAY_S)
    finally:
        raised.start_s3()
    _mark(told, "and back")
    shop.wait_running()
    shop.wait_batch(shop.committed() + 3)


def _check(api: prometheus.Api, told: recording.Recording) -> None:
    failing = recording.unhealthy(told.rules)
    assert not failing, f"Prometheus does not evaluate {failing}."
    down = [target for target in api.targets() if target["health"] != "up"]
    assert not down, f"Prometheus does not reach {down}."


def _state(api: prometheus.Api) -> object:
    return next(rule["state"] for rule in api.rules() if rule["name"] == ALERT)


def _rule(rule: Json) -> recording.Rule:
    return recording.Rule(str(rule["name"]), str(rule["health"]), str(rule.get("lastError") or ""))


def _is_pruned(seen: job.Seen) -> bool:
    return int(kubectl.text(seen.status, "pruning", "freedFiles") or 0) > 0


def _mark(told: recording.Recording, text: str) -> None:
    told.marks.append(recording.Mark(time.time(), text))
    print(f"{time.time() - told.began_s:6.0f} s  {text}", flush=True)
