"""Pods, workloads and namespaces with Pod Security levels."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree
from tests.admission_requests.request import CORE, Request, container, levels, namespace, pod

_APPS: Final = "/apis/apps/v1/namespaces"


def _relabeled(name: str, *warnings: str, code: int = 200, message: str = "", **modes: str) -> Request:
    body = {"metadata": {"labels": levels(**modes)}}
    return Request("PATCH", f"{CORE}/{name}", body, code, message, warnings)


def _created(namespace: str, body: Tree, *warnings: str) -> Request:
    return Request("POST", f"{CORE}/{namespace}/pods", body, warnings=warnings)


def _violating(namespace: str, level: str, body: Tree, violations: str) -> Request:
    name = body["metadata"]["name"]
    message = f'pods "{name}" is forbidden: violates PodSecurity "{level}": {violations}'
    return Request("POST", f"{CORE}/{namespace}/pods", body, 403, message)


#: Satisfies the level restricted.
SAFE: Final[Tree] = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
_UNSAFE_MAIN: Final = (
    'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != '
    'true (pod or container "main" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container '
    '"main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


def _safe(*containers: Tree, **spec: Any) -> Tree:
    """A spec in which containers without a security context satisfy the level restricted."""
    return {
        "containers": [
            {**item, "securityContext": {**SAFE, **(item.get("securityContext") or {})}}
            for item in containers or (container(),)
        ],
        **spec,
    }


def _template(name: str, kind: str, spec: Tree) -> Tree:
    meta = {"labels": {"app": name}}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": meta, "spec": spec}},
    }  # fmt: skip


_PRIVILEGED: Final = {"containers": [container(security={"privileged": True})]}
_PRIVILEGED_TEXT: Final = 'privileged (container "main" must not set securityContext.privileged=true)'

_BASELINE: Final = (
    namespace("base", enforce="baseline"),
    _violating("base", "baseline:latest", pod("privileged", **_PRIVILEGED), _PRIVILEGED_TEXT),
    _violating(
        "base", "baseline:latest",
        pod("host", hostNetwork=True, hostPID=True, hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        'host namespaces (hostNetwork=true, hostPID=true, hostIPC=true), hostPath volumes (volume "v")',
    ),
    _violating(
        "base", "baseline:latest",
        pod("ports", containers=[
            container("a", ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 9, "hostPort": 443}]),
            container("b", ports=[{"containerPort": 81, "hostPort": 8080}]),
        ]),
        'hostPort (containers "a", "b" use hostPorts 443, 80, 8080)',
    ),
    _violating(
        "base", "baseline:latest",
        pod("capabilities", containers=[container(security={"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "BPF"]}})]),
        'non-default capabilities (container "main" must not include "BPF", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    _violating(
        "base", "baseline:latest",
        pod("probes", containers=[container(
            livenessProbe={"httpGet": {"port": 80, "host": "b.example"}},
            lifecycle={"preStop": {"httpGet": {"port": 80, "host": "a.example"}}},
        )]),
        'probe or lifecycle host (container "main" uses probe or lifecycle hosts "a.example", "b.example")',
    ),
    _violating(
        "base", "baseline:latest",
        pod(
            "selinux", securityContext={"seLinuxOptions": {"type": "spc_t", "user": "u"}},
            containers=[container(security={"seLinuxOptions": {"role": "r"}})],
        ),
        'seLinuxOptions (pod and container "main" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may '
        "not be set; role may not be set)",
    ),
    _violating(
        "base", "baseline:latest",
        pod(
            "profiles", initContainers=[container("init", security={"seccompProfile": {"type": "Unconfined"}})],
            securityContext={"appArmorProfile": {"type": "Unconfined"}, "sysctls": [{"name": "net.a", "value": "1"}]},
        ),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"), seccompProfile '
        '(container "init" must not set securityContext.seccompProfile.type to "Unconfined"), forbidden sysctls '
        "(net.a)",
    ),
    _violating(
        "base", "baseline:latest",
        pod(
            "windows", os={"name": "windows"}, hostNetwork=True,
            securityContext={"windowsOptions": {"hostProcess": True}},
        ),
        "host namespaces (hostNetwork=true), hostProcess (pod must not set "
        "securityContext.windowsOptions.hostProcess=true)",
    ),
    # warn has the level of enforce, if it has none of its own.
    _created("base", pod("plain")),
    Request(
        "POST", f"{_APPS}/base/deployments", _template("web", "Deployment", _PRIVILEGED),
        warnings=(f'would violate PodSecurity "baseline:latest": {_PRIVILEGED_TEXT}',),
    ),
)  # fmt: skip

_RESTRICTED: Final = (
    namespace("strict", enforce="restricted", enforce_version="v1.34"),
    _violating("strict", "restricted:v1.34", pod("plain"), _UNSAFE_MAIN),
    _created("strict", pod("safe", **_safe())),
    _created(
        "strict",
        pod("by-pod", **_safe(container(security={"runAsNonRoot": None, "seccompProfile": None})), securityContext={
            "runAsNonRoot": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"},
        }),
    ),
    _violating(
        "strict", "restricted:v1.34",
        pod("root", **_safe(container(security={"runAsUser": 0, "runAsNonRoot": False})), securityContext={
            "runAsUser": 0, "runAsNonRoot": False,
        }),
        'runAsNonRoot != true (pod and container "main" must not set securityContext.runAsNonRoot=false), runAsUser=0 '
        '(pod and container "main" must not set runAsUser=0)',
    ),
    _violating(
        "strict", "restricted:v1.34",
        pod("volumes", **_safe(), volumes=[
            {"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "nfs": {"server": "s", "path": "/"}},
            {"name": "c", "emptyDir": {}},
        ]),
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
    ),
    _violating(
        "strict", "restricted:v1.34",
        pod("capabilities", **_safe(container(security={"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}))),
        'unrestricted capabilities (container "main" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    # Windows has no such settings, and only newer versions rely on user namespaces.
    _violating(
        "strict", "restricted:v1.34",
        pod("users", **_safe(container(security={"runAsNonRoot": None})), hostUsers=False),
        'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true)',
    ),
    Request("PATCH", f"{CORE}/strict/pods/safe", {"metadata": {"labels": {"a": "b"}}}, 200),
    Request(
        "PATCH", f"{CORE}/strict/pods/safe/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [container("debug")]}}, 403,
        'pods "safe" is forbidden: violates PodSecurity "restricted:v1.34": ' + _UNSAFE_MAIN.replace("main", "debug"),
    ),
    namespace("future", enforce="restricted", enforce_version="v1.99"),
    _created("future", pod("users", **_safe(container(security={"runAsNonRoot": None})), hostUsers=False)),
    _violating("future", "restricted:v1.99", pod("plain"), _UNSAFE_MAIN),
    namespace("old", enforce="restricted", enforce_version="v1.7"),
    _violating(
        "old", "restricted:v1.7",
        pod("plain"),
        'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true)',
    ),
)  # fmt: skip

_WARNED: Final = (
    namespace("warned", warn="restricted", audit="restricted"),
    _created("warned", pod("plain"), f'would violate PodSecurity "restricted:latest": {_UNSAFE_MAIN}'),
    _created("warned", pod("other"), f'would violate PodSecurity "restricted:latest": {_UNSAFE_MAIN}'),
    _created("warned", pod("safe", **_safe())),
    Request(
        "POST", f"{CORE}/warned/podtemplates", {"metadata": {"name": "t"}, "template": {"spec": _PRIVILEGED}},
        warnings=(f'would violate PodSecurity "restricted:latest": {_PRIVILEGED_TEXT}, {_UNSAFE_MAIN}',),
    ),
    Request(
        "POST", "/apis/batch/v1/namespaces/warned/cronjobs",
        {
            "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {
                "spec": {"restartPolicy": "Never", **_PRIVILEGED}
            }}}},
        },
        warnings=(f'would violate PodSecurity "restricted:latest": {_PRIVILEGED_TEXT}, {_UNSAFE_MAIN}',),
    ),
    _relabeled("warned", enforce="baseline"),
    _relabeled(
        "warned",
        'existing pods in namespace "warned" violate the new PodSecurity enforce level "restricted:latest"',
        "other (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
        "seccompProfile",
        enforce="restricted",
    ),
    _relabeled("warned", enforce="baseline"),
)  # fmt: skip

_MUST_BE: Final = "must be one of privileged, baseline, restricted"
_LABELS: Final = (
    namespace(
        "wrong", 422,
        'Namespace "wrong" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
        f"{_MUST_BE}, metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"\": {_MUST_BE}, "
        "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": must be \"latest\" or "
        '"v1.x"]',
        enforce="strict", audit="", warn_version="1.30",
    ),
    _relabeled(
        "base", code=422, warn="x",
        message='Namespace "base" is invalid: metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": '
        + _MUST_BE,
    ),
)  # fmt: skip

POD_SECURITY: Final = (*_BASELINE, *_RESTRICTED, *_WARNED, *_LABELS)
