"""The command `statefulspark-operator`: run the operator, write or check the CRDs, show the version.

Only the command that needs the cluster imports its libraries, so that `crds` runs anywhere.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError

import statefulspark_operator
from statefulspark_operator.api import compatibility, crd
from statefulspark_operator.api.pod_templates import PodTemplates

_LOCATIONS: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(dict[str, tuple[str, ...]])
_PEERS: TypeAdapter[tuple[dict[str, JsonValue], ...]] = TypeAdapter(tuple[dict[str, JsonValue], ...])


def _crds(arguments: argparse.Namespace) -> int:
    if arguments.write:
        for folder in arguments.write:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in crd.files().items():
                (folder / name).write_text(text, encoding="utf-8")
        return 0
    if arguments.compatible_with:
        folder = arguments.compatible_with
        released = sorted(folder.glob("*/*.yaml"))
        if not released:
            print(f"{folder} has no CRD of a release, so nothing was compared.")
        current = {name: yaml.safe_load(text) for name, text in crd.files().items()}
        broken = [
            f"{file}: {sentence}"
            for file in released
            for sentence in compatibility.breaks(yaml.safe_load(file.read_text("utf-8")), current.get(file.name, {}))
        ]
        for line in broken:
            print(f"{line} Released fields are never removed, renamed or narrowed; add another one.", file=sys.stderr)
        return 1 if broken else 0
    if arguments.check:
        expected = [(folder / name, text) for folder in arguments.check for name, text in crd.files().items()]
        outdated = [file for file, text in expected if not file.is_file() or file.read_text(encoding="utf-8") != text]
        for file in outdated:
            print(f"{file} does not match the models; run `make crds` and commit the result.", file=sys.stderr)
        return 1 if outdated else 0
    print(crd.render_yaml(), end="")
    return 0


def _version(_arguments: argparse.Namespace) -> int:
    print(statefulspark_operator.__version__)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from statefulspark_operator import handlers  # Only this command needs the cluster's libraries.
    from statefulspark_operator.cluster import permits
    from statefulspark_operator.engine.leadership import LeaseName
    from statefulspark_operator.render.network_policy import Peers

    lease = LeaseName(arguments.lease_namespace, arguments.lease, arguments.identity) if arguments.lease else None
    api, scrapers = arguments.job_network_policy, arguments.job_metrics_from
    peers = Peers(api=api, metrics=scrapers) if api is not None else None
    return handlers.run(
        namespaces=tuple(arguments.namespace),
        health_port=arguments.health_port,
        metrics_port=arguments.metrics_port,
        log_format=arguments.log_format,
        lease=lease,
        rules=handlers.JobRules(
            job_peers=peers,
            allowed=permits.parse(arguments.own_identity, arguments.storage_endpoint),
            pod_templates=arguments.pod_templates,
        ),
    )


def _locations(text: str) -> dict[str, tuple[str, ...]]:
    """Read locations by namespace."""
    try:
        locations = _LOCATIONS.validate_json(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no object with lists of locations by namespace") from error
    return locations


def _peers(text: str) -> tuple[dict[str, JsonValue], ...]:
    """Read the peers of a NetworkPolicy."""
    try:
        peers = _PEERS.validate_json(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of peers as in a NetworkPolicy's `from`") from error
    return peers


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="statefulspark-operator", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the operator until SIGTERM")
    run.add_argument("--namespace", "-n", action="append", default=[], help="watch this namespace only; repeatable")
    run.add_argument("--health-port", type=int, default=8080, help="port of /healthz; 0 picks a free one")
    run.add_argument("--metrics-port", type=int, default=9090, help="port of /metrics; 0 picks a free one")
    run.add_argument("--log-format", choices=("json", "text"), default="json", help="one JSON object per line, or text")
    run.add_argument(
        "--lease", help="stand by until this Lease is free, so that several operators can run; none without"
    )
    run.add_argument(
        "--lease-namespace", default=os.environ.get("POD_NAMESPACE", "default"), help="default: $POD_NAMESPACE"
    )
    run.add_argument(
        "--identity", default=os.environ.get("POD_NAME") or socket.gethostname(), help="default: $POD_NAME, or the host"
    )
    run.add_argument(
        "--job-network-policy",
        type=_peers,
        metavar="PEERS",
        help="give each job a NetworkPolicy; PEERS may reach its driver's API, as JSON like a NetworkPolicy's `from`",
    )
    run.add_argument(
        "--job-metrics-from",
        type=_peers,
        default=(),
        metavar="PEERS",
        help="with --job-network-policy: who may reach the port of a driver's metrics; everybody without",
    )
    run.add_argument(
        "--own-identity",
        type=_locations,
        default={},
        metavar="LOCATIONS",
        help="where jobs without a credentialsSecretRef may have their state, as JSON: "
        '{"shop": ["s3://bucket/shop/"]}; nowhere without',
    )
    run.add_argument(
        "--storage-endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="a server that storage.s3.endpoint may name; repeatable; without, all but the operator's own machine and link",
    )
    run.add_argument(
        "--pod-templates",
        type=PodTemplates,
        choices=tuple(PodTemplates),
        default=PodTemplates.RESTRICTED,
        metavar="RULE",
        help="what driver.podTemplate and executor.podTemplate may set: Restricted (default), or Any",
    )
    run.set_defaults(command=_run)

    crds = commands.add_parser("crds", help="print the CRDs, write them into folders, or check the files there")
    target = crds.add_mutually_exclusive_group()
    target.add_argument("--write", nargs="+", type=Path, metavar="DIR", help="write the files into these folders")
    target.add_argument("--check", nargs="+", type=Path, metavar="DIR", help="fail if the files there are outdated")
    target.add_argument(
        "--compatible-with", type=Path, metavar="DIR", help="fail if a released CRD in DIR/<version>/ accepts more"
    )
    crds.set_defaults(command=_crds)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; those of the process when omitted.

    Returns:
        The exit code.
    """
    arguments = build_parser().parse_args(argv)
    code: int = arguments.command(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
