"""What a tenant who attacks the operator costs the others: reactions of honest jobs without them and beside them.

A real API server, a real S3 server for the honest jobs with simulated drivers (`bench.driver_fleet`), and one operator that
watches two namespaces. The other namespace belongs to the tenant: jobs, savepoints and code on a server of their own
(`bench.hostile_s3`) whose objects have no end, drip, stall or cost twenty times their size, and specs that change without
pause. That server is on the operator's list of endpoints, so nothing is refused before it is opened.

    PYTHONPATH=tests/support python -m bench.abusive_tenant --jobs 300
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import s3server
from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource

from bench import hostile_s3, machine, operator_scale
from bench.driver_fleet import Api

NAMESPACE = "abuse"
GOALS = {"reaction_p99_ratio": "at most 1.5", "memory_most_mb": "below 512", "operator_ended": "0"}
_CHECKSUM = "0" * 64
_CHANGE_S = 0.1


def attacking_jobs(endpoint: str, of_each: int) -> list[Resource]:
    """Return jobs whose state, or whose code, is on the tenant's server; all of them are purged when they are deleted."""
    jobs = []
    for bucket, number in itertools.product(hostile_s3.ATTACKS, range(of_each)):
        job = operator_scale.manifest(f"{bucket}-{number}", bucket, endpoint, NAMESPACE)
        spec = resources.section(job, "spec")
        spec["deletionPolicy"] = "Delete"
        if number % 2:
            code: Resource = {"s3": {"uri": f"s3://{bucket}/code/flights.py", "sha256": _CHECKSUM}}
            spec["job"] = {"source": code}
        jobs.append(job)
    return jobs


def attacking_savepoints(jobs: Sequence[Resource], of_each: int) -> list[Resource]:
    """Return savepoints to adopt from the tenant's server, to be disposed of with their objects."""
    savepoints: list[Resource] = []
    for job, number in itertools.product(jobs, range(of_each)):
        name = resources.text(job, "metadata", "name")
        bucket = name.partition("-")[0]
        spec: Resource = {
            "jobName": name,
            "source": {"uri": f"s3://{bucket}/jobs/{NAMESPACE}/{name}/savepoints/{number:08}-a"},
            "deletionPolicy": "Delete",
        }
        meta: Resource = {"name": f"{name}-{number}", "namespace": NAMESPACE}
        kind = resources.SAVEPOINT
        savepoints.append({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec})
    return savepoints


@contextlib.asynccontextmanager
async def attacking(api: Api, endpoint: str, options: argparse.Namespace) -> AsyncIterator[None]:
    """Attack while the block runs: everything is created at once, changed without pause, and in part deleted."""
    jobs = attacking_jobs(endpoint, options.attackers)
    await api.create(operator_scale.credentials(NAMESPACE))
    await operator_scale.all_at_once([api.create(job) for job in jobs])
    savepoints = attacking_savepoints(jobs, options.savepoints)
    await operator_scale.all_at_once([api.create(savepoint) for savepoint in savepoints])
    names = [resources.text(job, "metadata", "name") for job in jobs]
    for name in names[::4]:
        await api.delete(resources.JOB, NAMESPACE, name)
    changing = asyncio.create_task(_change(api, [name for name in names if name not in names[::4]]))
    try:
        yield
    finally:
        changing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await changing


async def _change(api: Api, names: Sequence[str]) -> None:
    for number, name in enumerate(itertools.cycle(names)):
        image: Resource = {"image": f"registry.example/flights:{number}"}
        await api.patch(resources.JOB, NAMESPACE, name, {"spec": image})
        await asyncio.sleep(_CHANGE_S)


async def measure(
    options: argparse.Namespace, folder: Path, s3: s3server.S3Server, kubeconfig: Path, hostile: str
) -> dict[str, float]:
    """Measure reactions without the tenant, then while all that they have is new, and then in the long run."""
    operator = operator_scale.Operator(
        kubeconfig, folder, [s3.endpoint, hostile], [operator_scale.NAMESPACE, NAMESPACE]
    )
    async with operator_scale.running_jobs(options, kubeconfig, s3, operator) as (scene, _):
        alone = operator_scale.told(await operator_scale.measure_reaction(scene, options.samples, options.every))
        alone["memory_mb"] = operator.memory_mb()
        async with attacking(scene.api, hostile, options):
            await asyncio.sleep(options.settle)
            first = operator_scale.told(await operator_scale.measure_reaction(scene, options.samples, options.every))
            await asyncio.sleep(options.attack)
            beside = operator_scale.told(await operator_scale.measure_reaction(scene, options.samples, options.every))
    return {
        **{f"alone_{name}": value for name, value in alone.items()},
        **{f"at_first_{name}": value for name, value in first.items()},
        **{f"beside_{name}": value for name, value in beside.items()},
        "reaction_p99_ratio_at_first": first["reaction_p99_s"] / alone["reaction_p99_s"],
        "reaction_p99_ratio": beside["reaction_p99_s"] / alone["reaction_p99_s"],
        "memory_most_mb": operator.memory_most_mb,
        "operator_ended": float(operator.ended),
    }


def main() -> None:
    """Measure, print the figures beside their goals, and write them."""
    parser = machine.parser("abusive_tenant", __doc__)
    parser.add_argument("--jobs", type=int, default=300, help="number of honest jobs (default: %(default)s)")
    parser.add_argument("--busy-every", type=int, default=5, help="every so manieth job is busy (default: %(default)s)")
    parser.add_argument("--attackers", type=int, default=10, help="attacking jobs of each sort (default: %(default)s)")
    parser.add_argument("--savepoints", type=int, default=3, help="savepoints of each of them (default: %(default)s)")
    parser.add_argument(
        "--settle", type=float, default=20.0, help="seconds before a measurement (default: %(default)s)"
    )
    parser.add_argument(
        "--attack", type=float, default=300.0, help="seconds between the two measurements beside (default: %(default)s)"
    )
    parser.add_argument("--samples", type=int, default=150, help="reactions that are measured (default: %(default)s)")
    parser.add_argument(
        "--every",
        type=float,
        default=0.4,
        help="seconds between two reactions: machine and operator should keep up with them alone (default: %(default)s)",
    )
    options = parser.parse_args()
    print(f"Machine: {machine.described()}")
    namespaces = [operator_scale.NAMESPACE, NAMESPACE]
    with (
        machine.workplace() as (s3, folder),
        operator_scale.api_server(folder / "api", namespaces) as kubeconfig,
        hostile_s3.running(folder) as hostile,
    ):
        figures = asyncio.run(measure(options, folder, s3, kubeconfig, hostile))
    machine.table(
        ["figure", "measured", "goal"], [(name, f"{value:.2f}", GOALS.get(name, "")) for name, value in figures.items()]
    )
    machine.finish(options.json, {"jobs": options.jobs, **figures})


if __name__ == "__main__":
    main()
