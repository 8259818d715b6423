"""A builder for running clusters: nodes with devices, and pods with their allocated claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.fleet import CLASSES, cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, read_value, to_tree

FEATURES = Features(kube="1.36")
GPU = "gpu.nvidia.com"


class RunningCluster:
    """A cluster under construction: a pod added to a node gets its devices immediately."""

    def __init__(self) -> None:
        self.objects: list[Tree] = []
        self._inventory = Inventory(FEATURES)
        for device_class in CLASSES["nvidia"]:
            self.add_class(device_class)
        self._claims: dict[str, Tree] = {}

    def add_class(self, device_class: DeviceClass) -> None:
        """Add a DeviceClass besides those of the driver."""
        tree = to_tree(device_class, "resource.k8s.io/v1", "DeviceClass")
        self.objects.append(tree)
        self._inventory.put_class(read_value(tree, DeviceClass))

    def node(self, name: str, hardware: str = "", *, cpu: str = "16", zone: str = "a", **spec: Any) -> Tree:
        """Add a node with devices in the syntax of ``--fleet``."""
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        tree = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"node:{name}", "labels": labels, "annotations": {}},
            "spec": spec,
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        self.objects.append(tree)
        self._inventory.put_node(name, labels)
        if hardware:
            for slice_ in cluster_of(parse_fleet([f"{name}={hardware}"]), FEATURES.kube).slices:
                self.publish(slice_)
        return tree

    def publish(self, slice_: ResourceSlice) -> None:
        """Add a ResourceSlice."""
        tree = to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice")
        self.objects.append(tree)
        self._inventory.put_slice(read_value(tree, ResourceSlice))

    def template(self, name: str, *requests: Tree) -> Tree:
        """Add a ResourceClaimTemplate."""
        tree = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "default", "uid": f"template:{name}"},
            "spec": {"spec": {"devices": {"requests": list(requests or (request(),))}}},
        }
        self.objects.append(tree)
        return tree

    def claim(self, name: str, *requests: Tree) -> Tree:
        """Add a named ResourceClaim."""
        return self._put_claim(name, {"devices": {"requests": list(requests or (request(),))}})

    def pod(
        self, name: str, node: str = "", *, template: Tree | None = None, claim: str = "", cpu: str = "1",
        owner: str = "ReplicaSet", labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Tree:  # fmt: skip
        """Add a pod, on its node if it has one, with its devices."""
        uid = f"pod-{name}"
        metadata: Tree = {
            "name": name, "namespace": "default", "uid": uid, "labels": labels or {}, "annotations": annotations or {},
        }  # fmt: skip
        if owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "owner", "controller": True}
            ]
        status: Tree = {"phase": "Pending"}
        if node:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        entries: list[Tree] = []
        for used in filter(None, (template,)):
            entries.append({"name": "gpu", "resourceClaimTemplateName": used["metadata"]["name"]})
            status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]
            owned = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            self._put_claim(f"{name}-gpu-x", used["spec"]["spec"], owned)
            self._allocate(f"{name}-gpu-x", node, uid)
        if claim:
            entries.append({"name": "named", "resourceClaimName": claim})
            self._allocate(claim, node, uid)
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
                **({"nodeName": node} if node else {}),
                **({"resourceClaims": entries} if entries else {}),
                **spec,
            },
            "status": status,
        }
        self.objects.append(tree)
        return tree

    def disruption_budget(self, name: str, labels: dict[str, str], **spec: Any) -> Tree:
        """Add a PodDisruptionBudget without a status from its controller."""
        tree = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": labels}, **spec},
        }
        self.objects.append(tree)
        return tree

    def _put_claim(self, name: str, spec: Tree, owner: Tree | None = None) -> Tree:
        tree: Tree = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"claim:{name}"},
            "spec": spec,
            "status": {},
        }
        if owner is not None:
            tree["metadata"]["ownerReferences"] = [owner]
        self.objects.append(tree)
        self._claims[name] = tree
        return tree

    def _allocate(self, name: str, node: str, uid: str) -> None:
        tree = self._claims[name]
        if not node:
            return
        if "allocation" not in tree["status"]:
            claim = read_value(tree, ResourceClaim)
            outcome = Allocator(self._inventory).allocate(node, (claim,))
            if not isinstance(outcome, Allocated):
                raise NoDevicesError(f"{name} on {node}")
            self._inventory.allocate(ObjectKey("default", name), outcome.results[0])
            tree["status"]["allocation"] = to_tree(outcome.results[0])
        users = tree["status"].setdefault("reservedFor", [])
        users.append({"resource": "pods", "name": uid.removeprefix("pod-"), "uid": uid})


class NoDevicesError(Exception):
    """Raised if the node has no devices left for a pod."""


def request(*selectors: str, class_name: str = GPU, count: int = 1, **more: Any) -> Tree:
    """A request for devices of a class."""
    exactly: Tree = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return {"name": "gpu", "exactly": exactly}


def anti_affinity(labels: dict[str, str], key: str = "kubernetes.io/hostname") -> Tree:
    """Required anti-affinity to pods with these labels."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(labels: dict[str, str], key: str = "kubernetes.io/hostname") -> list[Tree]:
    """A topology spread over the values of a label."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def step_limit(steps: int = 10_000) -> Any:
    """A ``keep_going`` with a number of steps."""
    left = iter(range(steps))
    return lambda: next(left, None) is not None


def node_names(values: Iterable[Any]) -> list[str]:
    """The node names of removals or kept nodes."""
    return [value.node for value in values]
