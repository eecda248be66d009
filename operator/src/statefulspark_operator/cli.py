"""The command `statefulspark-operator`: run the operator, write or check the CRDs, show the version.

Only the command that needs the cluster imports its libraries, so that `crds` runs anywhere.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError
from statefulspark import errors
from statefulspark.commandline import commands, terminal, values

import statefulspark_operator
from statefulspark_operator.api import compatibility, crd, job_defaults
from statefulspark_operator.api.job_defaults import JobDefaults
from statefulspark_operator.api.pod_templates import PodTemplates
from statefulspark_operator.telemetry import logs

NAME = "statefulspark-operator"
_LOCATIONS: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(dict[str, tuple[str, ...]])
_PEERS: TypeAdapter[tuple[dict[str, JsonValue], ...]] = TypeAdapter(tuple[dict[str, JsonValue], ...])

program = commands.Group(
    NAME,
    help="Run the operator of stateful PySpark jobs, and write its CRDs.",
    epilog=f"examples:\n  {NAME} run --namespace demo\n  {NAME} crds --write crds\n",
)
program.add_command(commands.completion(NAME))


def _locations(text: str) -> dict[str, tuple[str, ...]]:
    """Read locations by namespace."""
    try:
        return _LOCATIONS.validate_json(text)
    except ValidationError as error:
        raise click.BadParameter(f"{text!r} is no object with lists of locations by namespace") from error


def _peers(text: str) -> tuple[dict[str, JsonValue], ...]:
    """Read the peers of a NetworkPolicy."""
    try:
        return _PEERS.validate_json(text)
    except ValidationError as error:
        raise click.BadParameter(f"{text!r} is no list of peers as in a NetworkPolicy's `from`") from error


def _defaults(text: str) -> JobDefaults:
    """Read what jobs have that do not say otherwise."""
    from statefulspark_operator.engine import validate  # Only `run` checks a spec.

    try:
        defaults = job_defaults.parse(text)
        validate.check_defaults(defaults)
    except errors.SpecRejectedError as error:
        raise click.BadParameter(error.message) from error
    return defaults


@program.command(
    "run",
    short_help="run the operator until SIGTERM",
    help="Run the operator until SIGTERM.",
    epilog=f"example:\n  {NAME} run --namespace demo --log-format text\n",
)
@click.option(
    "--namespace", "-n", "namespaces", multiple=True, metavar="NAME", help="watch this namespace only; repeatable"
)
@click.option(
    "--health-port",
    type=int,
    default=8080,
    show_default=True,
    metavar="PORT",
    help="port of /healthz; 0 picks a free one",
)
@click.option(
    "--metrics-port",
    type=int,
    default=9090,
    show_default=True,
    metavar="PORT",
    help="port of /metrics; 0 picks a free one",
)
@click.option(
    "--log-format",
    type=click.Choice(("json", "text")),
    default="json",
    show_default=True,
    help="one JSON object per line, or text",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    show_default=True,
    help="the least severe lines that are logged",
)
@click.option(
    "--lease", metavar="NAME", help="stand by until this Lease is free, so that several operators can run; none without"
)
@click.option(
    "--lease-namespace",
    default=lambda: os.environ.get("POD_NAMESPACE", "default"),
    metavar="NAME",
    help="$POD_NAMESPACE when omitted",
)
@click.option(
    "--identity",
    default=lambda: os.environ.get("POD_NAME") or socket.gethostname(),
    metavar="NAME",
    help="$POD_NAME, or the host, when omitted",
)
@click.option(
    "--job-network-policy",
    type=_peers,
    metavar="PEERS",
    help="give each job a NetworkPolicy; PEERS may reach its driver's API, as JSON like a NetworkPolicy's `from`",
)
@click.option(
    "--job-metrics-from",
    type=_peers,
    default="[]",
    metavar="PEERS",
    help="with --job-network-policy: who may reach the port of a driver's metrics; everybody without",
)
@click.option(
    "--own-identity",
    type=_locations,
    default="{}",
    metavar="LOCATIONS",
    help='where jobs without a credentialsSecretRef may have their state, as JSON: {"shop": ["s3://bucket/shop/"]}; '
    "nowhere without",
)
@click.option(
    "--storage-endpoint",
    "storage_endpoints",
    multiple=True,
    metavar="URL",
    help="a server that storage.s3.endpoint may name; repeatable; without, all but the operator's own machine and link",
)
@click.option(
    "--pod-templates",
    type=values.Word(PodTemplates),
    default=PodTemplates.RESTRICTED.value,
    show_default=True,
    help="what driver.podTemplate and executor.podTemplate may set",
)
@click.option(
    "--job-defaults",
    type=_defaults,
    default="{}",
    metavar="FIELDS",
    help='fields of a job\'s spec for jobs that do not set them, as JSON: {"imagePullSecrets": [{"name": "registry"}]}',
)
@click.option(
    "--run-as-user",
    type=int,
    metavar="UID",
    help="user and group of jobs' pods; without, that of the image, or what the platform assigns",
)
@click.option(
    "--max-concurrent-upgrades",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="upgrades that may run at once, of all jobs together, with a slow start for each new image; without, any number",
)
@click.option(
    "--starts-per-minute",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="drivers that may be started in a minute, of all jobs together; those of ten seconds may start at once; without, "
    "any number",
)
def run(job_network_policy: Any, job_metrics_from: Any, **given: Any) -> int:  # noqa: ANN401 -- the values of the options
    """Run `run`."""
    from statefulspark_operator import handlers  # Only this command needs the cluster's libraries.
    from statefulspark_operator.cluster import permits
    from statefulspark_operator.engine.leadership import LeaseName
    from statefulspark_operator.render.network_policy import Peers

    lease = LeaseName(given["lease_namespace"], given["lease"], given["identity"]) if given["lease"] else None
    return handlers.run(
        namespaces=given["namespaces"],
        health_port=given["health_port"],
        metrics_port=given["metrics_port"],
        log_format=given["log_format"],
        log_level=given["log_level"],
        lease=lease,
        rules=handlers.JobRules(
            job_peers=Peers(api=job_network_policy, metrics=job_metrics_from)
            if job_network_policy is not None
            else None,
            allowed=permits.parse(given["own_identity"], given["storage_endpoints"]),
            pod_templates=given["pod_templates"],
            defaults=given["job_defaults"],
            user_id=given["run_as_user"],
            max_concurrent_upgrades=given["max_concurrent_upgrades"],
            starts_per_minute=given["starts_per_minute"],
        ),
    )


@program.command(
    "uninstall-check",
    short_help="fail while there are jobs or savepoints",
    help="Fail while there are jobs or savepoints: without an operator, their deletion would hang.",
    epilog=f"example:\n  {NAME} uninstall-check --namespace demo\n",
)
@click.option("--namespace", "-n", "namespaces", multiple=True, metavar="NAME", help="look there only; repeatable")
def uninstall_check(namespaces: tuple[str, ...]) -> int:
    """Run `uninstall-check`."""
    from statefulspark_operator.engine import uninstall  # The cluster's libraries again.

    anyway = "To uninstall all the same, use `helm uninstall --no-hooks`."
    try:
        remaining = asyncio.run(uninstall.look(namespaces))
    except errors.StatefulSparkError as error:
        terminal.note(f"Nobody can tell whether jobs or savepoints remain: {error.message} {anyway}")
        return 1
    for name in remaining:
        terminal.write(name)
    if remaining:
        terminal.note(
            f"Delete these first: only the operator can end their deletion (docs/howto/install.md, Uninstall). {anyway}"
        )
    return 1 if remaining else 0


_FOLDER = click.Path(path_type=Path)


@program.command(
    "crds",
    short_help="print the CRDs, write them into folders, or check the files there",
    help="Print the CRDs, write them into folders, or check the files there.",
    epilog=f"examples:\n  {NAME} crds | kubectl apply -f -\n  {NAME} crds --check crds\n",
)
@click.argument("folders", nargs=-1, type=_FOLDER, metavar="[FOLDER]...", help="of --write and --check")
@commands.option("--write", is_flag=True, one_of="target", help="write the files into the folders")
@commands.option("--check", is_flag=True, one_of="target", help="fail if the files in the folders are outdated")
@commands.option(
    "--compatible-with",
    type=_FOLDER,
    metavar="FOLDER",
    one_of="target",
    help="fail if a released CRD in FOLDER/<version>/ accepts more",
)
def crds(folders: tuple[Path, ...], write: bool, check: bool, compatible_with: Path | None) -> int:
    """Run `crds`."""
    if (write or check) is not bool(folders):
        raise click.UsageError("Folders and one of --write and --check belong together; give both.")
    expected = [(folder / name, text) for folder in folders for name, text in crd.files().items()]
    if write:
        for file, text in expected:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return 0
    if compatible_with is not None:
        return _compatible_with(compatible_with)
    if check:
        outdated = [file for file, text in expected if not file.is_file() or file.read_text(encoding="utf-8") != text]
        for file in outdated:
            terminal.note(f"{file} does not match the models; run `make crds` and commit the result.")
        return 1 if outdated else 0
    terminal.write(crd.render_yaml())
    return 0


def _compatible_with(folder: Path) -> int:
    released = sorted(folder.glob("*/*.yaml"))
    if not released:
        terminal.write(f"{folder} has no CRD of a release, so nothing was compared.")
    current = {name: yaml.safe_load(text) for name, text in crd.files().items()}
    broken = [
        f"{file}: {sentence}"
        for file in released
        for sentence in compatibility.breaks(yaml.safe_load(file.read_text("utf-8")), current.get(file.name, {}))
    ]
    for line in broken:
        terminal.note(f"{line} Released fields are never removed, renamed or narrowed; add another one.")
    return 1 if broken else 0


@program.command(
    "version",
    short_help="print the version",
    help="Print the version.",
    epilog=f"example:\n  {NAME} version\n",
)
def version() -> None:
    """Run `version`."""
    terminal.write(statefulspark_operator.__version__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.
    """
    return commands.execute(program, NAME, argv, lambda _error: 1)


if __name__ == "__main__":
    sys.exit(main())
