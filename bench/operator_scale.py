"""What a thousand jobs cost one operator: memory, requests, reaction, upgrades of all at once, and its own restart.

A real API server and a real S3 server, one operator process, and simulated drivers (`bench.driver_fleet`). The operator's
requests are what the API server has counted without those of the benchmark. Needs `build/bin/cluster` and
`build/bin/versitygw`, and no root:

    PYTHONPATH=tests/support python -m bench.operator_scale --jobs 1000 --busy-every 5
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import processes
import s3server
from statefulspark.storage import open_store
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

from bench import machine
from bench.driver_fleet import Api, Fleet

NAMESPACE = "scale"
CLUSTER = machine.ROOT / "build" / "bin" / "cluster"
GOALS = {
    "memory_mb": "at most 250",
    "requests_per_idle_job_and_minute": "at most 2",
    "reaction_p99_s": "at most 1",
    "upgrades_per_minute": "above 600",
    "catch_up_s": "at most 15",
}
_WATCHED = {kind.plural for kind in resources.KINDS.values()} - {"leases"}
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def api_server(folder: Path, namespaces: Sequence[str] = (NAMESPACE,)) -> Iterator[Path]:
    """Run an API server with the CRDs and namespaces; return its kubeconfig."""
    up = [str(CLUSTER), "api", "up", "--dir", str(folder)]
    try:
        kubeconfig = Path(subprocess.run(up, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        kubectl = [str(CLUSTER), "kubectl", "--kubeconfig", str(kubeconfig)]
        crds = str(machine.ROOT / "crds")
        subprocess.run([*kubectl, "apply", "--server-side", "-f", crds], check=True, stdout=subprocess.DEVNULL)
        established = ["wait", "--for=condition=Established", "--timeout=30s", "-f", crds]
        subprocess.run([*kubectl, *established], check=True, stdout=subprocess.DEVNULL)
        for namespace in namespaces:
            subprocess.run([*kubectl, "create", "namespace", namespace], check=True, stdout=subprocess.DEVNULL)
        yield kubeconfig
    finally:
        subprocess.run([str(CLUSTER), "api", "down", "--dir", str(folder)], check=True)


class Operator:
    """The operator's process.

    Attributes:
        ended: How often it has ended by itself.
        memory_most_mb: The most memory that it has held at a look, over all its processes.
    """

    def __init__(
        self, kubeconfig: Path, folder: Path, endpoints: Sequence[str], namespaces: Sequence[str] = (NAMESPACE,)
    ) -> None:
        """Prepare it; `start` starts it, also again. The endpoints are of the stores of all jobs."""
        self._endpoints, self._namespaces = endpoints, namespaces
        self.ended = 0
        self.memory_most_mb = 0.0
        environment = {"KUBECONFIG": str(kubeconfig), "MALLOC_ARENA_MAX": "2"}  # As the chart sets it.
        self._process = processes.Process("the operator", folder / "operator.log", environment=environment)

    def start(self) -> None:
        """Start it as the chart does, with a Lease, and return at once."""
        command = [sys.executable, "-m", "statefulspark_operator.cli", "run"]
        watched = [flag for namespace in self._namespaces for flag in ("--namespace", namespace)]
        allowed = [flag for endpoint in self._endpoints for flag in ("--storage-endpoint", endpoint)]
        lease = ["--lease", "operator", "--lease-namespace", NAMESPACE, "--identity", "operator-0"]
        ports = ["--health-port", "0", "--metrics-port", "0"]
        self._process.launch([*command, *watched, *lease, *ports, *allowed])

    def tend(self) -> None:
        """Start it again if it has ended, as a kubelet does: it ends when it cannot renew its Lease in time."""
        if self._process.exit_code is not None:
            print(f"  the operator ended with {self._process.exit_code}, and is started again", flush=True)
            self.ended += 1
            self.start()
        self.memory_most_mb = max(self.memory_most_mb, self._memory_mb("VmHWM"))

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self._process.stop()

    def memory_mb(self) -> float:
        """Return the memory that it holds."""
        return self._memory_mb("VmRSS")

    def _memory_mb(self, field: str) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(rf"{field}:\s+(\d+)", status)[0]) / 1000

    def processor_s(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def passes(self) -> int:
        """Return how many passes it has made."""
        served = re.findall(r'"/metrics".*?"port": ?(\d+)|"port": ?(\d+).*?"/metrics"', self._process.output)
        port = next(part for part in served[-1] if part)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return int(float(re.findall(r"^statefulspark_operator_passes_total (\S+)", text, re.MULTILINE)[0]))


@dataclass(slots=True)
class Scene:
    """Everything that takes part.

    Attributes:
        api: The API server.
        fleet: The drivers.
        operator: The operator.
        jobs: Names of the jobs.
    """

    api: Api
    fleet: Fleet
    operator: Operator
    jobs: Sequence[str]

    async def change(self, job: str, change: Resource) -> float:
        """Change a spec as a user does; return when."""
        at_s = time.monotonic()
        await self.api.patch(resources.JOB, NAMESPACE, job, {"spec": change})
        return at_s

    async def statuses(self) -> dict[str, Resource]:
        """Return the status of each job."""
        listed = await self.api.items(resources.JOB, NAMESPACE)
        return {resources.text(job, "metadata", "name"): resources.section(job, "status") for job in listed}

    async def until(self, what: str, is_done: Callable[[Resource], bool], jobs: Sequence[str], limit_s: float) -> float:
        """Wait until the statuses of jobs are as they have to be; return the seconds."""
        begun_s = time.monotonic()
        while True:
            self.operator.tend()
            statuses = await self.statuses()
            missing = [job for job in jobs if not is_done(statuses.get(job, {}))]
            if not missing:
                return time.monotonic() - begun_s
            if time.monotonic() - begun_s > limit_s:
                raise SystemExit(
                    f"{len(missing)} jobs not {what} within {limit_s:.0f} s: {missing[:3]}, {statuses[missing[0]]}"
                )
            await asyncio.sleep(0.5)

    async def operators_requests(self) -> Counter[tuple[str, str]]:
        """Return what only the operator can have asked of the API server so far."""
        counted = await self.api.counted()
        by_verb: Counter[tuple[str, str]] = Counter()
        for (verb, plural), number in counted.items():
            if plural in _WATCHED:
                by_verb["GET" if verb == "LIST" else verb, plural] += number
        return by_verb - self.api.requests


def manifest(job: str, bucket: str, endpoint: str, namespace: str = NAMESPACE) -> Resource:
    """Return a job."""
    return {
        "apiVersion": resources.JOB.api_version,
        "kind": resources.JOB.name,
        "metadata": {"name": job, "namespace": namespace},
        "spec": {
            "image": "registry.example/flights:1",
            "job": {"file": "/opt/job/flights.py"},
            "storage": {
                "uri": f"s3://{bucket}/jobs",
                "s3": {"endpoint": endpoint, "credentialsSecretRef": {"name": "s3"}},
            },
            "upgrade": {"strategy": "Cold"},
        },
    }


def credentials(namespace: str = NAMESPACE) -> Resource:
    """Return the Secret that every job of a namespace names."""
    keys: Resource = {"AWS_ACCESS_KEY_ID": s3server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": s3server.SECRET_KEY}
    meta: Resource = {"name": "s3", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys}


def has_run(epoch: int) -> Callable[[Resource], bool]:
    """Tell of a status whether the driver of an epoch, or a later one, runs."""
    return lambda status: status.get("phase") == "Running" and resources.number(status, "epoch") >= epoch


async def all_at_once(works: Sequence[Awaitable[object]]) -> None:
    """Do many things at the same time; the API's own limit holds."""
    await asyncio.gather(*works)


