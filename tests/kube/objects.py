"""Test objects on a real control plane: accounts with a component's permissions, nodes with devices, templates,
pods."""

from __future__ import annotations

from allotment.model.trees import Tree
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests
from bench.real_kube import ApiServer

NAMESPACE = "kube-system"
RESOURCE = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PLACES = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{NAMESPACE}/rolebindings",
    "Node": "/api/v1/nodes",
    "DeviceClass": f"{RESOURCE}/deviceclasses",
    "ResourceSlice": f"{RESOURCE}/resourceslices",
    "ResourceClaimTemplate": f"{RESOURCE}/namespaces/default/resourceclaimtemplates",
    "Pod": PODS,
}


def create(kube: ApiServer, tree: Tree) -> None:
    code, answer = kube.send_request("POST", _PLACES[tree["kind"]], tree)
    assert code == 201, answer


def account(kube: ApiServer, component: str) -> None:
    """A client for an account with exactly the permissions that a component needs."""
    for tree in manifests(COMPONENTS[component], namespace=NAMESPACE):
        create(kube, tree)


def node(kube: ApiServer, name: str, devices: int) -> None:
    """Create a schedulable node and its devices."""
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    create(
        kube, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
    )
    kube.send_request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
    pool = {"driver": "gpu.example.com", "nodeName": name, "pool": {"name": name, "resourceSliceCount": 1}}
    create(kube, {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": name},
                  "spec": {**pool, "devices": [{"name": f"gpu-{number}"} for number in range(devices)]}})  # fmt: skip


def device_class(kube: ApiServer) -> None:
    """Create the class of these devices: gpu."""
    chosen = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
    create(kube, {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu"},
                  "spec": chosen})  # fmt: skip


def template(kube: ApiServer, name: str = "gpu", count: int = 1) -> None:
    """Create a claim template for ``count`` devices."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    create(kube, {"kind": "ResourceClaimTemplate", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": name},
                  "spec": {"spec": {"devices": {"requests": [request]}}}})  # fmt: skip


def pod(name: str, scheduler: str = "default-scheduler", template: str = "gpu") -> Tree:
    """A pod with a claim from a template. No kubelet runs, so a deleted pod is removed immediately."""
    return {
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }  # fmt: skip


def items(kube: ApiServer, path: str) -> list[Tree]:
    found: list[Tree] = kube.send_request("GET", path)[1]["items"]
    return found
