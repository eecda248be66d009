"""The cluster of the scenarios: brought up once, with its S3 server and the operator, and taken down at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from demo import cluster, failure, kubectl, process, settings, setup

DIRECTORY = Path("build", "e2e", "cluster")
COMMAND = (str(cluster.CLUSTER), "--dir", str(DIRECTORY))
LOGS = Path("build", "e2e", "logs")
BUCKET = "e2e"
NODES = 2
"""One may be lost: what a job does then, the other shows."""
S3_COMMAND_TIMEOUT_S = 60.0
NODE_COMMAND_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Bed:
    """A cluster that is ready for jobs.

    Attributes:
        connection: How everything is reached.
        chosen: Images and where logs go.
        s3_stop: Command that makes the S3 server unreachable.
        s3_start: Command that brings it back, with everything it stored.
        operator_is_ours: The operator was installed here.
    """

    connection: cluster.Connection
    chosen: settings.Settings
    s3_stop: tuple[str, ...]
    s3_start: tuple[str, ...]
    operator_is_ours: bool

    def stop_s3(self) -> None:
        """Make S3 unreachable for everybody."""
        process.run(self.s3_stop, timeout_s=S3_COMMAND_TIMEOUT_S, log=LOGS / "commands.log")

    def start_s3(self) -> None:
        """Bring S3 back; doing it twice is fine."""
        process.run(self.s3_start, timeout_s=S3_COMMAND_TIMEOUT_S, log=LOGS / "commands.log")

    def cut_node(self, number: int) -> None:
        """Pull a node's network cable; its containers run on."""
        process.run((*COMMAND, "node", "cut", str(number)), timeout_s=NODE_COMMAND_TIMEOUT_S, log=LOGS / "commands.log")

    def heal_node(self, number: int) -> None:
        """Plug a node's cable in again, and wait until it is ready."""
        for step in ("heal", "wait-ready"):
            command = (*COMMAND, "node", step, str(number))
            process.run(command, timeout_s=NODE_COMMAND_TIMEOUT_S, log=LOGS / "commands.log")

    def configure_operator(self, values: Mapping[str, object]) -> None:
        """Give the operator these values of the chart, by their path with dots, and the chart's own for all others."""
        setup.configure_operator(self.connection, self.chosen, values)

    def operator(self) -> kubectl.Kubectl:
        """Return kubectl for the operator's namespace."""
        return self.connection.kubectl(setup.OPERATOR_NAMESPACE)


def raise_up(environ: Mapping[str, str]) -> Bed:
    """Bring everything up: a cluster of our own, or the one of `KUBECONFIG`.

    Args:
        environ: As for the demo; `S3_STOP` and `S3_START` are the commands that a foreign cluster needs in addition.

    Raises:
        DemoFailedError: It does not come up, or something is not named.
    """
    chosen = settings.parse(["--logs", str(LOGS)], environ)
    connection = _own(chosen) if chosen.foreign is None else cluster.use_foreign(chosen.foreign)
    stop: tuple[str, ...] = (*COMMAND, "service", "stop", "control", "s3")
    start: tuple[str, ...] = (*COMMAND, "service", "start", "control", "s3")
    if chosen.foreign is not None:
        stop, start = (_command(environ, name) for name in ("S3_STOP", "S3_START"))
    try:
        return Bed(connection, chosen, stop, start, operator_is_ours=setup.install_operator(connection, chosen))
    except failure.DemoFailedError:
        if chosen.foreign is None:
            _down()
        raise


def take_down(bed: Bed) -> None:
    """Leave nothing behind: our own cluster as a whole, in a foreign one what the scenarios put there."""
    if bed.chosen.foreign is None:
        _down()
        return
    if bed.operator_is_ours:
        setup.uninstall_operator(bed.connection, bed.chosen)
    store = bed.connection.open_store()
    store.delete_many([found.key for found in store.list("")])


def _own(chosen: settings.Settings) -> cluster.Connection:
    loads = [part for image in chosen.image_archives for part in ("--load", str(image))]
    up = [*COMMAND, "up", "--nodes", str(NODES), "--bucket", BUCKET, *loads]
    process.run(up, timeout_s=cluster.UP_TIMEOUT_S, log=LOGS / "commands.log")
    found = cluster.parse_environment(process.run([*COMMAND, "env"], timeout_s=10))
    return cluster.Connection(
        kubeconfig=Path(found["KUBECONFIG"]),
        kubectl_command=(str(cluster.CLUSTER), "kubectl"),
        s3_endpoint=found["S3_ENDPOINT"],
        s3_pod_endpoint=found["S3_POD_ENDPOINT"],
        bucket=BUCKET,
        folder="scenarios",
        access_key=found["AWS_ACCESS_KEY_ID"],
        secret_key=found["AWS_SECRET_ACCESS_KEY"],
        region=found["AWS_REGION"],
    )


def _down() -> None:
    process.run([*COMMAND, "down"], timeout_s=cluster.UP_TIMEOUT_S, log=LOGS / "commands.log")


def _command(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    given = environ.get(name)
    if not given:
        raise failure.DemoFailedError(
            f"KUBECONFIG is set, so {name} must be a shell command that {'stops' if name == 'S3_STOP' else 'starts'} "
            "the S3 server; one scenario makes it unreachable."
        )
    return ("sh", "-c", given)
