"""Driver and standby pods. Kubernetes never restarts one: each start has an epoch, each standby a number. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue
from statefulspark.contract import config as job_config

from statefulspark_operator.api import names, pod_metadata
from statefulspark_operator.api.spec import CERTIFICATE_KEY, PRIVATE_KEY, StatefulSparkJobSpec
from statefulspark_operator.render import base, code, config, executor
from statefulspark_operator.render.base import Manifest, Subject, metadata

GRACE_PERIOD_S = 60
TLS_FOLDER = "/etc/statefulspark-tls"
_TLS_VOLUME = "api-tls"
TOKEN_FOLDER = "/etc/statefulspark-token"  # noqa: S105 - a path
_TOKEN_VOLUME = "api-token"  # noqa: S105 - the name of a volume
_READABLE_BY_GROUP = 0o440
_API_FLAGS = ("--api-token-file", f"{TOKEN_FOLDER}/{job_config.TOKEN_KEY}")
"""The token is a file: it can be rotated, and no process that the job starts inherits it."""
_TOKEN_MOUNT: JsonValue = {"name": _TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}


def pod(subject: Subject, *, epoch: int, revision: str) -> Manifest:
    """Return the driver pod of an epoch, merged with the user's template.

    Args:
        subject: The job.
        epoch: The fencing token.
        revision: Revision of the spec.
    """
    job = subject.job
    labels = names.driver_labels(job.name, epoch=epoch, revision=revision)
    meta = metadata(job, names.driver_pod(job.name, epoch), labels) | _annotations(subject)
    own: list[JsonValue] = [{"name": job_config.ENV_EPOCH, "value": str(epoch)}]
    command = ("statefulspark", "run", *_API_FLAGS, *_tls_flags(subject.spec), code.entry(subject.spec))
    start = _Start(command, names.config(job.name, epoch), revision, tuple(own))
    return _laid_over(subject, meta, _pod_spec(subject, start))


def standby_pod(subject: Subject, *, name: str, revision: str) -> Manifest:
    """Return a standby pod, merged with the user's template: a driver without an epoch, on another node if there is one.

    Args:
        subject: The job.
        name: Name of the pod.
        revision: Revision of the spec.
    """
    job = subject.job
    meta = metadata(job, name, names.standby_labels(job.name, revision=revision)) | _annotations(subject)
    own: list[JsonValue] = [{"name": config.POD_IP, "valueFrom": _field("status.podIP")}]
    command = ("statefulspark", "run", "--standby", *_API_FLAGS, *_tls_flags(subject.spec), code.entry(subject.spec))
    start = _Start(command, names.standby_config(name), revision, tuple(own))
    labels: Manifest = {names.LABEL_JOB: job.name, names.LABEL_ROLE: names.ROLE_DRIVER}
    # It prefers another node than the running driver's.
    term: Manifest = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    preferred: Manifest = {"weight": 100, "podAffinityTerm": term}
    affinity: Manifest = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    spec: Manifest = {**_pod_spec(subject, start), "affinity": affinity}
    return _laid_over(subject, meta, spec)


def _annotations(subject: Subject) -> Manifest:
    workers, tls = subject.spec.executor, subject.spec.driver.tls
    annotations: Manifest = {}
    if workers is not None:
        annotations[names.ANNOTATION_EXECUTORS] = str(workers.instances)
    if tls is not None:
        annotations[names.ANNOTATION_API_TLS] = tls.secret_ref.name
    return {"annotations": annotations} if annotations else {}


def _tls_flags(spec: StatefulSparkJobSpec) -> tuple[str, ...]:
    """Return the flags of the certificate: an image whose release does not know them ends, instead of speaking HTTP."""
    if spec.driver.tls is None:
        return ()
    certificate, key = f"{TLS_FOLDER}/{CERTIFICATE_KEY}", f"{TLS_FOLDER}/{PRIVATE_KEY}"
    return ("--api-tls-certificate", certificate, "--api-tls-key", key)


@dataclass(frozen=True, slots=True)
class _Start:
    """What differs between a driver and a standby.

    Attributes:
        command: The arguments of the container.
        config: Name of the ConfigMap.
        revision: Revision of the spec.
        variables: Environment variables.
    """

    command: tuple[str, ...]
    config: str
    revision: str
    variables: tuple[JsonValue, ...]


def _laid_over(subject: Subject, meta: Manifest, spec: Manifest) -> Manifest:
    """Return the pod with the user's templates laid over it."""
    templates = (subject.spec.pod_template, subject.spec.driver.pod_template)
    record = pod_metadata.of_drivers(subject.own_spec).record
    rendered: Manifest = {"metadata": meta, "spec": spec}
    return base.laid_over(rendered, templates, record=record, container=names.DRIVER_CONTAINER)


