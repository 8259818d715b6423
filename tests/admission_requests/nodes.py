"""Requests of nodes, for the Node authorizer and the plugin NodeRestriction."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.trees import Tree
from tests.admission_requests.request import CORE, Request, certificate_request, container, namespace, pod

_N1: Final = "system:node:n1"
_PODS: Final = f"{CORE}/kubelets/pods"
_OWN: Final = {"nodeName": "n1"}


def _as_node(
    method: str, path: str, body: Tree | None = None, code: int = 403, message: str = "", user: str = _N1
) -> Request:
    return Request(method, path, body, code, message, user=user)


def _denied(verb: str, path: str, reason: str = "", *, group: str = "", subject: str = "", user: str = _N1) -> Request:
    """A request that the Node authorizer does not allow. ``subject``: the namespace of a namespace."""
    parts = path.partition("?")[0].split("/")[3 if not group else 4 :]
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else ""
    resource, *names = parts[2:] if namespace else parts
    target = f"{resource}.{group}" if group else resource
    named = f'{target} "{names[0]}"' if names else target
    scope = f'in the namespace "{namespace or subject}"' if namespace or subject else "at the cluster scope"
    text = f'{named} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {scope}'
    method = {"delete": "DELETE", "patch": "PATCH"}.get(verb, "GET")
    body: Tree | None = {} if method == "PATCH" else None
    return _as_node(method, path, body, 403, f"{text}: {{node}}{reason}" if reason else text, user)


def _mirror(name: str, **spec: Any) -> Tree:
    return {
        "metadata": {"name": name, "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"containers": [container()], **spec},
    }


def _owned(tree: Tree, **owner: Any) -> Tree:
    owners = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", **owner}]
    return {**tree, "metadata": {**tree["metadata"], "ownerReferences": owners}}


_SETUP: Final = (
    namespace("kubelets"),
    *(Request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"rack": "a"}}}) for name in ("n1", "n2")),
    *(
        Request("POST", f"{CORE}/kubelets/{kind}", {"metadata": {"name": name}})
        for kind, name in (
            ("secrets", "mounted"), ("secrets", "variable"), ("secrets", "hidden"), ("configmaps", "projected"),
            ("serviceaccounts", "robot"),
        )
    ),
    Request("POST", f"{CORE}/kubelets/persistentvolumeclaims", {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }),
    Request("POST", _PODS, pod(
        "own", **_OWN, serviceAccountName="robot",
        volumes=[
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        ],
        containers=[container(env=[{
            "name": "A", "valueFrom": {"secretKeyRef": {"name": "variable", "key": "a", "optional": True}},
        }])],
    )),
    Request("POST", _PODS, pod("other", nodeName="n2")),
)  # fmt: skip

_UNRELATED: Final = "no relationship found between node 'n1' and this object"
_DEVICES: Final = "resource.k8s.io"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_SLICES: Final = f"/apis/{_DEVICES}/v1/resourceslices"

_AUTHORIZED: Final = (
    *(
        _as_node("GET", f"{CORE}/kubelets/{path}", code=200)
        for path in (
            "secrets/mounted", "secrets/variable", "configmaps/projected", "pods/own", "persistentvolumeclaims/data",
            "serviceaccounts/robot",
            "secrets?fieldSelector=metadata.name%3Dmounted", "pods?fieldSelector=spec.nodeName%3Dn1",
        )
    ),
    _denied("get", f"{CORE}/kubelets/secrets/hidden", _UNRELATED),
    _denied("list", f"{CORE}/kubelets/secrets", "No Object name found"),
    _denied("list", "/api/v1/secrets", "can only read namespaced object of this type"),
    _denied("delete", f"{CORE}/kubelets/secrets/mounted", "can only read resources of this type"),
    _denied("get", f"{CORE}/kubelets/pods/other", _UNRELATED),
    _denied("list", "/api/v1/pods", "can only list/watch pods with spec.nodeName field selector"),
    _denied("list", "/api/v1/persistentvolumes", "can only get individual resources of this type"),
    _as_node("GET", "/api/v1/nodes/n1", code=200),
    _denied("get", "/api/v1/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"),
    _denied("list", "/api/v1/nodes", "node 'n1' cannot read all nodes, only its own Node object"),
    _denied("delete", "/api/v1/nodes/n1"),
    _denied("get", f"{CORE}/kubelets/serviceaccounts/default", _UNRELATED),
    _denied("get", f"{CORE}/kubelets", subject="kubelets"),
    _as_node("GET", "/api/v1/services", code=200),
    _denied("patch", f"{CORE}/kubelets/serviceaccounts/robot",
            "can only create tokens for individual service accounts"),
    _denied("list", _SLICES, "can only list/watch/deletecollection resourceslices with nodeName field selector",
            group=_DEVICES),
    _as_node("GET", f"{_SLICES}?fieldSelector=spec.nodeName%3Dn1", code=200),
    _denied("get", f"{_LEASES}/n2", "can only access node lease with the same name as the requesting node",
            group="coordination.k8s.io"),
    _denied("get", "/api/v1/nodes/n1", 'unknown node for user "system:node:"', user="system:node:"),
)  # fmt: skip

_NODE: Final = 'node "n1"'
_CLAIM: Final = f"{CORE}/kubelets/persistentvolumeclaims/data"
_TOKENS: Final = f"{CORE}/kubelets/serviceaccounts/robot/token"
_SIGNING: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_OTHER_CLAIM: Final = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}
_POOL: Final = {"name": "n2", "generation": 1, "resourceSliceCount": 1}


def _restricted(method: str, path: str, body: Tree | None, subject: str, problem: str, user: str = _N1) -> Request:
    """A request that NodeRestriction rejects; ``subject``: resource and name."""
    resource, _, name = subject.partition(" ")
    return _as_node(method, path, body, 403, f'{resource} "{name}" is forbidden: {problem}', user)


def _token(**reference: str) -> Tree:
    return {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **reference}}}


def _signing(name: str, request: str) -> Tree:
    spec = {"request": request, "signerName": "kubernetes.io/kubelet-serving"}
    return {"metadata": {"name": name}, "spec": {**spec, "usages": ["digital signature", "server auth"]}}


_RESTRICTED_NODES: Final = (
    _as_node("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}, 200),
    _as_node("PATCH", "/api/v1/nodes/n1/status", {"status": {"capacity": {"cpu": "8"}}}, 200),
    _restricted(
        "PATCH", "/api/v1/nodes/n1",
        {"metadata": {"labels": {"node-role.kubernetes.io/x": "", "node-restriction.kubernetes.io/a": ""}}}, "nodes n1",
        "is not allowed to modify labels: node-restriction.kubernetes.io/a, node-role.kubernetes.io/x",
    ),
    _restricted(
        "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": []}}, "nodes n1", f"{_NODE} is not allowed to modify taints"
    ),
    _restricted(
        "PATCH", "/api/v1/nodes/n2", {"metadata": {"labels": {"rack": "b"}}}, "nodes n2",
        f'{_NODE} is not allowed to modify node "n2"',
    ),
    _restricted(
        "POST", "/api/v1/nodes", {"metadata": {"name": "n3"}}, "nodes n3",
        f'{_NODE} is not allowed to modify node "n3"',
    ),
    _restricted(
        "POST", "/api/v1/nodes", {"metadata": {"name": "n4", "labels": {"a.k8s.io/b": "c"}}}, "nodes n4",
        'node "n4" is not allowed to set the following labels: a.k8s.io/b', "system:node:n4",
    ),
    _as_node("POST", "/api/v1/nodes", {"metadata": {"name": "n4"}}, 201, user="system:node:n4"),
)  # fmt: skip

_RESTRICTED_PODS: Final = (
    _restricted(
        "POST", _PODS, pod("p", **_OWN), "pods p",
        f'pod does not have "kubernetes.io/config.mirror" annotation, {_NODE} can only create mirror pods',
    ),
    _restricted(
        "POST", _PODS, _mirror("p", nodeName="n2"), "pods p",
        f"{_NODE} can only create pods with spec.nodeName set to itself",
    ),
    _restricted(
        "POST", _PODS, _mirror("p", **_OWN), "pods p",
        f"{_NODE} can only create pods with an owner reference set to itself",
    ),
    _restricted(
        "POST", _PODS, _owned(_mirror("p", **_OWN)), "pods p",
        f"{_NODE} can only create pods with a controller owner reference set to itself",
    ),
    _restricted(
        "POST", _PODS, _owned(_mirror("p", **_OWN), controller=True, blockOwnerDeletion=True), "pods p",
        f"{_NODE} must not set blockOwnerDeletion on an owner reference",
    ),
    _as_node(
        "POST", _PODS, _owned(_mirror("p", nodeName="n9"), controller=True, name="n9"), 404, 'node "n9" not found',
        "system:node:n9",
    ),
    _as_node("PATCH", f"{_PODS}/own/status", {"status": {"phase": "Running"}}, 200),
    _restricted(
        "PATCH", f"{_PODS}/own/status", {"metadata": {"labels": {"a": "b"}}}, "pods own",
        f"{_NODE} cannot update labels through pod status",
    ),
    _restricted(
        "PATCH", f"{_PODS}/own/status", {"status": _OTHER_CLAIM}, "pods own",
        f"{_NODE} cannot update resource claim statues",
    ),
    _restricted(
        "PATCH", f"{_PODS}/other/status", {"status": {"phase": "Running"}}, "pods other",
        f"{_NODE} can only update pod status for pods with spec.nodeName set to itself",
    ),
    _restricted(
        "POST", f"{_PODS}/other/eviction", {"metadata": {"name": "other"}}, "pods other",
        "node n1 can only evict pods with spec.nodeName set to itself",
    ),
    _as_node("POST", f"{_PODS}/ghost/eviction", {"metadata": {"name": "ghost"}}, 404, 'pod "ghost" not found'),
    _restricted(
        "DELETE", f"{_PODS}/other", None, "pods other",
        f"{_NODE} can only delete pods with spec.nodeName set to itself",
    ),
)  # fmt: skip

_RESTRICTED_OBJECTS: Final = (
    _restricted(
        "POST", _LEASES, {"metadata": {"name": "n2"}}, "leases.coordination.k8s.io n2",
        "can only access node lease with the same name as the requesting node",
    ),
    _as_node("POST", _LEASES, {"metadata": {"name": "n1"}}, 201),
    _restricted(
        "POST", "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n2"}, "spec": {"drivers": []}},
        "csinodes.storage.k8s.io n2", "can only access CSINode with the same name as the requesting node",
    ),
    _restricted(
        "POST", _SLICES, {"metadata": {"name": "s"}, "spec": {"driver": "d.io", "nodeName": "n2", "pool": _POOL}},
        "resourceslices.resource.k8s.io s",
        "can only create ResourceSlice with the same NodeName as the requesting node",
    ),
    _as_node("PATCH", f"{_CLAIM}/status", {"status": {"capacity": {"storage": "2Gi"}}}, 200),
    _restricted("POST", _TOKENS, {}, "serviceaccounts robot", "node requested token not bound to a pod"),
    _restricted(
        "POST", _TOKENS, _token(name="own"), "serviceaccounts robot",
        "node requested token with a pod binding without a uid",
    ),
    _restricted(
        "POST", _TOKENS, _token(name="own", uid="u"), "serviceaccounts robot",
        "the UID in the bound object reference (u) does not match the UID in record. The object might have been "
        "deleted and then recreated",
    ),
    _as_node("POST", _TOKENS, _token(name="ghost", uid="u"), 404, 'pod "ghost" not found'),
    _restricted(
        "POST", _SIGNING, _signing("serving", certificate_request("system:node:n2", "system:nodes")),
        "certificatesigningrequests.certificates.k8s.io serving", "can only create a node CSR with CN=system:node:n1",
    ),
    _as_node("POST", _SIGNING, _signing("own", certificate_request(_N1, "system:nodes")), 201),
    _as_node("DELETE", f"{_PODS}/own", None, 200),
)  # fmt: skip

NODES: Final = (*_SETUP, *_AUTHORIZED, *_RESTRICTED_NODES, *_RESTRICTED_PODS, *_RESTRICTED_OBJECTS)
