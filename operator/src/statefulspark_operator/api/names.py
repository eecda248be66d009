"""Names and labels of all objects of a job. Names depend only on the job, the epoch and the revision."""

from __future__ import annotations

import re

from statefulspark_operator.api.base import GROUP

TAKE_SAVEPOINT = f"{GROUP}/take-savepoint"
"""Finalizer of a job whose last savepoint is taken before the resource goes."""
DELETE_FILES = f"{GROUP}/delete-files"
"""Finalizer of a job or a savepoint whose files are deleted before it goes."""
FINALIZERS = (TAKE_SAVEPOINT, DELETE_FILES)
"""The operator's finalizers of a job; it has one of them at most, and none with `deletionPolicy: Retain`."""
FIELD_MANAGER = "statefulspark-operator"
PART_OF = "statefulspark"

LABEL_JOB = f"{GROUP}/job"
LABEL_ROLE = f"{GROUP}/role"
LABEL_EPOCH = f"{GROUP}/epoch"
LABEL_REVISION = f"{GROUP}/revision"
LABEL_DRIVER = f"{GROUP}/driver"
"""Of an executor: the name of the driver pod that it belongs to, which may have been a standby before."""
LABEL_ORIGIN = f"{GROUP}/origin"
"""Label of a SparkSavepoint that the operator made: who asked for it."""
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_PART_OF = "app.kubernetes.io/part-of"
LABEL_VERSION = "app.kubernetes.io/version"
"""Label with the revision: it is the version of the job that runs."""
DESCRIBING_LABELS = frozenset({LABEL_PART_OF, LABEL_VERSION})
"""Labels of a pod that its template may set, too: no selector has them."""
IDENTITY_LABELS = frozenset({LABEL_JOB, LABEL_ROLE, LABEL_EPOCH, LABEL_REVISION, LABEL_DRIVER})
"""Labels that only the operator sets."""
ROLE_DRIVER = "driver"
ROLE_STANDBY = "standby"
ROLE_EXECUTOR = "executor"

_JOB_NAME = re.compile("[a-z]([-a-z0-9]{0,43}[a-z0-9])?")

DRIVER_CONTAINER = "driver"
EXECUTOR_CONTAINER = "executor"
NETWORK_KEY = "secret"
"""Key, in a Secret of the job, of what driver and executors share to encrypt their connections, as the driver reads it."""
NETWORK_EXECUTOR_KEY = "executor"
"""The same as an executor reads it: in base64."""
API_PORT = 8090
API_PORT_NAME = "api"
METRICS_PORT = 9090
METRICS_PORT_NAME = "metrics"
ANNOTATION_EXECUTORS = f"{GROUP}/executors"
"""Annotation of a driver pod with the number of executors that it asks for; a driver without executors has none."""
ANNOTATION_API_TLS = f"{GROUP}/api-tls"
"""Annotation of a driver pod with the Secret of its API's certificate; a driver without it speaks HTTP."""
ANNOTATION_TEMPLATE = f"{GROUP}/pod-template"
"""Annotation of a pod with the labels and annotations that it has from pod templates, as JSON."""
ANNOTATION_API_PORT = f"{GROUP}/api-port"
"""Annotation with the port of the driver's API, if it is not the default."""


SPARK_PREFIX = "spark-"
"""How the labels begin that Spark gives to executors."""


def driver_pod(job: str, epoch: int) -> str:
    """Return the name of the driver pod of an epoch."""
    return f"{job}-driver-{epoch}"


def config(job: str, epoch: int) -> str:
    """Return the name of the ConfigMap with the configuration of an epoch."""
    return f"{job}-config-{epoch}"


def standby_pod(job: str, number: int) -> str:
    """Return the name of a standby pod; it keeps the name when it becomes the driver."""
    return f"{job}-standby-{number}"


def standby_config(pod: str) -> str:
    """Return the name of the ConfigMap with the configuration of a standby pod."""
    return f"{pod}-config"


def config_of(job: str, pod: str, epoch: int) -> str:
    """Return the name of the ConfigMap of a driver pod, which may have been a standby before."""
    return config(job, epoch) if pod == driver_pod(job, epoch) else standby_config(pod)


def standby_number(job: str, pod: str) -> int:
    """Return the number in a standby pod's name; 0 for the name of any other pod."""
    number = pod.removeprefix(f"{job}-standby-")
    return int(number) if number != pod and number.isdecimal() else 0


def service(job: str) -> str:
    """Return the name of the headless Service of the driver."""
    return f"{job}-driver"


def server_name(job: str, namespace: str) -> str:
    """Return the name that the certificate of a driver's API must have, whatever pod it runs in."""
    return f"{service(job)}.{namespace}.svc"