async def measure_quiet(scene: Scene, seconds: float) -> dict[str, float]:
    """Measure while nobody does anything."""
    requests, processor_s, passes = (
        await scene.operators_requests(),
        scene.operator.processor_s(),
        scene.operator.passes(),
    )
    await asyncio.sleep(seconds)
    made = await scene.operators_requests() - requests
    print(f"  while quiet: {dict(made)}")
    per = len(scene.jobs) * seconds / 60
    return {
        "requests_per_idle_job_and_minute": made.total() / per,
        "passes_per_job_and_minute": (scene.operator.passes() - passes) / per,
        "processor_share": (scene.operator.processor_s() - processor_s) / seconds,
        "memory_mb": scene.operator.memory_mb(),
    }


async def measure_reaction(scene: Scene, samples: int, every_s: float = 0.1) -> dict[str, float]:
    """Suspend jobs one after the other; measure until the driver is asked to stop. Then let them go on.

    Args:
        scene: The jobs.
        samples: Number of jobs.
        every_s: Seconds between two jobs.
    """
    chosen = random.sample(list(scene.jobs), min(samples, len(scene.jobs)))
    epochs_of = {job: resources.number(status, "epoch") for job, status in (await scene.statuses()).items()}
    begun: dict[str, float] = {}
    for job in chosen:
        begun[job] = await scene.change(job, {"suspend": True})
        await asyncio.sleep(every_s)
    await scene.until("suspended", lambda status: status.get("phase") == "Suspended", chosen, 300)
    seconds = sorted(scene.fleet.stops[job, epochs_of[job]] - begun[job] for job in chosen)
    await all_at_once([scene.change(job, {"suspend": False}) for job in chosen])
    await scene.until("running again", lambda status: status.get("phase") == "Running", chosen, 300)
    return {
        "reaction_p50_s": statistics.median(seconds),
        "reaction_p99_s": seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))],
        "reaction_most_s": seconds[-1],
    }


