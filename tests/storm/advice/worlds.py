"""``World``: a cluster with a pending pod, as object trees, and what the pod's author meant.

The trees are those of a cluster (``cluster``) and those that the author of the pending pod applies (``own``). The
names of all objects of other tenants contain `SECRET`, so that a text that names one of them is found.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import yaml
from msgspec.structs import replace

from allotment.cel.validation_context import validation_context
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.generated_claims import name_prefix
from allotment.model.meta import Object
from allotment.model.resource import Device, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import Tree, to_tree, to_value
from allotment.model.validation import create

FEATURES: Final = Features(kube=DEFAULT_RELEASE)
#: The namespace and the name of the pending pod, of its claim or template, and of its entry for the claim.
NAMESPACE: Final = "ml"
POD: Final = "trainer"
CLAIM: Final = "training-gpus"
ENTRY: Final = "gpu"
#: A word in the names of all objects of other tenants.
SECRET: Final = "secret"
RESOURCE: Final = "resource.k8s.io/v1"
ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"

_TYPES: Final[dict[str, type[Object]]] = {
    kind.__name__: kind
    for kind in (Node, Namespace, Pod, ResourceSlice, DeviceClass, ResourceClaim, ResourceClaimTemplate)
}
_NOW: Final = "2026-06-01T00:00:00Z"


class Noise(NamedTuple):
    """A state of the cluster that is not why the pod is pending: ``cordon``, ``taint``, ``not-ready`` or ``pool``."""

    kind: str
    node: str


class World(NamedTuple):
    """A cluster and the objects of the pending pod. ``pool``: that of the nodes with the requested devices."""

    cluster: tuple[Tree, ...]
    own: tuple[Tree, ...]
    noise: tuple[Noise, ...] = ()
    pool: str = ""

    @property
    def pod(self) -> Tree:
        """The pending pod."""
        return next(tree for tree in self.own if tree["kind"] == "Pod")

    @property
    def request_owner(self) -> Tree | None:
        """The claim or template of the pending pod; None if it requests an extended resource."""
        return next((tree for tree in self.own if tree["kind"].startswith("ResourceClaim")), None)

    @property
    def claim_spec(self) -> Tree:
        """The spec of the claim. Raises Inapplicable."""
        owner = self.request_owner
        if owner is None:
            raise Inapplicable
        spec: Tree = owner["spec"]["spec"] if owner["kind"] == "ResourceClaimTemplate" else owner["spec"]
        return spec

    @property
    def request(self) -> Tree:
        """The only request of the claim. Raises Inapplicable."""
        request: Tree = self.claim_spec["devices"]["requests"][0]["exactly"]
        return request

    def of_kind(self, kind: str) -> list[Tree]:
        """All objects of a kind."""
        return [tree for tree in (*self.cluster, *self.own) if tree["kind"] == kind]

    def copy(self) -> World:
        """A copy whose trees can be changed."""
        return self._replace(cluster=tuple(map(copied, self.cluster)), own=tuple(map(copy.deepcopy, self.own)))

    def with_cluster(self, *more: Tree) -> World:
        """The world with more objects in its cluster."""
        return self._replace(cluster=(*self.cluster, *more))


class Inapplicable(Exception):
    """Raised when a mistake cannot be made in a world."""


#: The kinds of a cluster's objects that mistakes and noise change in place.
_CHANGING: Final = ("Node", "Namespace")


def copied(tree: Tree) -> Tree:
    """A copy of an object of a cluster. Devices, and objects that nothing changes in place, are shared."""
    if tree["kind"] == "ResourceSlice":
        spec = {**tree["spec"], "pool": dict(tree["spec"]["pool"])}
        return {**tree, "metadata": dict(tree["metadata"]), "spec": spec}
    return copy.deepcopy(tree) if tree["kind"] in _CHANGING else tree


def value_of(tree: Tree) -> Object:
    """An object as a value. Devices are converted once, because most worlds share them."""
    if tree["kind"] == "ResourceSlice" and "devices" in tree["spec"]:
        spec = {key: value for key, value in tree["spec"].items() if key != "devices"}
        bare = to_value({**tree, "spec": spec}, ResourceSlice)
        return replace(bare, spec=replace(bare.spec, devices=_devices_of(tree["spec"]["devices"])))
    return to_value(tree, _TYPES[tree["kind"]])


_CONVERTED: Final[dict[int, tuple[list[Tree], tuple[Device, ...]]]] = {}
"""Devices by the identity of their list, which is kept with them so that the identity stays valid."""
_MAX_CONVERTED: Final = 500


def _devices_of(devices: list[Tree]) -> tuple[Device, ...]:
    if id(devices) not in _CONVERTED:
        if len(_CONVERTED) == _MAX_CONVERTED:
            _CONVERTED.clear()
        _CONVERTED[id(devices)] = (devices, tuple(to_value(device, Device) for device in devices))
    return _CONVERTED[id(devices)][1]


def values_of(trees: Sequence[Tree]) -> list[Object]:
    """Objects as values."""
    return [value_of(tree) for tree in trees]


# --- the objects of a tree ------------------------------------------------------------------------------------------


def key_of(tree: Tree) -> str:
    """Kind, namespace and name, as in a suggested change: ``Pod ml/trainer``."""
    metadata = tree["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{tree['kind']} {namespace}/{metadata['name']}" if namespace else f"{tree['kind']} {metadata['name']}"


def user_pods(world: World) -> list[Tree]:
    """The pods that hold devices, of all tenants."""
    return [tree for tree in world.cluster if tree["kind"] == "Pod"]


def slices_of(world: World, node: str) -> list[Tree]:
    """The slices of a node."""
    return [tree for tree in world.of_kind("ResourceSlice") if tree["spec"].get("nodeName") == node]


def namespace_labels(world: World, namespace: str) -> dict[str, str]:
    """The labels of a namespace."""
    for tree in world.of_kind("Namespace"):
        if tree["metadata"]["name"] == namespace:
            return dict(tree["metadata"].get("labels") or {})
    return {}


def set_admin_access(world: World, *, allowed: bool) -> None:
    """Set or remove the label that allows admin access in the pending pod's namespace."""
    for tree in world.of_kind("Namespace"):
        if tree["metadata"]["name"] == NAMESPACE:
            tree["metadata"]["labels"] = {ADMIN_LABEL: "true"} if allowed else {}


