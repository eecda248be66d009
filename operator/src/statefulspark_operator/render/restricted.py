"""The fields of a pod that the restricted Pod Security Standard of Kubernetes refuses, or that need an account. Pure.

It looks at the pod with the user's template laid over it, as the API server would get it. The standard:
https://kubernetes.io/docs/concepts/security/pod-security-standards/ (of Kubernetes 1.34).
"""

from __future__ import annotations

from collections.abc import Iterator

from statefulspark_operator.api.spec import PodTemplate
from statefulspark_operator.render import driver, executor
from statefulspark_operator.render.base import Manifest, Subject

VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
"""Kinds of volumes that the standard lets in."""
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")
_ACCOUNT_FIELDS = ("serviceAccount", "serviceAccountName", "automountServiceAccountToken")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
# Spark makes these volumes of executors itself, beside the template.
_REFUSED_CONF = ("spark.kubernetes.executor.volumes.hostPath.", "spark.kubernetes.executor.volumes.nfs.")


def job_problem(subject: Subject) -> str | None:
    """Return what a job sets that is refused, as the beginning of a sentence; None if there is nothing."""
    owner = executor.Owner(pod="", epoch=1, revision="")
    spec, common = subject.spec, _pod_fields(subject.spec.pod_template)
    pods = [("driver.", _pod_fields(spec.driver.pod_template), driver.pod(subject, epoch=1, revision=""))]
    if spec.executor is not None:
        pods.append(("executor.", _pod_fields(spec.executor.pod_template), executor.template(subject, owner)))
    problems = ((role if own else "", problem({**common, **own}, pod)) for role, own, pod in pods if common or own)
    refused = next((f"{role}podTemplate: {what}" for role, what in problems if what is not None), None)
    key = next((key for key in subject.spec.spark_conf if key.startswith(_REFUSED_CONF)), None)
    return refused or (f"sparkConf: {key}" if key is not None else None)


def _pod_fields(template: PodTemplate | None) -> Manifest:
    return template.spec or {} if template is not None else {}


def problem(template: Manifest, pod: Manifest) -> str | None:
    """Return what a template sets that is refused, as a part of a sentence; None if there is nothing.

    Args:
        template: The fields of the pod's spec in the user's templates.
        pod: The pod with them laid over it.
    """
    return next(_problems(template, _section(pod, "spec")), None)


def _problems(template: Manifest, spec: Manifest) -> Iterator[str]:
    for field in _ACCOUNT_FIELDS:
        if field in template:
            yield f"{field}: name the account in serviceAccountName beside the template"
    for field in _HOST_FIELDS:
        if spec.get(field):
            yield field
    if spec.get("hostUsers") is True:
        yield "hostUsers"
    for volume in _items(spec, "volumes"):
        name, kinds = volume.get("name"), volume.keys() - {"name"}
        if not kinds <= VOLUMES:
            yield f"volume {name}: {', '.join(sorted(kinds - VOLUMES))}"
        sources = _items(_section(volume, "projected"), "sources")
        if any("serviceAccountToken" in source for source in sources):
            yield f"volume {name}: a token of the service account"
    security = _section(spec, "securityContext")
    yield from _context_problems(security, "securityContext")
    if security.get("sysctls"):
        yield "securityContext.sysctls"
    for field in _CONTAINERS:
        for container in _items(spec, field):
            yield from _container_problems(container, security)


def _container_problems(container: Manifest, pod: Manifest) -> Iterator[str]:
    name, security = f"container {container.get('name')}", _section(container, "securityContext")
    yield from _context_problems(security, f"{name}: securityContext")
    if security.get("privileged"):
        yield f"{name}: securityContext.privileged"
    if security.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: securityContext.allowPrivilegeEscalation has to be false"
    capabilities = _section(security, "capabilities")
    dropped, added = capabilities.get("drop"), capabilities.get("add")
    if not isinstance(dropped, list) or "ALL" not in dropped:
        yield f"{name}: securityContext.capabilities.drop has to have ALL"
    if added not in (None, [], ["NET_BIND_SERVICE"]):
        yield f"{name}: securityContext.capabilities.add"
    if security.get("procMount") not in (None, "Default"):
        yield f"{name}: securityContext.procMount"
    if security.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{name}: securityContext.runAsNonRoot has to be true"
    if _section(security, "seccompProfile", default=_section(pod, "seccompProfile")).get("type") is None:
        yield f"{name}: securityContext.seccompProfile has to be set"
    if any(port.get("hostPort") for port in _items(container, "ports")):
        yield f"{name}: hostPort"


def _context_problems(security: Manifest, where: str) -> Iterator[str]:
    """Yield what is refused in a pod's and in a container's context alike."""
    if security.get("runAsUser") == 0:
        yield f"{where}.runAsUser: 0"
    if security.get("runAsNonRoot") is False:
        yield f"{where}.runAsNonRoot: false"
    if _section(security, "seccompProfile").get("type") == "Unconfined":
        yield f"{where}.seccompProfile: Unconfined"
    if _section(security, "appArmorProfile").get("type") == "Unconfined":
        yield f"{where}.appArmorProfile: Unconfined"
    for field in ("seLinuxOptions", "windowsOptions"):
        if field in security:
            yield f"{where}.{field}"


def _section(value: Manifest, name: str, *, default: Manifest | None = None) -> Manifest:
    section = value.get(name)
    return section if isinstance(section, dict) else default or {}


def _items(value: Manifest, name: str) -> list[Manifest]:
    items = value.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
