"""Names and labels of all objects of a job. Names depend only on the job, the epoch and the revision."""

from __future__ import annotations

from statefulspark_operator.api.base import GROUP

FINALIZER = f"{GROUP}/finalizer"
FIELD_MANAGER = "statefulspark-operator"

LABEL_JOB = f"{GROUP}/job"
LABEL_ROLE = f"{GROUP}/role"
LABEL_EPOCH = f"{GROUP}/epoch"
LABEL_REVISION = f"{GROUP}/revision"
ROLE_DRIVER = "driver"

DRIVER_CONTAINER = "driver"
API_PORT = 8090
API_PORT_NAME = "api"
ANNOTATION_API_PORT = f"{GROUP}/api-port"
"""Annotation with the port of the driver's API, if it is not the default."""


def driver_pod(job: str, epoch: int) -> str:
    """Return the name of the driver pod of an epoch."""
    return f"{job}-driver-{epoch}"


def config(job: str, epoch: int) -> str:
    """Return the name of the ConfigMap with the configuration of an epoch."""
    return f"{job}-config-{epoch}"


def service(job: str) -> str:
    """Return the name of the headless Service of the driver."""
    return f"{job}-driver"


def token(job: str) -> str:
    """Return the name of the Secret with the token of the driver's API."""
    return f"{job}-token"


def service_account(job: str) -> str:
    """Return the name of the service account that may start executors, and of its role and binding."""
    return f"{job}-driver"


def controller_revision(job: str, revision: str) -> str:
    """Return the name of the object that stores the spec of a revision."""
    return f"{job}-{revision}"


def labels(job: str) -> dict[str, str]:
    """Return the labels of every object of a job."""
    return {
        "app.kubernetes.io/name": "statefulspark",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        LABEL_JOB: job,
    }


def driver_labels(job: str, *, epoch: int, revision: str) -> dict[str, str]:
    """Return the labels of a driver pod."""
    return {**labels(job), LABEL_ROLE: ROLE_DRIVER, LABEL_EPOCH: str(epoch), LABEL_REVISION: revision}


def driver_selector(job: str) -> str:
    """Return the label selector of all driver pods of a job."""
    return f"{LABEL_JOB}={job},{LABEL_ROLE}={ROLE_DRIVER}"