# --- what an API server stores --------------------------------------------------------------------------------------


def stored(world: World) -> tuple[Tree, ...] | None:
    """The objects as a cluster has them after the author applied them: with defaults, uids, and the claim that the
    claim controller generates; None if the API server rejects one of them."""
    found: list[Tree] = []
    for tree in world.own:
        value = value_of(tree)
        if isinstance(value, ResourceClaim | ResourceClaimTemplate):
            labels = namespace_labels(world, value.metadata.namespace)
            result = create(value, validation_context(FEATURES), version="v1", now=_NOW, namespace_labels=labels)
            if result.errors:
                return None
            tree = to_tree(result.value, RESOURCE, tree["kind"])
        metadata = {"creationTimestamp": _NOW, **tree["metadata"], "uid": f"uid-{tree['metadata']['name']}"}
        found.append({**copy.deepcopy(tree), "metadata": metadata})
    pod = next(tree for tree in found if tree["kind"] == "Pod")
    pod.setdefault("status", {})["phase"] = "Pending"
    return (*world.cluster, *found, *_generated_claims(pod, found))


def _generated_claims(pod: Tree, objects: Sequence[Tree]) -> Iterator[Tree]:
    templates = {key_of(tree): tree for tree in objects if tree["kind"] == "ResourceClaimTemplate"}
    metadata = pod["metadata"]
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimTemplateName")
        template = templates.get(f"ResourceClaimTemplate {metadata['namespace']}/{name}") if name else None
        if template is None:
            continue
        claim = f"{name_prefix(metadata['name'], entry['name'])}x7k2p"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        generated = {
            "name": claim, "namespace": metadata["namespace"], "uid": f"uid-{claim}", "creationTimestamp": _NOW,
            "ownerReferences": [{**owner, "controller": True}],
            "annotations": {"resource.kubernetes.io/pod-claim-name": entry["name"]},
        }  # fmt: skip
        pod["status"]["resourceClaimStatuses"] = [{"name": entry["name"], "resourceClaimName": claim}]
        yield {
            "apiVersion": RESOURCE, "kind": "ResourceClaim", "metadata": generated,
            "spec": copy.deepcopy(template["spec"]["spec"]),
        }  # fmt: skip


# --- text -----------------------------------------------------------------------------------------------------------


def manifests(trees: Sequence[Tree]) -> str:
    """Objects as a file that a user could have written."""
    return "---\n".join(yaml.safe_dump(json.loads(json.dumps(tree)), sort_keys=False, width=1000) for tree in trees)
