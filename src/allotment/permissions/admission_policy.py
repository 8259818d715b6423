"""A ValidatingAdmissionPolicy that restricts a driver to the ResourceSlices of its own node.

A role can only allow a driver to write all slices or none. The token of a pod contains the name of its node, which the
policy compares with the node of the slice, so that an attacker on one node cannot publish devices of another node. The
policy applies only to the driver's service account.
"""

from __future__ import annotations

from typing import Final

from allotment.model.trees import Tree
from allotment.permissions.roles import NAMESPACE, labels_of, name_of
from allotment.permissions.rule import ComponentPermissions

_GROUP: Final = "admissionregistration.k8s.io"
_NODE: Final = "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"
_SLICE: Final = "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')"


def own_node_policy(driver: ComponentPermissions, *, namespace: str = NAMESPACE, account: str = "") -> list[Tree]:
    """The policy and its binding for the service account of a driver."""
    user = f"system:serviceaccount:{namespace}:{account or name_of(driver)}"
    metadata: Tree = {"name": f"{name_of(driver)}-own-node", "labels": labels_of(driver)}
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1", "v1beta2", "v1beta1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["resourceslices"],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "is-the-driver", "expression": f"request.userInfo.username == '{user}'"}],
        "variables": [{"name": "own", "expression": _NODE}, {"name": "slices", "expression": _SLICE}],
        "validations": [
            {
                "expression": "variables.own != ''",
                "message": "the token does not belong to a pod on a node, so it may not write slices",
            },
            {
                "expression": "variables.own == variables.slices",
                "messageExpression": "'the driver on node ' + variables.own + ' may write only slices of that node, "
                "not of ' + (variables.slices == '' ? 'all nodes' : 'node ' + variables.slices)",
            },
        ],
    }
    binding = {"policyName": metadata["name"], "validationActions": ["Deny"]}
    return [
        {"apiVersion": f"{_GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": f"{_GROUP}/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": dict(metadata),
            "spec": binding,
        },
    ]  # fmt: skip
