"""What the demo is told: flags, and the environment for a cluster of the reader's own. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo import failure

BUILD = Path("build")
FILES_PER_BATCH, FILES_PER_BATCH_WITH_EXECUTORS = 4, 2
"""The input has to last until version 2 is ready, which takes a minute or two longer if it has executors to rehearse on."""
OWN_JOB_IMAGE = "localhost/statefulspark-flights:dev"
OWN_OPERATOR_IMAGE = "localhost/statefulspark-operator:dev"
OWN_IMAGE_ARCHIVES = tuple(BUILD / "images" / f"{name}.tar" for name in ("pause", "flights", "operator"))
FOREIGN_NEEDS = (
    ("S3_ENDPOINT", "URL of the S3 server as this machine reaches it"),
    ("S3_BUCKET", "an existing bucket on it"),
    ("AWS_ACCESS_KEY_ID", "its access key"),
    ("AWS_SECRET_ACCESS_KEY", "its secret key"),
    ("JOB_IMAGE", "the image of examples/flights/Dockerfile, pushed to where the cluster pulls from"),
    ("OPERATOR_IMAGE", "the image of operator/Dockerfile, pushed likewise"),
)


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """The reader's own cluster and S3 server.

    Attributes:
        kubeconfig: From `KUBECONFIG`.
        s3_endpoint: As this machine reaches the S3 server.
        s3_pod_endpoint: As pods reach it; the same unless `S3_POD_ENDPOINT` says otherwise.
        bucket: An existing bucket.
        access_key: For the S3 server.
        secret_key: Belongs to `access_key`.
        region: For signing.
    """

    kubeconfig: Path
    s3_endpoint: str
    s3_pod_endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the demo is told.

    Attributes:
        foreign: The reader's own cluster; None means one of our own, started and taken down by the demo.
        job_image: Image with the example job in it.
        operator_image: Image of the operator.
        image_archives: Archives that hold these images, for a cluster of our own.
        keep: Leave everything running at the end.
        namespace: Where the job runs.
        files_per_batch: Daily files in each batch.
        executors: Executor pods of the job; 0 means that everything runs in the driver.
        patience: Every deadline is multiplied by it.
        report: Where the JSON report goes.
        picture: Where the picture goes.
        logs: Folder for all logs.
    """

    foreign: ForeignCluster | None
    job_image: str
    operator_image: str
    image_archives: tuple[Path, ...]
    keep: bool
    namespace: str
    files_per_batch: int
    executors: int
    patience: float
    report: Path
    picture: Path
    logs: Path


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read flags and environment.

    Raises:
        DemoFailedError: A cluster of the reader's own is named and something that it needs is not.
        SystemExit: The flags are wrong, or help was asked for.
    """
    given = _parser().parse_args(arguments)
    executors = _executors(environ.get("DEMO_EXECUTORS") or "0")
    foreign = _foreign(environ) if environ.get("KUBECONFIG") else None
    return Settings(
        foreign=foreign,
        job_image=environ.get("JOB_IMAGE") or OWN_JOB_IMAGE,
        operator_image=environ.get("OPERATOR_IMAGE") or OWN_OPERATOR_IMAGE,
        image_archives=OWN_IMAGE_ARCHIVES,
        keep=given.keep or environ.get("KEEP", "") not in ("", "0"),
        namespace=given.namespace,
        files_per_batch=_files_per_batch(given.files_per_batch, executors),
        executors=executors,
        patience=given.patience,
        report=given.json,
        picture=given.picture,
        logs=given.logs,
    )


def _executors(given: str) -> int:
    if not (given.isascii() and given.isdigit()):
        raise failure.DemoFailedError(f"DEMO_EXECUTORS is {given!r}; it must be a number of pods, for example 2, or 0.")
    return int(given)


def _files_per_batch(given: int | None, executors: int) -> int:
    if given is not None:
        return given
    return FILES_PER_BATCH_WITH_EXECUTORS if executors else FILES_PER_BATCH


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make demo-kubernetes",
        description="Stream 336,776 real flights through a stateful job on Kubernetes, kill its driver, change the job, "
        "and compare every result with the truth.",
        epilog="With KUBECONFIG set, that cluster is used, with the S3 server and the images that the environment "
        "names: " + ", ".join(name for name, _ in FOREIGN_NEEDS) + " (and S3_POD_ENDPOINT, AWS_REGION). With "
        "DEMO_EXECUTORS=2, tasks run in two executor pods, and a cluster of the demo's own has two nodes.",
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end (also KEEP=1)")
    parser.add_argument("--namespace", default="flights", help="namespace of the job (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=1.0, help="multiply every deadline, for a slow machine")
    parser.add_argument(
        "--files-per-batch",
        type=int,
        help=f"days per batch (default: {FILES_PER_BATCH}, or {FILES_PER_BATCH_WITH_EXECUTORS} with executors)",
    )
    parser.add_argument(
        "--json", type=Path, default=BUILD / "demo" / "report.json", help="report (default: %(default)s)"
    )
    parser.add_argument(
        "--picture", type=Path, default=BUILD / "demo" / "throughput.png", help="(default: %(default)s)"
    )
    parser.add_argument("--logs", type=Path, default=BUILD / "demo" / "logs", help="(default: %(default)s)")
    return parser


def _foreign(environ: Mapping[str, str]) -> ForeignCluster:
    missing = [f"  {name}: {meaning}" for name, meaning in FOREIGN_NEEDS if not environ.get(name)]
    if missing:
        raise failure.DemoFailedError(
            "KUBECONFIG is set, so the demo uses that cluster, and needs to know these as well:\n"
            + "\n".join(missing)
            + "\nUnset KUBECONFIG to let the demo start a cluster and an S3 server of its own."
        )
    return ForeignCluster(
        kubeconfig=Path(environ["KUBECONFIG"]),
        s3_endpoint=environ["S3_ENDPOINT"],
        s3_pod_endpoint=environ.get("S3_POD_ENDPOINT") or environ["S3_ENDPOINT"],
        bucket=environ["S3_BUCKET"],
        access_key=environ["AWS_ACCESS_KEY_ID"],
        secret_key=environ["AWS_SECRET_ACCESS_KEY"],
        region=environ.get("AWS_REGION") or "us-east-1",
    )
