"""The admission plugin NodeRestriction: a kubelet changes only its own Node and objects that belong to it.

It completes the Node authorizer (``access.node_authorizer``), which does not know the objects of a request. It applies
to users of the group ``system:nodes``, before the object is validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.node_tokens import audience_problem
from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.certificate_subject import subject_of
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.kinds.pod_admission import MIRROR
from allotment.apiserver.kinds.pod_references import referenced_resource
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.quoting import quote
from allotment.model.trees import Tree

NAME: Final = "NodeRestriction"
_LEASES: Final = "kube-node-lease"
_LEASE_NAME: Final = "can only access node lease with the same name as the requesting node"
_CSI_NODE_NAME: Final = "can only access CSINode with the same name as the requesting node"
#: Labels below kubernetes.io and k8s.io that kubelets set.
_LABELS: Final = frozenset(
    {"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
     "beta.kubernetes.io/arch", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
     "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
     "failure-domain.beta.kubernetes.io/region"}
)  # fmt: skip
_LABEL_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SIGNERS: Final = frozenset({"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"})
#: Fields of the status of volume claims that kubelets change.
_VOLUME_CLAIM_STATUS: Final = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")


class NodeRequest(NamedTuple):
    """A request of a node, and what decides on it."""

    node: str
    attributes: Attributes
    reader: StoreReader
    authorizer: Authorizer
    features: Features

    @property
    def new(self) -> Tree:
        """The new object; empty for a DELETE."""
        return self.attributes.new or {}

    @property
    def old(self) -> Tree:
        """The existing object; empty for a CREATE."""
        return self.attributes.old or {}

    @property
    def operation(self) -> str:
        """CREATE, UPDATE or DELETE."""
        return self.attributes.operation

    @property
    def subject(self) -> str:
        """The node in messages."""
        return f"node {quote(self.node)}"


def restrict(
    node: str, attributes: Attributes, reader: StoreReader, authorizer: Authorizer, features: Features
) -> None:
    """Raise StatusError if a node may not do what it requests. ``node``: empty if its user names none."""
    if not node:
        raise _forbidden(attributes, f"could not determine node from user {quote(attributes.user.name)}")
    by_kind = _BY_BUCKET.get(attributes.kind.bucket)
    if by_kind is not None:
        problem = by_kind(NodeRequest(node, attributes, reader, authorizer, features))
        if problem:
            raise _forbidden(attributes, problem)


def _forbidden(attributes: Attributes, problem: str) -> StatusError:
    metadata = (attributes.new or {}).get("metadata") or {}
    name = attributes.name or metadata.get("generateName") or metadata.get("name") or "Unknown"
    return forbidden(attributes.kind.bucket, name, problem)


def _not_found(kind: str, name: str) -> StatusError:
    """404 of a lookup in Kubernetes' caches, which name the kind in the singular."""
    return api_errors.not_found("", kind, name)


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(request: NodeRequest) -> str:
    subresource = request.attributes.subresource
    if subresource == "status":
        return _pod_status(request)
    if subresource == "eviction":
        return _eviction(request)
    if subresource:
        return f"unexpected pod subresource {quote(subresource)}, only 'status' and 'eviction' are allowed"
    if request.operation == "CREATE":
        return _mirror_pod(request)
    if request.operation == "DELETE":
        is_own = request.old["spec"].get("nodeName") == request.node
        return "" if is_own else f"{request.subject} can only delete pods with spec.nodeName set to itself"
    operation = quote(request.operation)
    return f"unexpected operation {operation}, {request.subject} can only create and delete mirror pods"


def _mirror_pod(request: NodeRequest) -> str:
    metadata: Tree = request.new.get("metadata") or {}
    if MIRROR not in (metadata.get("annotations") or {}):
        return f"pod does not have {quote(MIRROR)} annotation, {request.subject} can only create mirror pods"
    if (request.new.get("spec") or {}).get("nodeName") != request.node:
        return f"{request.subject} can only create pods with spec.nodeName set to itself"
    if problem := _owner_problem(request, metadata.get("ownerReferences") or ()):
        return problem
    resource = referenced_resource(request.new)
    return f"{request.subject} can not create pods that reference {resource}" if resource else ""


def _owner_problem(request: NodeRequest, owners: Sequence[Tree]) -> str:
    """The problem with the owners of a mirror pod, which must be the node. Raises StatusError if there is no Node."""
    subject = request.subject
    if len(owners) > 1:
        return f"{subject} can only create pods with a single owner reference set to itself"
    expected = ("v1", "Node", request.node)
    owner: Tree = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != expected:
        return f"{subject} can only create pods with an owner reference set to itself"
    if not owner.get("controller"):
        return f"{subject} can only create pods with a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion"):
        return f"{subject} must not set blockOwnerDeletion on an owner reference"
    entry = request.reader.get("nodes", "", request.node)
    if entry is None:
        raise _not_found("node", request.node)
    uid, actual = owner.get("uid") or "", entry.tree["metadata"]["uid"]
    return f"node {request.node} UID mismatch: expected {uid} got {actual}" if uid != actual else ""


def _pod_status(request: NodeRequest) -> str:
    if request.operation != "UPDATE":
        return f"unexpected operation {quote(request.operation)}"
    new, old, subject = request.new, request.old, request.subject
    if old["spec"].get("nodeName") != request.node:
        return f"{subject} can only update pod status for pods with spec.nodeName set to itself"
    if ((new.get("metadata") or {}).get("labels") or {}) != (old["metadata"].get("labels") or {}):
        return f"{subject} cannot update labels through pod status"
    for field, text in (
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
    ):
        if ((new.get("status") or {}).get(field) or None) != ((old.get("status") or {}).get(field) or None):
            return f"{subject} cannot update {text}"
    return ""


