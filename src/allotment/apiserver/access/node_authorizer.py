"""The Node authorizer: what kubelets, the users ``system:node:NAME`` of the group ``system:nodes``, can do.

A kubelet accesses its own Node, Lease and CSINode, its pods, and what these refer to. For other kinds, the static rules
of the role ``system:node`` apply. What the authorizer cannot decide, because it does not know the object, is decided by
the admission plugin NodeRestriction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.access.node_relations import is_related
from allotment.apiserver.access.rbac import PolicyRule
from allotment.apiserver.kinds.kind import StoreReader, User
from allotment.apiserver.reads.selectors import exact_value
from allotment.model.quoting import quote

NODES_GROUP: Final = "system:nodes"
_PREFIX: Final = "system:node:"
_LEASES: Final = "kube-node-lease"


class AccessAttributes(NamedTuple):
    """The objects that a request accesses. ``fields``: the field selector of a request for a collection."""

    verb: str
    bucket: str
    subresource: str
    namespace: str
    name: str
    fields: str = ""


#: The reason of a refusal, which may be empty; None if the request is allowed.
Decision = str | None


def node_of(user: User) -> str | None:
    """The name of the node that a user is, which may be empty; None for other users.

    >>> node_of(User("system:node:n1", ("system:nodes",)))
    'n1'
    """
    if not user.name.startswith(_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(_PREFIX)


def decide(
    user: User, node: str, request: AccessAttributes, rules: Sequence[PolicyRule], reader: StoreReader
) -> Decision:
    """Decide on a node's request. ``rules``: those of the role ``system:node``."""
    if not node:
        return f"unknown node for user {quote(user.name)}"
    by_kind = _BY_BUCKET.get(request.bucket)
    if by_kind is not None:
        return by_kind(node, request, reader)
    resource, _, group = request.bucket.partition(".")
    if any(rule.allows(request.verb, group, resource, request.subresource, request.name) for rule in rules):
        return None
    return ""


def _related(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if not request.name:
        return "No Object name found"
    if is_related(reader, node, request.bucket, request.namespace, request.name):
        return None
    return f"no relationship found between node '{node}' and this object"


def _read_one(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    """Secrets, ConfigMaps, service accounts: get, and list and watch of one object."""
    if request.verb not in ("get", "list", "watch"):
        return "can only read resources of this type"
    if request.subresource:
        return "cannot read subresource"
    if not request.namespace:
        return "can only read namespaced object of this type"
    return _related(node, request, reader)


def _get(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.verb != "get":
        return "can only get individual resources of this type"
    if request.subresource:
        return "cannot get subresource"
    return _related(node, request, reader)


def _volume_claim(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource != "status":
        return _get(node, request, reader)
    if request.verb not in ("update", "patch"):
        return "can only get/update/patch this type"
    return _related(node, request, reader)


def _service_account(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.verb == "get" and not request.subresource:
        return _read_one(node, request, reader)
    if request.verb != "create" or not request.name:
        return "can only create tokens for individual service accounts"
    if request.subresource != "token":
        return "can only create token subresource of serviceaccount"
    return _related(node, request, reader)


def _lease(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.verb not in ("get", "create", "update", "patch", "delete"):
        return "can only get, create, update, patch, or delete a node lease"
    if request.namespace != _LEASES:
        return f"can only access leases in the {quote(_LEASES)} system namespace"
    if request.verb != "create" and request.name != node:
        return "can only access node lease with the same name as the requesting node"
    return None


def _csi_node(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource:
        return "cannot authorize CSINode subresources"
    if request.verb not in ("get", "create", "update", "patch", "delete"):
        return "can only get, create, update, patch, or delete a CSINode"
    if request.verb != "create" and request.name != node:
        return "can only access CSINode with the same name as the requesting node"
    return None


def _resource_slice(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource:
        return "cannot authorize ResourceSlice subresources"
    if request.verb == "create":
        return None
    if request.verb in ("get", "update", "patch", "delete"):
        return _related(node, request, reader)
    if request.verb in ("watch", "list", "deletecollection"):
        if exact_value(request.fields, "spec.nodeName") == node:
            return None
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"
    return (
        "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, "
        "deletecollection"
    )


def _certificate_request(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource:
        return "nodes may not access the status subresource of PodCertificateRequests"
    if request.verb == "create":
        return None
    if request.verb == "get":
        return _related(node, request, reader)
    if request.verb in ("list", "watch"):
        if exact_value(request.fields, "spec.nodeName") == node:
            return None
        return "can only list/watch podcertificaterequests with nodeName field selector"
    return f"nodes may not {request.verb} podcertificaterequests"


def _node(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource == "status":
        return None if request.verb in ("update", "patch") else ""
    if request.subresource:
        return ""
    if request.verb in ("create", "update", "patch"):
        return None
    if request.verb not in ("get", "list", "watch"):
        return ""
    if request.name == node:
        return None
    if not request.name:
        return f"node '{node}' cannot read all nodes, only its own Node object"
    return f"node '{node}' cannot read '{request.name}', only its own Node object"


def _pod(node: str, request: AccessAttributes, reader: StoreReader) -> Decision:
    if request.subresource == "status":
        return None if request.verb in ("update", "patch") else ""
    if request.subresource == "eviction":
        return None if request.verb == "create" else ""
    if request.subresource:
        return ""
    if request.verb in ("create", "delete"):
        return None
    if request.verb == "get":
        return _related(node, request, reader)
    if request.verb not in ("list", "watch"):
        return ""
    if exact_value(request.fields, "spec.nodeName") == node:
        return None
    return (
        _related(node, request, reader)
        if request.name
        else "can only list/watch pods with spec.nodeName field selector"
    )


_BY_BUCKET: Final[Mapping[str, Callable[[str, AccessAttributes, StoreReader], Decision]]] = {
    "configmaps": _read_one,
    "csinodes.storage.k8s.io": _csi_node,
    "leases.coordination.k8s.io": _lease,
    "nodes": _node,
    "persistentvolumeclaims": _volume_claim,
    "persistentvolumes": _get,
    "podcertificaterequests.certificates.k8s.io": _certificate_request,
    "pods": _pod,
    "resourceclaims.resource.k8s.io": _get,
    "resourceslices.resource.k8s.io": _resource_slice,
    "secrets": _read_one,
    "serviceaccounts": _service_account,
    "volumeattachments.storage.k8s.io": _get,
}
