"""Pods and workloads that are accepted with warnings."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree
from tests.admission_requests.request import CORE, Request, container, namespace, pod

_PODS: Final = f"{CORE}/warnings/pods"
_NO_POD: Final = "a null labelSelector results in matching no pod"
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_DNS: Final = "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"


def _warned(name: str, *warnings: str, annotations: Tree | None = None, **spec: Any) -> Request:
    written = pod(name, **spec)
    written["metadata"]["annotations"] = annotations or {}
    return Request("POST", _PODS, written, warnings=warnings)


def _workload(kind: str, name: str, template: Tree, **spec: Any) -> Tree:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": template}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }  # fmt: skip


_HIDDEN: Final[Tree] = {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]}
_HIDES: Final = 'hides previous definition of "A", which may be dropped when using apply'
_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_ZONE_TEXT: Final = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
_GRACE: Final = "terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
_TERM: Final = {"topologyKey": "kubernetes.io/hostname"}

POD_WARNINGS: Final = (
    namespace("warnings"),
    _warned("a.b", f"metadata.name: this is used in the Pod's hostname, {_DNS}"),
    _warned("env", f"spec.containers[0].env[1]: {_HIDES}", **_HIDDEN),
    _warned("extended", containers=[container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])]),
    _warned(
        "nodes", f"spec.nodeSelector[{_ZONE}]: {_ZONE_TEXT}",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
        'matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead',
        f"spec.topologySpreadConstraints[0].topologyKey: {_ZONE} is {_ZONE_TEXT}",
        f"spec.topologySpreadConstraints[0].labelSelector: {_NO_POD}",
        f"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: {_NO_POD}",
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector"
        f": {_NO_POD}",
        nodeSelector={_ZONE: "a"},
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]},
            ]}},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": _TERM},
            ]},
        },
    ),
    _warned(
        "volumes", "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
        volumes=[{"name": "a", "gitRepo": {"repository": "r"}}, {"name": "b", "storageos": {"volumeName": "v"}}],
    ),
    _warned(
        "lists", 'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"', 'spec.imagePullSecrets[1].name: duplicate name "a"',
        hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}, {"ip": "1.2.3.4", "hostnames": ["b"]}],
        imagePullSecrets=[{"name": "a"}, {"name": "a"}],
    ),
    _warned(
        "profiles", f"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: {_SECCOMP}",
        f"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/main]: {_SECCOMP}",
        annotations={
            "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
            "container.seccomp.security.alpha.kubernetes.io/main": "runtime/default",
        },
    ),
    _warned(
        "critical",
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "
        '"priorityClassName" field instead',
        annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""},
    ),
    _warned(
        "bytes",
        'spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer',
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
        containers=[container(resources={"limits": {"memory": "100m"}, "requests": {"memory": "100m"}})],
    ),
    _warned(
        "ports", "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
        "spec.containers[1].ports[1]: overlapping port definition with spec.containers[0].ports[1]",
        'spec.containers[1].ports[0]: duplicate port name "http" with spec.containers[0].ports[0], services and probes '
        "that select ports by name will use spec.containers[0].ports[0]",
        containers=[
            container("a", ports=[{"name": "http", "containerPort": 80}, {"containerPort": 81, "hostPort": 81}]),
            container("b", ports=[{"name": "http", "containerPort": 80}, {"containerPort": 81}]),
        ],
    ),
    _warned(
        "address",
        "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP "
        "HostIP:1.2.3.4}",
        containers=[container(ports=[{"containerPort": 80, "hostIP": "1.2.3.4"}])],
    ),
    Request(
        "POST", "/apis/apps/v1/namespaces/warnings/deployments", _workload("Deployment", "a.b", _HIDDEN),
        warnings=(
            f"metadata.name: this is used in Pod names and hostnames, {_DNS}",
            f"spec.template.spec.containers[0].env[1]: {_HIDES}",
        ),
    ),
    Request("PATCH", "/apis/apps/v1/namespaces/warnings/deployments/a.b", {"metadata": {"labels": {"a": "b"}}}, 200),
    Request(
        "PATCH", "/apis/apps/v1/namespaces/warnings/deployments/a.b", {"spec": {"replicas": 2}}, 200,
        warnings=(f"spec.template.spec.containers[0].env[1]: {_HIDES}",),
    ),
    Request(
        "POST", "/apis/apps/v1/namespaces/warnings/statefulsets",
        _workload("StatefulSet", "set", {**_HIDDEN, "terminationGracePeriodSeconds": -1}, serviceName="s"),
        warnings=(
            f"spec.template.spec.containers[0].env[1]: {_HIDES}",
            f"spec.template.spec.{_GRACE}",
        ),
    ),
    Request(
        "POST", "/apis/batch/v1/namespaces/warnings/cronjobs",
        {
            "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {
                "spec": {"restartPolicy": "Never", **_HIDDEN}
            }}}},
        },
        warnings=(f"spec.jobTemplate.spec.template.spec.containers[0].env[1]: {_HIDES}",),
    ),
)  # fmt: skip
