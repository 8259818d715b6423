"""Violations of the pod security standard "restricted" by the pods of an object."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.trees import Tree

_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"
}  # fmt: skip


def pod_of(tree: Tree) -> Tree:
    """The spec of an object's pods; empty if it has none."""
    if tree["kind"] == "Pod":
        return dict(tree["spec"])
    spec = tree.get("spec", {}).get("template", {}).get("spec") if tree["kind"] in ("Deployment", "DaemonSet") else {}
    return dict(spec)


def violations(pod: Tree) -> Iterator[str]:
    """The reasons why a namespace that enforces the standard rejects the pod."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for volume in pod.get("volumes") or ():
        yield from (f"volume {volume['name']}: {kind}" for kind in volume.keys() - {"name"} - _VOLUMES)
    shared = pod.get("securityContext") or {}
    for container in [*(pod.get("initContainers") or ()), *pod["containers"]]:
        own = container.get("securityContext") or {}
        if own.get("privileged"):
            yield "privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if not {**shared, **own}.get("runAsNonRoot") or {**shared, **own}.get("runAsUser") == 0:
            yield "runAsNonRoot"
        if {**shared, **own}.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
        capabilities = own.get("capabilities") or {}
        if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
            yield "capabilities"
        if any("hostPort" in port for port in container.get("ports") or ()):
            yield "hostPort"
