"""Driver and standby pods. Kubernetes never restarts one: each start has an epoch, each standby a number. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue
from statefulspark.contract import config as job_config

from statefulspark_operator.api import names
from statefulspark_operator.api.spec import EnvVar
from statefulspark_operator.render import config
from statefulspark_operator.render.base import Manifest, Subject, metadata, overlay

USER_ID = 10001
GRACE_PERIOD_S = 60
NODE_LOSS_TOLERATION_S = 30
"""Time after which a driver is removed from a node that does not answer; Kubernetes' default is 300 s."""
WORK_FOLDER = "/tmp"  # noqa: S108 - an emptyDir of the pod's own


def pod(subject: Subject, *, epoch: int, revision: str) -> Manifest:
    """Return the driver pod of an epoch, merged with the user's template.

    Args:
        subject: The job.
        epoch: The fencing token.
        revision: Revision of the spec.
    """
    job = subject.job
    labels = names.driver_labels(job.name, epoch=epoch, revision=revision)
    meta = metadata(job, names.driver_pod(job.name, epoch), labels)
    own: list[JsonValue] = [{"name": job_config.ENV_EPOCH, "value": str(epoch)}]
    start = _Start(("statefulspark", "run", subject.spec.job.file), names.config(job.name, epoch), tuple(own))
    return _laid_over(subject, meta, _pod_spec(subject, start))


def standby_pod(subject: Subject, *, name: str, revision: str) -> Manifest:
    """Return a standby pod, merged with the user's template: a driver without an epoch, on another node if there is one.

    Args:
        subject: The job.
        name: Name of the pod.
        revision: Revision of the spec.
    """
    job = subject.job
    meta = metadata(job, name, names.standby_labels(job.name, revision=revision))
    own: list[JsonValue] = [{"name": config.POD_IP, "valueFrom": _field("status.podIP")}]
    start = _Start(("statefulspark", "run", "--standby", subject.spec.job.file), names.standby_config(name), tuple(own))
    spec = {**_pod_spec(subject, start), "affinity": _apart_from_driver(job.name)}
    return _laid_over(subject, meta, spec)


@dataclass(frozen=True, slots=True)
class _Start:
    """What differs between a driver and a standby.

    Attributes:
        command: The arguments of the container.
        config: Name of the ConfigMap.
        variables: Environment variables.
    """

    command: tuple[str, ...]
    config: str
    variables: tuple[JsonValue, ...]


def _apart_from_driver(job: str) -> Manifest:
    """Return the affinity that prefers another node than the running driver's."""
    labels: Manifest = {names.LABEL_JOB: job, names.LABEL_ROLE: names.ROLE_DRIVER}
    term: Manifest = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    preferred: Manifest = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


def _laid_over(subject: Subject, meta: Manifest, spec: Manifest) -> Manifest:
    """Return the pod with the user's template laid over it."""
    rendered: Manifest = {"metadata": meta, "spec": spec}
    merged = overlay(rendered, dict(subject.spec.driver.template or {}))
    manifest = merged if isinstance(merged, dict) else rendered
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _identity(manifest["metadata"], meta),
        "spec": manifest["spec"],
    }


def _identity(merged: JsonValue, own: Manifest) -> JsonValue:
    """Keep name, namespace, owner and the operator's labels, whatever the template says: they identify the driver."""
    if not isinstance(merged, dict):
        return own
    user_labels, own_labels = merged.get("labels"), own["labels"]
    if not isinstance(user_labels, dict) or not isinstance(own_labels, dict):
        return {**merged, **own}
    # A standby has no epoch, and must not get one from a template.
    foreign = {label: value for label, value in user_labels.items() if label not in names.IDENTITY_LABELS}
    return {**merged, **own, "labels": {**foreign, **own_labels}}


def _pod_spec(subject: Subject, start: _Start) -> Manifest:
    spec, job = subject.spec, subject.job
    rendered: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": spec.driver.termination_grace_period_seconds or GRACE_PERIOD_S,
        "automountServiceAccountToken": spec.executor.instances > 0,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            _toleration("node.kubernetes.io/not-ready"),
            _toleration("node.kubernetes.io/unreachable"),
        ],
        "containers": [_container(subject, start)],
        "volumes": [
            {"name": "config", "configMap": {"name": start.config}},
            {"name": "work", "emptyDir": {}},
        ],
    }
    account = spec.driver.service_account_name
    if account is None and spec.executor.instances > 0:
        account = names.service_account(job.name)
    if account is not None:
        rendered["serviceAccountName"] = account
    if spec.image_pull_secrets:
        rendered["imagePullSecrets"] = [{"name": ref.name} for ref in spec.image_pull_secrets]
    return rendered


def _toleration(taint: str) -> Manifest:
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": NODE_LOSS_TOLERATION_S,
    }


def _container(subject: Subject, start: _Start) -> Manifest:
    spec = subject.spec
    rendered: Manifest = {
        "name": names.DRIVER_CONTAINER,
        "image": spec.image,
        "args": list(start.command),
        "env": _env(subject, start),
        "ports": [{"name": names.API_PORT_NAME, "containerPort": names.API_PORT, "protocol": "TCP"}],
        "readinessProbe": _probe("/readyz", period_s=2, failures=3),
        "livenessProbe": _probe("/healthz", period_s=10, failures=6),
        "startupProbe": _probe("/healthz", period_s=2, failures=150),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": config.FOLDER, "readOnly": True},
            {"name": "work", "mountPath": WORK_FOLDER},
        ],
    }
    if spec.image_pull_policy is not None:
        rendered["imagePullPolicy"] = spec.image_pull_policy.value
    if spec.driver.resources is not None:
        rendered["resources"] = spec.driver.resources.model_dump(mode="json", by_alias=True, exclude_none=True)
    return rendered


def _probe(path: str, *, period_s: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": names.API_PORT_NAME},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _field(path: str) -> Manifest:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}


def _secret_key(name: str, key: str, *, is_optional: bool) -> Manifest:
    reference: Manifest = {"name": name, "key": key}
    return {"secretKeyRef": {**reference, "optional": True} if is_optional else reference}


def _env(subject: Subject, start: _Start) -> list[JsonValue]:
    spec, job = subject.spec, subject.job
    entries: list[JsonValue] = [
        {"name": "POD_NAME", "valueFrom": _field("metadata.name")},
        {"name": "POD_UID", "valueFrom": _field("metadata.uid")},
        {"name": job_config.ENV_CONFIG, "value": f"{config.FOLDER}/{config.FILE_NAME}"},
        *start.variables,
        {"name": job_config.ENV_HOLDER, "value": "$(POD_NAME)/$(POD_UID)"},
        {
            "name": job_config.ENV_TOKEN,
            "valueFrom": _secret_key(names.token(job.name), "token", is_optional=False),
        },
    ]
    if spec.storage.credentials_secret is not None:
        secret = spec.storage.credentials_secret.name
        entries += [
            {"name": key, "valueFrom": _secret_key(secret, key, is_optional=False)} for key in config.CREDENTIAL_KEYS
        ]
        token = "AWS_SESSION_TOKEN"  # noqa: S105 - the name of a variable, not a secret
        entries.append({"name": token, "valueFrom": _secret_key(secret, token, is_optional=True)})
    return [*entries, *(_user_variable(variable) for variable in spec.driver.env)]


def _user_variable(variable: EnvVar) -> JsonValue:
    dumped: JsonValue = variable.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
