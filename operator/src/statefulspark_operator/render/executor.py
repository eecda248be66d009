"""What Spark is told about its executors: settings, and the template of their pods, which belong to the driver's. Pure.

Spark makes the pods itself. It names them after the driver's pod, which has the epoch in its name, or a number for a
standby, that has no epoch yet; and it makes the driver's pod their owner (`spark.kubernetes.driver.pod.name`, Spark 4.2's
`BasicExecutorFeatureStep` and `KubernetesClusterSchedulerBackend`), as that of the ConfigMap with their configuration.
Nothing of that changes when a standby becomes the driver. What Spark has no setting for is in the template: it is laid
beneath what Spark adds.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue
from statefulspark import errors

from statefulspark_operator.api import memory, names, pod_metadata
from statefulspark_operator.api.spec import Executor, StatefulSparkJobSpec
from statefulspark_operator.render import base, code
from statefulspark_operator.render.base import Manifest, Subject

TEMPLATE_FILE = "executor.json"
NETWORK_FOLDER = "/etc/statefulspark-network"
AUTH_VARIABLE = "_SPARK_AUTH_SECRET"
"""Where an executor finds the secret. It cannot read the driver's file: Spark 4.2's `SecurityManager` reads files only where
it knows `spark.master`, which an executor learns from the driver, over the connection that needs the secret."""
LOCAL_VOLUME = "spark-local-dir-1"
"""Spark uses volumes whose names begin like this instead of its own (`LocalDirsFeatureStep`)."""
LOCAL_FOLDER = "/var/data/spark-local"
REQUEST_TIMEOUT_MS = 60_000
"""Spark waits 10 s for the API server, and ends if an answer takes longer; a busy one needs more."""
AUTHENTICATE = "spark.authenticate"
GRACE_PERIOD_S = 5
"""An executor has nothing to finish; one that hangs holds what the next one needs until it is killed."""
_GRACE_FIELD = "terminationGracePeriodSeconds"
GRACE_PERIOD = "spark.kubernetes.executor.terminationGracePeriodSeconds"
"""Spark's setting for it, 30 s when unset. Since 4.1 Spark writes it over what the template says."""
WORKER_MEMORY = "STATEFULSPARK_WORKER_MEMORY_MB"
"""Variable with the memory of a Python worker, which limits the keyed state that it keeps."""
_CLAIMS = "spark.kubernetes.executor.volumes.persistentVolumeClaim."
_OVERHEAD_SETTINGS = (
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.kubernetes.memoryOverheadFactor",
)


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod whose executors they are.

    Attributes:
        pod: Name of the driver or standby pod.
        revision: Revision of the spec.
        epoch: Epoch of the driver; None for a standby, which has none yet.
    """

    pod: str
    revision: str
    epoch: int | None = None


def _required(spec: StatefulSparkJobSpec) -> Executor:
    """Return the executors of a job that has some.

    Raises:
        InternalError: It has none: whoever renders them asks for that first.
    """
    if spec.executor is None:
        raise errors.InternalError("ExecutorsExpected", "A job without executors has no pods of them to render.")
    return spec.executor


def settings(subject: Subject, owner: Owner, *, host: str | None, template: str) -> dict[str, str]:
    """Return Spark's settings for a job with executors.

    Args:
        subject: A job with executors.
        owner: The pod that starts the executors.
        host: The driver's address, if it is not the job's Service.
        template: Path of the file with the pod template, on the driver.
    """
    spec, job, executor = subject.spec, subject.job, _required(subject.spec)
    conf = {
        "spark.executor.instances": str(executor.instances),
        "spark.executor.cores": str(executor.cores),
        "spark.executor.memory": f"{memory.quantity_mib(executor.heap)}m",
        "spark.driver.host": host or f"{names.service(job.name)}.{job.namespace}.svc",
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - inside the pod, reached through the Service
        "spark.kubernetes.namespace": job.namespace,
        "spark.kubernetes.container.image": spec.image,
        "spark.kubernetes.driver.pod.name": owner.pod,
        "spark.kubernetes.driver.requestTimeout": str(REQUEST_TIMEOUT_MS),
        "spark.kubernetes.driver.connectionTimeout": str(REQUEST_TIMEOUT_MS),
        "spark.kubernetes.executor.podNamePrefix": owner.pod,
        "spark.kubernetes.executor.podTemplateFile": template,
        "spark.kubernetes.executor.podTemplateContainerName": names.EXECUTOR_CONTAINER,
    }
    if not makes_claims(spec):
        # Otherwise Spark looks for claims to reuse, and deletes claims when it stops.
        conf["spark.kubernetes.driver.ownPersistentVolumeClaim"] = "false"
    if spec.image_pull_policy is not None:
        conf["spark.kubernetes.container.image.pullPolicy"] = spec.image_pull_policy.value
    if spec.image_pull_secrets:
        conf["spark.kubernetes.container.image.pullSecrets"] = ",".join(ref.name for ref in spec.image_pull_secrets)
    conf |= _sizes(spec)
    parts = [part.spec for part in (executor.pod_template, spec.pod_template) if part is not None and part.spec]
    given = next((part[_GRACE_FIELD] for part in parts if _GRACE_FIELD in part), None)
    if given is not None or GRACE_PERIOD not in spec.spark_conf:
        conf[GRACE_PERIOD] = f"{given if isinstance(given, int) else GRACE_PERIOD_S}s"
    if is_encrypted(spec):
        # Nobody else can open or read the connections; the secret is a file, and in no setting.
        conf |= {
            AUTHENTICATE: "true",
            "spark.authenticate.secret.file": f"{NETWORK_FOLDER}/{names.NETWORK_KEY}",
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        }
    return conf


def _sizes(spec: StatefulSparkJobSpec) -> dict[str, str]:
    """Return the settings of what Spark writes into the pod itself, whatever the template says: memory and CPU."""
    executor = _required(spec)
    resources = executor.resources
    requests, limits = (resources.requests or {}, resources.limits or {}) if resources is not None else ({}, {})
    conf = {
        setting: given[memory.CPU]
        for setting, given in (
            ("spark.kubernetes.executor.request.cores", requests),
            ("spark.kubernetes.executor.limit.cores", limits),
        )
        if memory.CPU in given
    }
    if not _sizes_python(spec):
        return conf
    return conf | {"spark.executor.memoryOverhead": f"{memory.overhead_mib(executor)}m"}


def _sizes_python(spec: StatefulSparkJobSpec) -> bool:
    """Tell whether the operator chooses the memory beside the heap, and not the user by a setting of Spark."""
    return not any(setting in spec.spark_conf for setting in _OVERHEAD_SETTINGS)


def makes_claims(spec: StatefulSparkJobSpec) -> bool:
    """Tell whether Spark may make volume claims for its executors."""
    return any(setting.startswith(_CLAIMS) for setting in spec.spark_conf)


def is_encrypted(spec: StatefulSparkJobSpec) -> bool:
    """Tell whether driver and executors authenticate each other, and encrypt what they send."""
    return spec.executor is not None


def network_volume(job: str) -> JsonValue:
    """Return the volume with which the driver reads the secret that it shares with its executors."""
    items: list[JsonValue] = [{"key": names.NETWORK_KEY, "path": names.NETWORK_KEY}]
    return {"name": "network", "secret": {"secretName": names.network(job), "defaultMode": 0o440, "items": items}}


NETWORK_MOUNT: Manifest = {"name": "network", "mountPath": NETWORK_FOLDER, "readOnly": True}


def template(subject: Subject, owner: Owner) -> Manifest:
    """Return the template of an executor's pod, with the user's laid over it.

    It fulfils the restricted Pod Security Standard, and has no token of the API server.

    Args:
        subject: A job with executors.
        owner: The pod that starts the executors.
    """
    job, spec, executor = subject.job, subject.spec, _required(subject.spec)
    pod_spec: Manifest = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": base.pod_security(subject.user_id),
        "tolerations": base.node_loss_tolerations(),
        "containers": [_container(subject)],
        "volumes": [
            {"name": "work", "emptyDir": {}},
            base.local_volume(LOCAL_VOLUME, executor.local_disk),
            *code.volumes(subject, owner.revision),
            *base.authority_volumes(spec.storage),
        ],
    }
    if fetching := code.init_containers(subject, executor):
        pod_spec["initContainers"] = fetching
    if executor.service_account_name is not None:
        pod_spec["serviceAccountName"] = executor.service_account_name
    labels = names.executor_labels(job.name, driver=owner.pod, revision=owner.revision, epoch=owner.epoch)
    meta: Manifest = {"labels": dict(labels)}
    templates = (spec.pod_template, executor.pod_template)
    record = pod_metadata.of_executors(subject.own_spec).record
    rendered: Manifest = {"metadata": meta, "spec": pod_spec}
    return base.laid_over(rendered, templates, record=record, container=names.EXECUTOR_CONTAINER)


def whole_pod(subject: Subject, *, revision: str) -> Manifest:
    """Return an executor's pod with what Spark adds that a pod must have: a name and an image.

    Args:
        subject: A job with executors.
        revision: Revision of the spec.
    """
    name = f"{names.driver_pod(subject.job.name, 1)}-exec-1"
    pod = template(subject, Owner(names.driver_pod(subject.job.name, 1), revision, 1))
    own: Manifest = {"name": name, "namespace": subject.job.namespace}
    image: JsonValue = [{"name": names.EXECUTOR_CONTAINER, "image": subject.spec.image}]
    filled = base.overlay(pod, {"metadata": own, "spec": {"containers": image}})
    return filled if isinstance(filled, dict) else pod


def _container(subject: Subject) -> Manifest:
    spec, executor = subject.spec, _required(subject.spec)
    own: list[JsonValue] = []
    if _sizes_python(spec):
        own.append({"name": WORKER_MEMORY, "value": str(memory.worker_mib(executor))})
    if is_encrypted(spec):
        source = base.secret_key(names.network(subject.job.name), names.NETWORK_EXECUTOR_KEY, is_optional=False)
        own.append({"name": AUTH_VARIABLE, "valueFrom": source})
    rendered: Manifest = {
        "name": names.EXECUTOR_CONTAINER,
        "env": [
            *own,
            *code.variables(spec),
            *base.credentials(spec.storage),
            *base.variables(executor.env),
        ],
        "securityContext": base.container_security(),
        "volumeMounts": [
            {"name": "work", "mountPath": base.WORK_FOLDER},
            {"name": LOCAL_VOLUME, "mountPath": LOCAL_FOLDER},
            *code.mounts(spec),
            *base.authority_mounts(spec.storage),
        ],
    }
    if executor.env_from:
        rendered["envFrom"] = base.variables(executor.env_from)
    if executor.resources is not None:
        # Of memory and CPU, Spark replaces what is here by its settings.
        rendered["resources"] = base.resources(executor.resources)
    return rendered
