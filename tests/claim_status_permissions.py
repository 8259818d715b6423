"""Writes to a claim's status by a service account, and kube-apiserver's answers, for the lab and for Kubernetes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from allotment.model.trees import Tree

NAMESPACE: Final = "shop"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
STATUS: Final = f"{CLAIMS}/c/status"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:driver"
#: The headers of a service account, and those of its pod on a node, as in the pod's token.
ACCOUNT: Final = {"Impersonate-User": _ACCOUNT}
ON_NODE: Final = {**ACCOUNT, "Impersonate-Extra-Authentication.kubernetes.io%2Fnode-Name": "n1"}
ADMINISTRATOR: Final[dict[str, str]] = {}

_DEVICES: Final = [{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]
_RESULT: Final = {**_DEVICES[0], "request": "r"}
_NODE: Final = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
_ALLOCATION: Final = {
    "status": {
        "allocation": {"devices": {"results": [_RESULT]}, "nodeSelector": {"nodeSelectorTerms": [_NODE]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    }
}
_READY: Final = {"status": {"devices": [{**_DEVICES[0], "data": {"ready": True}}]}}
_REMOVED: Final[Tree] = {"status": {"devices": None}}


def _role(name: str, *rules: tuple[list[str], str, list[str]]) -> tuple[tuple[str, Tree], ...]:
    """A ClusterRole with rules (verbs, resource, names), and its binding to the service account."""
    trees = [
        {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs, "resourceNames": names}
        for verbs, resource, names in rules
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "User", "name": _ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"}
    return (
        (f"{_ROLES}/clusterroles", {"metadata": {"name": name}, "rules": trees}),
        (f"{_ROLES}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}),
    )


SETUP: Final[tuple[tuple[str, Tree], ...]] = (
    (CLAIMS, {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}},
    }),
    *_role("status", (["get"], "resourceclaims", []), (["update", "patch"], "resourceclaims/status", [])),
)  # fmt: skip
#: Permission to report devices on the node of the service account's pod.
OWN_NODE: Final = _role("own-node", (["associated-node:patch"], "resourceclaims/driver", ["gpu.example.com"]))
#: Permission to allocate.
BINDING: Final = _role("binding", (["patch"], "resourceclaims/binding", []))


class Step(NamedTuple):
    """Objects that are created, then a merge patch of the claim's status.

    ``field``, ``message``: the refused field, and the reason; empty if the write is allowed.
    """

    headers: dict[str, str]
    patch: dict[str, Any]
    field: str = ""
    message: str = ""
    before: tuple[tuple[str, Tree], ...] = ()


_BY_BINDING: Final = (
    'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" '
    f'permission: resourceclaims.resource.k8s.io is forbidden: User "{_ACCOUNT}" cannot patch resource '
    '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
)
_BY_DRIVER: Final = (
    'changing status.devices requires resource="resourceclaims/driver", verb="[{}]" permission: '
    f'resourceclaims.resource.k8s.io "gpu.example.com" is forbidden: User "{_ACCOUNT}" cannot {{}} resource '
    f'"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "{NAMESPACE}"'
)
_ANY_NODE: Final = _BY_DRIVER.format("arbitrary-node:patch", "arbitrary-node:patch")
_EITHER: Final = _BY_DRIVER.format("associated-node:patch arbitrary-node:patch", "associated-node:patch")
STEPS: Final = (
    Step(ACCOUNT, _ALLOCATION, "status.allocation", _BY_BINDING),
    Step(ACCOUNT, _ALLOCATION, before=BINDING),
    Step(ACCOUNT, _READY, "status.devices", _ANY_NODE),
    Step(ON_NODE, _READY, "status.devices", _EITHER),
    Step(ON_NODE, _READY, before=OWN_NODE),
    Step(ACCOUNT, _REMOVED, "status.devices", _ANY_NODE),
    Step(ADMINISTRATOR, _REMOVED),
)


def assert_answer(step: Step, code: int, body: Tree) -> None:
    """The write was refused for the step's reason, or allowed."""
    if not step.message:
        assert code == 200, body
        return
    causes = [(cause["field"], cause["message"]) for cause in body["details"]["causes"]]
    assert (code, causes) == (422, [(step.field, f"Forbidden: {step.message}")])
