"""The objects that the pods of a node refer to: a kubelet can read these, and no others of their kind.

Kubernetes keeps a graph of them; here they are looked up for each request, because few clients are nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.kinds.pod_admission import MIRROR
from allotment.apiserver.kinds.pod_references import (
    config_map_names,
    resource_claim_names,
    secret_names,
    service_account_names,
    volume_claim_names,
)
from allotment.model.trees import Tree

_VOLUMES: Final = "persistentvolumes"
#: Sources of persistent volumes and their references to Secrets that kubelets read.
_VOLUME_SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "cephfs": ("secretRef",), "cinder": ("secretRef",), "flexVolume": ("secretRef",), "iscsi": ("secretRef",),
    "rbd": ("secretRef",), "scaleIO": ("secretRef",), "storageos": ("secretRef",),
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
}  # fmt: skip
#: Kinds whose objects name their node, and the field.
_NODE_FIELDS: Final[Mapping[str, str]] = {
    "pods": "nodeName",
    "podcertificaterequests.certificates.k8s.io": "nodeName",
    "resourceslices.resource.k8s.io": "nodeName",
    "volumeattachments.storage.k8s.io": "nodeName",
}
_NAMES_BY_KIND: Final[Mapping[str, Callable[[Tree], Iterator[str]]]] = {
    "configmaps": config_map_names,
    "persistentvolumeclaims": volume_claim_names,
    "resourceclaims.resource.k8s.io": resource_claim_names,
    "secrets": secret_names,
    "serviceaccounts": service_account_names,
}


def is_related(reader: StoreReader, node: str, bucket: str, namespace: str, name: str) -> bool:
    """Whether an object belongs to a node, or to a pod of the node."""
    if bucket in _NODE_FIELDS:
        entry = reader.get(bucket, namespace, name)
        return entry is not None and (entry.tree.get("spec") or {}).get(_NODE_FIELDS[bucket]) == node
    if bucket == _VOLUMES:
        entry = reader.get(bucket, "", name)
        return entry is not None and _is_claimed(reader, node, entry.tree)
    names = _NAMES_BY_KIND[bucket]
    if any(name in names(pod) for pod in _pods(reader, node, namespace)):
        return True
    return bucket == "secrets" and any(
        (namespace, name) in _secrets_of_volume(entry.tree) and _is_claimed(reader, node, entry.tree)
        for entry in reader.list(_VOLUMES)
    )


def _pods(reader: StoreReader, node: str, namespace: str) -> Iterator[Tree]:
    """The pods of a node in a namespace, except mirror pods, which nodes create themselves."""
    for entry in reader.list("pods", namespace):
        pod = entry.tree
        if pod["spec"].get("nodeName") == node and MIRROR not in (pod["metadata"].get("annotations") or {}):
            yield pod


def _is_claimed(reader: StoreReader, node: str, volume: Tree) -> bool:
    """Whether a pod of the node uses the claim of a persistent volume."""
    claim = (volume.get("spec") or {}).get("claimRef")
    return claim is not None and is_related(
        reader, node, "persistentvolumeclaims", claim.get("namespace") or "", claim.get("name") or ""
    )


def _secrets_of_volume(volume: Tree) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Secrets that a kubelet reads to mount a persistent volume."""
    spec: Tree = volume.get("spec") or {}
    namespace = (spec.get("claimRef") or {}).get("namespace") or ""
    for source, references in _VOLUME_SECRETS.items():
        for reference in references:
            secret = (spec.get(source) or {}).get(reference) or {}
            if secret.get("name"):
                yield secret.get("namespace") or namespace, secret["name"]
    file_share = spec.get("azureFile") or {}
    if file_share.get("secretName"):
        yield file_share.get("secretNamespace") or namespace, file_share["secretName"]