def _eviction(request: NodeRequest) -> str:
    attributes = request.attributes
    if request.operation != "CREATE":
        return f"unexpected operation {request.operation}"
    entry = request.reader.get("pods", attributes.namespace, attributes.name)
    if entry is None:
        raise _not_found("pod", attributes.name)
    if entry.tree["spec"].get("nodeName") != request.node:
        return f"node {request.node} can only evict pods with spec.nodeName set to itself"
    return ""


# --- nodes and what belongs to them ----------------------------------------------------------------------------------


def _node(request: NodeRequest) -> str:
    attributes, subject = request.attributes, request.subject
    name = attributes.name or (request.new.get("metadata") or {}).get("name") or ""
    if name != request.node:
        return f"{subject} is not allowed to modify node {quote(name)}"
    if request.operation == "DELETE":
        return ""
    new, old = request.new.get("metadata") or {}, request.old.get("metadata") or {}
    labels = ", ".join(_forbidden_labels(new.get("labels") or {}, old.get("labels") or {}))
    spec, old_spec = request.new.get("spec") or {}, request.old.get("spec") or {}
    source = spec.get("configSource")
    if request.operation == "CREATE":
        if source is not None:
            return f"{subject} is not allowed to create pods with a non-nil configSource"
        return f"{subject} is not allowed to set the following labels: {labels}" if labels else ""
    if source is not None and source != old_spec.get("configSource"):
        return f"{subject} is not allowed to update configSource to a new non-nil configSource"
    if (spec.get("taints") or []) != (old_spec.get("taints") or []):
        return f"{subject} is not allowed to modify taints"
    if (new.get("ownerReferences") or []) != (old.get("ownerReferences") or []):
        return f"{subject} is not allowed to modify ownerReferences"
    return f"is not allowed to modify labels: {labels}" if labels else ""


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """The changed labels that only administrators may set, sorted."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(label: str) -> bool:
    """Whether a kubelet may not set a label.

    >>> [_is_forbidden(key) for key in ("rack", "kubernetes.io/os", "kubernetes.io/x", "a.node.kubernetes.io/x")]
    [False, False, True, False]
    """
    domain = label.partition("/")[0] if "/" in label else ""
    if _is_in(domain, "node-restriction.kubernetes.io"):
        return True
    if not (_is_in(domain, "kubernetes.io") or _is_in(domain, "k8s.io")):
        return False
    return label not in _LABELS and not any(_is_in(domain, allowed) for allowed in _LABEL_DOMAINS)


def _is_in(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _lease(request: NodeRequest) -> str:
    if request.attributes.namespace != _LEASES:
        return f"can only access leases in the {quote(_LEASES)} system namespace"
    return "" if _name(request) == request.node else _LEASE_NAME


def _csi_node(request: NodeRequest) -> str:
    return "" if _name(request) == request.node else _CSI_NODE_NAME


def _name(request: NodeRequest) -> str:
    if request.operation == "CREATE":
        return str((request.new.get("metadata") or {}).get("name") or "")
    return request.attributes.name


def _resource_slice(request: NodeRequest) -> str:
    for operation, verb, tree in (("CREATE", "create", request.new), ("DELETE", "delete", request.old)):
        if request.operation == operation and (tree.get("spec") or {}).get("nodeName") != request.node:
            return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
    return ""


def _volume_claim(request: NodeRequest) -> str:
    if request.attributes.subresource != "status":
        return "may only update PVC status"
    if request.operation != "UPDATE":
        return f"unexpected operation {quote(request.operation)}"
    if _without_changeable(request.new) != _without_changeable(request.old):
        return f"{request.subject} is not allowed to update fields other than status.quantity and status.conditions"
    return ""


def _without_changeable(claim: Tree) -> Tree:
    ignored = ("managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in claim["metadata"].items() if key not in ignored and value}
    status = {
        key: value for key, value in (claim.get("status") or {}).items() if key not in _VOLUME_CLAIM_STATUS and value
    }
    return {"metadata": metadata, "spec": claim.get("spec"), "status": status}


# --- tokens and certificates -----------------------------------------------------------------------------------------


def _service_account(request: NodeRequest) -> str:
    attributes = request.attributes
    if request.operation != "CREATE" or attributes.subresource != "token":
        return ""
    spec: Tree = request.new.get("spec") or {}
    reference: Tree = spec.get("boundObjectRef") or {}
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    entry = request.reader.get("pods", attributes.namespace, reference["name"])
    if entry is None:
        raise _not_found("pod", reference["name"])
    if reference["uid"] != entry.tree["metadata"]["uid"]:
        return (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The object "
            "might have been deleted and then recreated"
        )
    if entry.tree["spec"].get("nodeName") != request.node:
        return "node requested token bound to a pod scheduled on a different node"
    return audience_problem(
        attributes, spec.get("audiences") or (), entry.tree, request.reader, request.authorizer, request.features
    )


def _signing_request(request: NodeRequest) -> str:
    spec: Tree = request.new.get("spec") or {}
    if request.operation != "CREATE" or spec.get("signerName") not in _SIGNERS:
        return ""
    subject = subject_of(spec.get("request") or "")
    if subject is None:
        return "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    expected = f"system:node:{request.node}"
    return "" if subject.common_name == expected else f"can only create a node CSR with CN={expected}"


_BY_BUCKET: Final[Mapping[str, Callable[[NodeRequest], str]]] = {
    "certificatesigningrequests.certificates.k8s.io": _signing_request,
    "csinodes.storage.k8s.io": _csi_node,
    "leases.coordination.k8s.io": _lease,
    "nodes": _node,
    "persistentvolumeclaims": _volume_claim,
    "pods": _pod,
    "resourceslices.resource.k8s.io": _resource_slice,
    "serviceaccounts": _service_account,
}
