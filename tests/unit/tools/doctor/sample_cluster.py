"""A small healthy cluster as object trees, in which tests create defects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import GATES, Features
from allotment.model.trees import Tree, to_tree
from allotment.permissions.access_reviews import AccessRequest
from allotment.tools.doctor.examination import run_checks
from allotment.tools.doctor.finding import ClusterFinding
from allotment.tools.doctor.reading import read_objects
from allotment.tools.doctor.snapshot import ClusterSnapshot

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
LONG_AGO = "2026-06-01T08:00:00Z"
JUST_NOW = "2026-06-01T11:59:50Z"
NVIDIA = "gpu.nvidia.com"
DRA = "resource.k8s.io/v1"


class Cluster:
    """Two nodes with two T4 each, their driver, a running pod with its own claim, and a scheduler."""

    def __init__(self) -> None:
        self.trees: list[Tree] = []
        self.version = "v1.36.2"
        self.served: dict[str, Sequence[str]] = {"resourceclaims": ("v1", "v1beta2"), "devicetaintrules": ("v1beta2",)}
        self.gates = {name: Features("1.36").enabled(name) for name in GATES} | {"DRADeviceTaintRules": True}
        self.denied: Sequence[AccessRequest] = ()
        self.unread: dict[str, str] = {}
        fleet = cluster_of(parse_fleet(["node=2xt4:2"]), "1.36")
        for node in fleet.nodes:
            name = node.metadata.name
            self.add(to_tree(node, "v1", "Node"))
            self["Node", name]["metadata"]["labels"]["nvidia.com/gpu.present"] = "true"
            self["Node", name]["status"] = {
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
                "nodeInfo": {"kubeletVersion": "v1.36.2"},
            }
            self.pod(f"driver-{name}", "dra", node=name, owner=("DaemonSet", "nvidia-dra-driver-kubelet-plugin"))
        for slice_ in fleet.slices:
            self.add(to_tree(slice_, DRA, "ResourceSlice"))
        for device_class in fleet.classes:
            if device_class.metadata.name == NVIDIA:
                self.add(to_tree(device_class, DRA, "DeviceClass"))
        self.template("one")
        self.running("web", "node-1", "gpu-0")
        self.lease("kube-scheduler")

    # --- objects -----------------------------------------------------------------------------------------------------

    def add(self, tree: Tree) -> Tree:
        """Add an object with the metadata that an API server sets."""
        metadata = tree["metadata"]
        metadata.setdefault("uid", f"{tree['kind']}-{metadata['name']}")
        metadata.setdefault("creationTimestamp", LONG_AGO)
        metadata.setdefault("labels", {})
        self.trees.append(tree)
        return tree

    def __getitem__(self, key: tuple[str, str]) -> Tree:
        return next(tree for tree in self.trees if (tree["kind"], tree["metadata"]["name"]) == key)

    def all(self, kind: str) -> list[Tree]:
        """Objects of a kind."""
        return [tree for tree in self.trees if tree["kind"] == kind]

    def remove(self, kind: str, *names: str) -> None:
        """Remove objects by name, or all objects of the kind."""
        self.trees = [
            tree for tree in self.trees if tree["kind"] != kind or (names and tree["metadata"]["name"] not in names)
        ]  # fmt: skip

    def object(self, api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Tree:
        """Add an object of any kind."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return self.add({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})

    def template(self, name: str, device_class: str = NVIDIA, **exactly: Any) -> Tree:
        """Add a template for one device."""
        return self.object(DRA, "ResourceClaimTemplate", name, "ml", spec={"spec": claim_spec(device_class, **exactly)})

    def claim(self, name: str, *devices: str, pods: Sequence[str] = (), device_class: str = NVIDIA) -> Tree:
        """Add a claim, allocated if ``devices`` (``node-1/gpu-0``) are given. ``pods`` are its consumers."""
        results: list[Tree] = [
            {"request": "gpu", "driver": NVIDIA, "pool": pool, "device": device}
            for pool, device in (path.split("/") for path in devices)
        ]
        status: Tree = {"allocation": {"devices": {"results": results}}} if devices else {}
        if pods:
            status["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"Pod-{pod}"} for pod in pods]
        return self.object(DRA, "ResourceClaim", name, "ml", spec=claim_spec(device_class), status=status)

    def kube_program(self, name: str, version: str, *flags: str) -> Tree:
        """Add the pod of one of Kubernetes' own programs, as kubeadm does."""
        tree = self.pod(f"{name}-node-1", "kube-system", node="node-1")
        container = {"name": name, "image": f"registry.k8s.io/{name}:{version}", "command": [name, *flags]}
        tree["spec"]["containers"] = [container]
        return tree

    def pod(
        self, name: str, namespace: str = "ml", *, claim: str = "", template: str = "", made: str = "", node: str = "",
        owner: tuple[str, str] | None = None, phase: str = "", **spec: Any,
    ) -> Tree:  # fmt: skip
        """Add a pod with a claim, or with a template; ``made`` is the name of the generated claim."""
        status: Tree = {"phase": phase or ("Running" if node else "Pending"), "conditions": []}
        if node:
            spec["nodeName"] = node
            status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}]
        container: Tree = {"name": "main", "image": "example.com/app:1"}
        if claim or template:
            container["resources"] = {"claims": [{"name": "gpu"}]}
            source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
            spec["resourceClaims"] = [{"name": "gpu", **source}]
        if made:
            status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": made}]
        tree = self.object("v1", "Pod", name, namespace, spec={"containers": [container], **spec}, status=status)
        if owner is not None:
            kind, owner_name = owner
            tree["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner_name, "controller": True}
            ]
        return tree

    def running(self, name: str, node: str, device: str) -> Tree:
        """Add a running pod with a device, through a generated claim."""
        pod = self.pod(name, template="one", made=f"{name}-gpu", node=node)
        claim = self.claim(f"{name}-gpu", f"{node}/{device}", pods=[name])
        claim["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"Pod-{name}", "controller": True}
        ]
        return pod

    def pending_pod(
        self, name: str, template: str = "one", message: str = "0/2 nodes are available", **fields: Any
    ) -> Tree:
        """Add a pending pod with a claim, which a scheduler tried to schedule without success."""
        pod = self.pod(name, template=template, made=f"{name}-gpu", **fields)
        requested = next(t for t in self.all("ResourceClaimTemplate") if t["metadata"]["name"] == template)
        claim = self.claim(f"{name}-gpu")
        claim["spec"] = requested["spec"]["spec"]
        claim["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"Pod-{name}", "controller": True}
        ]
        if message:
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                 "lastTransitionTime": LONG_AGO},
            ]  # fmt: skip
        return pod

    def event(self, pod: str, reason: str, message: str) -> Tree:
        """Add an event of a pod."""
        about = {"kind": "Pod", "namespace": "ml", "name": pod, "uid": f"Pod-{pod}"}
        return self.object(
            "v1", "Event", f"{pod}.{reason}", "ml", involvedObject=about, reason=reason, message=message,
            lastTimestamp=JUST_NOW, type="Warning",
        )  # fmt: skip

    def lease(self, name: str, renewed: str = "2026-06-01T11:59:58.000000Z") -> Tree:
        """Add a Lease, by default of a running component."""
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}
        return self.object("coordination.k8s.io/v1", "Lease", name, "kube-system", spec=spec)

    def devices(self, slice_number: int = 0) -> list[Tree]:
        """The devices of a slice by its number."""
        found: list[Tree] = self.all("ResourceSlice")[slice_number]["spec"]["devices"]
        return found

    # --- the doctor --------------------------------------------------------------------------------------------------

    def snapshot(self) -> ClusterSnapshot:
        """The snapshot of the cluster."""
        seen = read_objects(self.trees)
        assert seen.failed == ()
        return ClusterSnapshot(
            features=Features("1.36", {name: on for name, on in self.gates.items() if name in GATES}),
            values=seen.values,
            now=NOW,
            version=self.version,
            served=self.served,
            gates=self.gates,
            denied=self.denied,
            unread=self.unread,
        )

    def findings(self) -> tuple[ClusterFinding, ...]:
        """The findings of all checks."""
        return run_checks(self.snapshot())

    def finding(self, code: str) -> ClusterFinding:
        """The only finding of a check."""
        (found,) = (finding for finding in self.findings() if finding.code == code)
        return found


def claim_spec(device_class: str = NVIDIA, **exactly: Any) -> Tree:
    """The spec of a claim for one device, with the fields of ``exactly``."""
    exact = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1, **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}}
