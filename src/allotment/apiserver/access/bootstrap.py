"""Objects that every cluster starts with: namespaces, roles, priority classes, the ``kubernetes`` service.

At startup only the missing ones are created; existing ones stay, for users may have changed them. Each namespace also
gets two objects of its own, created with it, so that its first pod can be admitted immediately.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Final

import msgspec

from allotment.apiserver.access.default_roles import default_bindings, default_roles
from allotment.model.features import Features
from allotment.model.trees import Tree

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVICE_CIDR: Final = "10.96.0.0/16"
KUBERNETES_SERVICE_IP: Final = "10.96.0.1"
#: The machine that runs the lab, as nodes see it: the gateway of their network. Endpoints cannot name the loopback
#: address on which the API server listens.
MACHINE: Final = "172.18.0.1"
_PRIORITY_CLASSES: Final = (
    ("system-node-critical", 2_000_001_000,
     "Used for system critical pods that must not be moved from their current node."),
    ("system-cluster-critical", 2_000_000_000,
     "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
)  # fmt: skip
_CA_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def cluster_objects(features: Features, *, port: int) -> Iterator[Tree]:
    """Yield manifests of the cluster's initial objects in creation order. ``port``: port of the API server."""
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    yield from default_roles(features)
    yield from default_bindings(features)
    for name, value, description in _PRIORITY_CLASSES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [SERVICE_CIDR]},
    }
    yield from _flow_control_objects()
    labels = {"component": "apiserver", "provider": "kubernetes"}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": KUBERNETES_SERVICE_IP, "ports": [{"name": "https", "port": 443, "targetPort": port}]},
    }
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    yield {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": skip},
        "subsets": [{"addresses": [{"ip": MACHINE}], "ports": ports}],
    }
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [MACHINE], "conditions": {"ready": True}}],
        "ports": ports,
    }  # fmt: skip


def _flow_control_objects() -> Iterator[Tree]:
    """Yield the PriorityLevelConfigurations and FlowSchemas of kube-apiserver."""
    file = resources.files("allotment.apiserver.access").joinpath("data/flow_control.json")
    for item in msgspec.json.decode(file.read_bytes()):
        metadata = {"name": item["name"], "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
        yield {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": item["kind"], "metadata": metadata,
            "spec": item["spec"],
        }  # fmt: skip


def authentication_config(authority: str, proxy_authority: str, proxy_name: str) -> Tree:
    """The ConfigMap in which aggregated API servers find the authorities (PEM) of clients and of this server.

    ``proxy_name``: the name in the certificate that this server shows to them.
    """
    data = {
        "client-ca-file": authority, "requestheader-client-ca-file": proxy_authority,
        "requestheader-allowed-names": f'["{proxy_name}"]', "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]', "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }  # fmt: skip
    metadata = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def token_tracking(date: str) -> Tree:
    """The ConfigMap with the date since which the use of tokens in Secrets is recorded."""
    metadata = {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"since": date}}


def namespace_objects(namespace: str, ca_certificate: str) -> Iterator[Tree]:
    """Yield the initial objects of a namespace: the default service account and the root CA ConfigMap."""
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kube-root-ca.crt",
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": _CA_DESCRIPTION},
        },
        "data": {"ca.crt": ca_certificate},
    }