async def measure_upgrades(scene: Scene) -> dict[str, float]:
    """Change the image of every job at once; measure until all run it."""
    before = {job: resources.number(status, "epoch") for job, status in (await scene.statuses()).items()}
    requests, processor_s = await scene.operators_requests(), scene.operator.processor_s()
    begun_s = time.monotonic()
    await all_at_once([scene.change(job, {"image": "registry.example/flights:2"}) for job in scene.jobs])
    for epoch in sorted(set(before.values())):
        same = [job for job in scene.jobs if before[job] == epoch]
        await scene.until("upgraded", has_run(epoch + 1), same, 1800)
    seconds, number = time.monotonic() - begun_s, len(scene.jobs)
    made = await scene.operators_requests() - requests
    print(f"  for each upgrade: { {key: round(count / number, 1) for key, count in made.most_common()} }")
    return {
        "upgrades_per_minute": 60 * number / seconds,
        "requests_per_upgrade": made.total() / number,
        "processor_s_per_upgrade": (scene.operator.processor_s() - processor_s) / number,
        "memory_after_upgrades_mb": scene.operator.memory_mb(),
    }


async def measure_restart(scene: Scene, changed: int) -> dict[str, float]:
    """Kill the operator, change some jobs, start it; measure until it has acted on all of them and seen every other."""
    chosen = random.sample(list(scene.jobs), min(changed, len(scene.jobs)))
    epochs_of = {job: resources.number(status, "epoch") for job, status in (await scene.statuses()).items()}
    scene.operator.kill()
    await all_at_once([scene.change(job, {"suspend": True}) for job in chosen])
    begun_s = time.monotonic()
    scene.operator.start()
    while any((job, epochs_of[job]) not in scene.fleet.stops for job in chosen):
        if time.monotonic() - begun_s > 300:
            raise SystemExit("The restarted operator did not act on every change within 300 s.")
        await asyncio.sleep(0.05)
    acted_s = max(scene.fleet.stops[job, epochs_of[job]] for job in chosen) - begun_s
    while scene.operator.passes() < len(scene.jobs):
        await asyncio.sleep(0.1)
    seen_s = time.monotonic() - begun_s
    return {"catch_up_s": acted_s, "every_job_seen_s": seen_s, "memory_after_restart_mb": scene.operator.memory_mb()}