def token(job: str) -> str:
    """Return the name of the Secret with the token of the driver's API."""
    return f"{job}-token"


def network(job: str) -> str:
    """Return the name of the Secret that the driver and its executors share, which only they can read."""
    return f"{job}-network"


def service_account(job: str) -> str:
    """Return the name of the service account that may start executors, and of its role and binding."""
    return f"{job}-driver"


def claims_role(job: str) -> str:
    """Return the name of the role, and of its binding, of a driver whose executors have volume claims made for them."""
    return f"{service_account(job)}-claims"


def network_policy(job: str) -> str:
    """Return the name of the NetworkPolicy of a job's pods."""
    return f"{job}-pods"


def controller_revision(job: str, revision: str) -> str:
    """Return the name of the object that stores the spec of a revision."""
    return f"{job}-{revision}"


def code(job: str, revision: str) -> str:
    """Return the name of the ConfigMap that keeps the code of a revision, if it came from one."""
    return f"{job}-code-{revision}"


def labels(job: str) -> dict[str, str]:
    """Return the labels of every object of a job."""
    return {
        "app.kubernetes.io/name": "statefulspark",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        LABEL_PART_OF: PART_OF,
        LABEL_JOB: job,
    }


OPERATOR_LABELS = frozenset(labels("")) | DESCRIBING_LABELS | IDENTITY_LABELS | {LABEL_COMPONENT}
"""Labels of pods that the operator sets."""


def service_labels(job: str, *, revision: str) -> dict[str, str]:
    """Return the labels of the Service of the driver."""
    return {**labels(job), LABEL_COMPONENT: ROLE_DRIVER, LABEL_VERSION: revision}


def _component(job: str, role: str, revision: str) -> dict[str, str]:
    own = {LABEL_ROLE: role, LABEL_REVISION: revision}
    return {**labels(job), LABEL_COMPONENT: role, LABEL_VERSION: revision, **own}


def savepoint_labels(job: str) -> dict[str, str]:
    """Return the labels of every savepoint of a job; none if no job can have that name."""
    return {LABEL_JOB: job} if _JOB_NAME.fullmatch(job) else {}


def driver_labels(job: str, *, epoch: int, revision: str) -> dict[str, str]:
    """Return the labels of a driver pod."""
    return {**_component(job, ROLE_DRIVER, revision), LABEL_EPOCH: str(epoch)}


def standby_labels(job: str, *, revision: str) -> dict[str, str]:
    """Return the labels of a standby pod; it has no epoch until it becomes the driver."""
    return _component(job, ROLE_STANDBY, revision)


def executor_labels(job: str, *, driver: str, revision: str, epoch: int | None) -> dict[str, str]:
    """Return the labels of an executor.

    Args:
        job: The job.
        driver: Name of the driver or standby pod that it belongs to.
        revision: Revision of the spec.
        epoch: Epoch of the driver; None for an executor of a standby, which keeps its labels when that becomes the driver.
    """
    own = {**_component(job, ROLE_EXECUTOR, revision), LABEL_DRIVER: driver}
    return own if epoch is None else {**own, LABEL_EPOCH: str(epoch)}


def executor_selector(job: str, *, driver: str) -> str:
    """Return the label selector of a driver's executors.

    Args:
        job: The job.
        driver: Name of the driver's pod.
    """
    return f"{LABEL_JOB}={job},{LABEL_ROLE}={ROLE_EXECUTOR},{LABEL_DRIVER}={driver}"


def executor_number(pod: str) -> int:
    """Return the number in an executor's name, which Spark counts up from 1 in each driver; 0 for any other name."""
    number = pod.rpartition("-exec-")[2]
    return int(number) if number != pod and number.isdecimal() else 0


def activation_labels(epoch: int) -> dict[str, str]:
    """Return the labels that turn a standby pod into the driver pod of an epoch."""
    return {LABEL_ROLE: ROLE_DRIVER, LABEL_COMPONENT: ROLE_DRIVER, LABEL_EPOCH: str(epoch)}


def role_selector() -> str:
    """Return the label selector of all driver, standby and executor pods."""
    return f"{LABEL_ROLE} in ({ROLE_DRIVER},{ROLE_STANDBY},{ROLE_EXECUTOR})"


def object_selector(job: str) -> str:
    """Return the label selector of what the operator has made for a job."""
    return f"{LABEL_JOB}={job},app.kubernetes.io/managed-by={FIELD_MANAGER}"


def pod_selector(job: str) -> str:
    """Return the label selector of all driver, standby and executor pods of a job."""
    return f"{LABEL_JOB}={job},{role_selector()}"