def _pod_spec(subject: Subject, start: _Start) -> Manifest:
    spec, job = subject.spec, subject.job
    volumes: list[JsonValue] = [
        {"name": "config", "configMap": {"name": start.config}},
        base.local_volume("work", spec.driver.local_disk),
        *code.volumes(subject, start.revision),
        *base.authority_volumes(spec.storage),
        {"name": _TOKEN_VOLUME, "secret": {"secretName": names.token(job.name), "defaultMode": _READABLE_BY_GROUP}},
    ]
    if spec.driver.tls is not None:
        secret: Manifest = {"secretName": spec.driver.tls.secret_ref.name, "defaultMode": _READABLE_BY_GROUP}
        volumes.append({"name": _TLS_VOLUME, "secret": secret})
    if executor.is_encrypted(spec):
        volumes.append(executor.network_volume(job.name))
    rendered: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": spec.driver.termination_grace_period_seconds or GRACE_PERIOD_S,
        "automountServiceAccountToken": spec.executor is not None,
        "enableServiceLinks": False,
        "securityContext": base.pod_security(subject.user_id),
        "tolerations": base.node_loss_tolerations(),
        "containers": [_container(subject, start)],
        "volumes": volumes,
    }
    if fetching := code.init_containers(subject, spec.driver):
        rendered["initContainers"] = fetching
    account = spec.driver.service_account_name
    if account is None and spec.executor is not None:
        account = names.service_account(job.name)
    if account is not None:
        rendered["serviceAccountName"] = account
    if spec.image_pull_secrets:
        rendered["imagePullSecrets"] = [{"name": ref.name} for ref in spec.image_pull_secrets]
    return rendered


def _container(subject: Subject, start: _Start) -> Manifest:
    spec = subject.spec
    mounts: list[JsonValue] = [
        {"name": "config", "mountPath": config.FOLDER, "readOnly": True},
        {"name": "work", "mountPath": base.WORK_FOLDER},
        *code.mounts(spec),
        *base.authority_mounts(spec.storage),
        _TOKEN_MOUNT,
    ]
    if spec.driver.tls is not None:
        mounts.append({"name": _TLS_VOLUME, "mountPath": TLS_FOLDER, "readOnly": True})
    if executor.is_encrypted(spec):
        mounts.append(executor.NETWORK_MOUNT)
    environment: list[JsonValue] = [
        {"name": "POD_NAME", "valueFrom": _field("metadata.name")},
        {"name": "POD_UID", "valueFrom": _field("metadata.uid")},
        {"name": job_config.ENV_CONFIG, "value": f"{config.FOLDER}/{config.FILE_NAME}"},
        *start.variables,
        {"name": job_config.ENV_HOLDER, "value": "$(POD_NAME)/$(POD_UID)"},
        *code.variables(spec),
        *base.credentials(spec.storage),
        *base.variables(spec.driver.env),
    ]
    rendered: Manifest = {
        "name": names.DRIVER_CONTAINER,
        "image": spec.image,
        "args": list(start.command),
        "env": environment,
        "ports": [
            {"name": names.API_PORT_NAME, "containerPort": names.API_PORT, "protocol": "TCP"},
            {"name": names.METRICS_PORT_NAME, "containerPort": names.METRICS_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": _probe(spec, "/readyz", period_s=2, failures=3),
        "livenessProbe": _probe(spec, "/healthz", period_s=10, failures=6),
        "startupProbe": _probe(spec, "/healthz", period_s=2, failures=150),
        "securityContext": base.container_security(),
        "volumeMounts": mounts,
    }
    if spec.image_pull_policy is not None:
        rendered["imagePullPolicy"] = spec.image_pull_policy.value
    if spec.driver.env_from:
        rendered["envFrom"] = base.variables(spec.driver.env_from)
    if spec.driver.resources is not None:
        rendered["resources"] = base.resources(spec.driver.resources)
    return rendered


def _probe(spec: StatefulSparkJobSpec, path: str, *, period_s: int, failures: int) -> Manifest:
    asked: Manifest = {"path": path, "port": names.API_PORT_NAME}
    if spec.driver.tls is not None:
        asked["scheme"] = "HTTPS"
    return {
        "httpGet": asked,
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _field(path: str) -> Manifest:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
