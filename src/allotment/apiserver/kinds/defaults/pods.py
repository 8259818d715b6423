"""Defaults of pods, pod specs, containers and volumes."""

from __future__ import annotations

import functools
import re
from typing import Final

from allotment.apiserver.kinds.defaults.combinators import (
    Fill,
    fill_absent,
    fill_each,
    fill_empty,
    fill_within,
    when_absent,
    when_empty,
)
from allotment.model.pod_resources import with_default_requests
from allotment.model.trees import Tree

_COMPONENT: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_COMPONENT}(?:\.{_COMPONENT})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_PATH_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?P<name>{_DOMAIN}/{_PATH_PART}(?:/{_PATH_PART})*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_MAX_REFERENCE_LENGTH: Final = 4096


@functools.lru_cache(2048)
def pull_policy(image: str) -> str:
    """``Always`` for images with the tag ``latest`` or without tag and digest; ``IfNotPresent`` for others.

    References that cannot be parsed have no tag and get ``IfNotPresent``.
    """
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    if len(image) > _MAX_REFERENCE_LENGTH or _IDENTIFIER.fullmatch(image):
        return ""
    host, slash, remainder = image.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host != host.lower()):
        host, remainder = "docker.io", image
    match = _REFERENCE.fullmatch(f"{host}/{remainder}")
    if match is None or len(match["name"]) > 255:
        return ""
    return match["tag"] or ("" if match["digest"] else "latest")


_DEFAULT_MODE: Final = 0o644
_HOUR: Final = 3600
#: Annotations that specified init containers in Kubernetes 1.5.
_OLD_INIT_CONTAINERS: Final = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{suffix}" for stage in ("alpha", "beta") for suffix in ("s", "-statuses")
)


def pod(tree: Tree) -> Tree:
    """Defaults of pods that pod templates do not get."""
    spec: Tree = tree.get("spec") or {}
    filled = fill_absent(with_default_requests(spec), {"enableServiceLinks": True})
    if filled.get("hostNetwork"):
        filled = fill_each(fill_each(filled, "containers", _host_ports), "initContainers", _host_ports)
    if (filled.get("terminationGracePeriodSeconds") or 0) < 0:
        filled = {**filled, "terminationGracePeriodSeconds": 1}
    tree = tree if filled is spec and "spec" in tree else {**tree, "spec": filled}
    return template(tree)


def _host_ports(container: Tree) -> Tree:
    def port(tree: Tree) -> Tree:
        return fill_empty(tree, {"hostPort": tree.get("containerPort") or 0}) if tree.get("containerPort") else tree

    return fill_each(container, "ports", port)


def template(tree: Tree) -> Tree:
    """Remove obsolete annotations."""
    annotations = (tree.get("metadata") or {}).get("annotations")
    if not annotations or _OLD_INIT_CONTAINERS.isdisjoint(annotations):
        return tree
    remaining = {name: value for name, value in annotations.items() if name not in _OLD_INIT_CONTAINERS}
    return {**tree, "metadata": {**tree["metadata"], "annotations": remaining}}


def pod_spec(tree: Tree) -> Tree:
    tree = fill_empty(
        tree, {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    )
    tree = fill_absent(tree, {"securityContext": {}, "terminationGracePeriodSeconds": 30})
    # The deprecated name of the field follows the new one.
    account = tree.get("serviceAccountName") or tree.get("serviceAccount")
    if account and not (tree.get("serviceAccountName") == tree.get("serviceAccount") == account):
        tree = {**tree, "serviceAccountName": account, "serviceAccount": account}
    elif not account and tree.get("serviceAccount"):
        tree = {**tree, "serviceAccount": ""}
    return tree


def pod_status(tree: Tree) -> Tree:
    """podIP and podIPs default to each other."""
    address, addresses = tree.get("podIP"), tree.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        return {**tree, "podIPs": [{"ip": address}]}
    if addresses and not address:
        return {**tree, "podIP": addresses[0].get("ip", "")}
    return tree


def container(tree: Tree) -> Tree:
    if not tree.get("imagePullPolicy"):
        tree = {**tree, "imagePullPolicy": pull_policy(tree.get("image") or "")}
    return fill_empty(tree, {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})


#: Fields of a volume that are not sources.
_NON_SOURCE_FIELDS: Final = frozenset({"name"})


def volume(tree: Tree) -> Tree:
    """A volume without a source is an emptyDir."""
    if all(tree[name] is None or name in _NON_SOURCE_FIELDS for name in tree):
        tree = {**tree, "emptyDir": {}}
    image = tree.get("image")
    if image is not None and not image.get("pullPolicy"):
        tree = {**tree, "image": {**image, "pullPolicy": pull_policy(image.get("reference") or "")}}
    return tree


_DEFAULT_FILE_MODE: Final = when_absent(defaultMode=_DEFAULT_MODE)

TYPES: Final[dict[str, Fill]] = {
    "core/v1.Pod": pod,
    "core/v1.PodTemplateSpec": template,
    "core/v1.PodSpec": pod_spec,
    "core/v1.PodStatus": pod_status,
    "core/v1.Container": container,
    "core/v1.EphemeralContainer": container,
    "core/v1.Volume": volume,
    "core/v1.HostPathVolumeSource": when_absent(type=""),
    "core/v1.SecretVolumeSource": _DEFAULT_FILE_MODE,
    "core/v1.ConfigMapVolumeSource": _DEFAULT_FILE_MODE,
    "core/v1.DownwardAPIVolumeSource": _DEFAULT_FILE_MODE,
    "core/v1.ProjectedVolumeSource": _DEFAULT_FILE_MODE,
    "core/v1.ServiceAccountTokenProjection": when_absent(expirationSeconds=_HOUR),
    "core/v1.ObjectFieldSelector": when_empty(apiVersion="v1"),
    "core/v1.HTTPGetAction": when_empty(path="/", scheme="HTTP"),
    "core/v1.Probe": when_empty(timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3),
    "core/v1.PersistentVolumeClaimSpec": when_absent(volumeMode="Filesystem"),
    "core/v1.PersistentVolumeClaim": lambda tree: fill_within(tree, "status", when_empty(phase="Pending")),
}