def told(figures: dict[str, float]) -> dict[str, float]:
    """Print figures as soon as they are there: the whole takes minutes, and load of the machine changes meanwhile."""
    with_load = {**figures, "load_average": os.getloadavg()[0]}
    print("  " + ", ".join(f"{name} {value:.2f}" for name, value in with_load.items()), flush=True)
    return figures


@asynccontextmanager
async def running_jobs(
    options: argparse.Namespace, kubeconfig: Path, s3: s3server.S3Server, operator: Operator
) -> AsyncIterator[tuple[Scene, float]]:
    """Create jobs in front of an operator, and let them run while the block does.

    Args:
        options: `jobs`, `busy_every`, and `settle`, the seconds that pass before the block.
        kubeconfig: Of the API server.
        s3: Has the state of the jobs.
        operator: Is started and ended here.

    Returns:
        Everything that takes part, and the jobs that started in a minute.
    """
    bucket = s3.new_bucket("scale")
    store = open_store(f"s3://{bucket}/jobs", s3.options())
    jobs = [f"job-{number}" for number in range(options.jobs)]
    async with Api.connect(kubeconfig) as api:
        fleet = Fleet(api, NAMESPACE, store, busy_every=options.busy_every)
        async with fleet.playing():
            await api.create(credentials())
            operator.start()
            try:
                scene = Scene(api, fleet, operator, jobs)
                begun_s = time.monotonic()
                await all_at_once([api.create(manifest(job, bucket, s3.endpoint)) for job in jobs])
                await scene.until("running", has_run(1), jobs, 1800)
                starts_per_minute = 60 * len(jobs) / (time.monotonic() - begun_s)
                await asyncio.sleep(options.settle)
                yield scene, starts_per_minute
            finally:
                operator.kill()


async def measure(
    options: argparse.Namespace, folder: Path, s3: s3server.S3Server, kubeconfig: Path
) -> dict[str, float]:
    """Take all measurements, one after the other."""
    figures: dict[str, float] = {}
    operator = Operator(kubeconfig, folder, [s3.endpoint])
    async with running_jobs(options, kubeconfig, s3, operator) as (scene, starts_per_minute):
        figures |= told({"starts_per_minute": starts_per_minute})
        figures |= told(await measure_quiet(scene, options.quiet))
        figures |= told(await measure_reaction(scene, options.samples))
        figures |= told(await measure_upgrades(scene))
        figures |= told(await measure_restart(scene, 20))
    return figures


def main() -> None:
    """Measure, print the figures beside their goals, and write them."""
    parser = machine.parser("operator_scale", __doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="number of jobs (default: %(default)s)")
    parser.add_argument("--busy-every", type=int, default=0, help="every so manieth job is busy; 0: none (the default)")
    parser.add_argument(
        "--settle", type=float, default=90.0, help="seconds before the quiet time (default: %(default)s)"
    )
    parser.add_argument("--quiet", type=float, default=300.0, help="seconds of quiet time (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=200, help="reactions that are measured (default: %(default)s)")
    options = parser.parse_args()
    print(f"Machine: {machine.described()}")
    with machine.workplace() as (s3, folder), api_server(folder / "api") as kubeconfig:
        figures = asyncio.run(measure(options, folder, s3, kubeconfig))
    machine.table(
        ["figure", "measured", "goal"], [(name, f"{value:.2f}", GOALS.get(name, "")) for name, value in figures.items()]
    )
    machine.finish(options.json, {"jobs": options.jobs, "busy_every": options.busy_every, **figures})


if __name__ == "__main__":
    main()
