"""The objects that a pod refers to by name: Secrets, ConfigMaps, claims and its service account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from allotment.model.pod_volume_claims import claim_names
from allotment.model.trees import Tree

#: Volume sources that refer to a Secret, and the path of its name.
_SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "secret": ("secretName",),
    "storageos": ("secretRef", "name"),
}
#: Sources of projected volumes that need the API server, and what they refer to.
_PROJECTED: Final[Mapping[str, str]] = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}
#: The same for volumes.
_VOLUMES: Final[Mapping[str, str]] = {
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
}


def secret_names(pod: Tree) -> Iterator[str]:
    """The Secrets that a pod uses in volumes, in variables or to pull images."""
    spec: Tree = pod["spec"]
    yield from _names(spec.get("imagePullSecrets") or ())
    yield from _names_in_variables(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        for source, path in _SECRETS.items():
            yield from _value(volume.get(source), path)
        yield from _names(source.get("secret") for source in _projected_sources(volume))


def config_map_names(pod: Tree) -> Iterator[str]:
    """The ConfigMaps that a pod uses in volumes or in variables."""
    spec: Tree = pod["spec"]
    yield from _names_in_variables(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _value(volume.get("configMap"), ("name",))
        yield from _names(source.get("configMap") for source in _projected_sources(volume))


def volume_claim_names(pod: Tree) -> Iterator[str]:
    """The PersistentVolumeClaims of a pod, also those that are generated for its ephemeral volumes."""
    return (name for name, _ in claim_names(pod))


def resource_claim_names(pod: Tree) -> Iterator[str]:
    """The ResourceClaims of a pod: those that it names and those that were generated for it."""
    status: Tree = pod.get("status") or {}
    generated = {item.get("name"): item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or generated.get(claim.get("name"))
        if name:
            yield name
    yield from _value(status.get("extendedResourceClaimStatus"), ("resourceClaimName",))


def service_account_names(pod: Tree) -> Iterator[str]:
    """The service account of a pod."""
    yield from _value(pod["spec"], ("serviceAccountName",))


def referenced_resource(pod: Tree) -> str:
    """The first kind of object that a pod refers to, as messages about mirror pods name it; empty if there is none."""
    spec: Tree = pod["spec"]
    named: tuple[tuple[str, Callable[[Tree], Iterator[str]]], ...] = (
        ("serviceaccounts", service_account_names), ("secrets", secret_names), ("configmaps", config_map_names),
    )  # fmt: skip
    for resource, names in named:
        if any(True for _ in names(pod)):
            return resource
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        for source, resource in _VOLUMES.items():
            if volume.get(source) is not None:
                return resource
        for part in _projected_sources(volume):
            for source, resource in _PROJECTED.items():
                if part.get(source) is not None:
                    return resource
    return ""


def _projected_sources(volume: Tree) -> list[Tree]:
    sources: list[Tree] = (volume.get("projected") or {}).get("sources") or []
    return sources


def _names_in_variables(spec: Tree, all_keys: str, one_key: str) -> Iterator[str]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield from _names(source.get(all_keys) for source in container.get("envFrom") or ())
            for variable in container.get("env") or ():
                yield from _value(variable.get("valueFrom"), (one_key, "name"))


def _names(references: Iterable[Tree | None]) -> Iterator[str]:
    for reference in references:
        yield from _value(reference, ("name",))


def _value(tree: Tree | None, path: tuple[str, ...]) -> Iterator[str]:
    """The value at a path, unless it is missing or empty."""
    value: object = tree
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value and isinstance(value, str):
        yield value
