"""The binding and eviction subresources of pods.

The functions return the changed objects, which the verbs write. The response is a Status of success.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.kinds.admission_errors import forbidden, too_many_requests
from allotment.apiserver.kinds.field_validation import selector_matches
from allotment.apiserver.kinds.kind import Write
from allotment.apiserver.kinds.topology_labels import with_topology_labels
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, not_supported, required, summary

_BUDGETS: Final = "poddisruptionbudgets.policy"
_BUDGET_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_AFTER_SECONDS: Final = 10
_MAX_DISRUPTED_PODS: Final = 2000


def with_condition(pod: Tree, condition: Tree, now: str) -> Tree:
    """The pod with a condition set; lastTransitionTime changes only with the status."""
    status: Tree = pod.get("status") or {}
    conditions: list[Tree] = list(status.get("conditions") or ())
    old = next((item for item in conditions if item.get("type") == condition["type"]), None)
    unchanged = old is not None and old.get("status") == condition["status"]
    transition_time = (old or {}).get("lastTransitionTime") if unchanged else now
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": transition_time}
    conditions = [item for item in conditions if item is not old]
    position = len(conditions) if old is None else (status.get("conditions") or []).index(old)
    conditions.insert(position, new)
    return {**pod, "status": {**status, "conditions": conditions}}


def bind(pod: Tree | None, name: str, binding: Tree, write: Write) -> Tree:
    """The pod with the node of a Binding set; ``pod`` is the stored pod called ``name``, if it exists."""
    _check_name(binding, name, "Binding")
    target = binding.get("target") or {}
    errors: list[FieldError] = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise api_errors.unclassified(summary(errors))
    if pod is None:
        raise api_errors.not_found("", "pods", name)
    metadata, spec = pod["metadata"], pod["spec"]
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != metadata.get("uid"):
        reason = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata.get('uid')}"
        raise api_errors.conflict("", "pods/binding", name, reason)
    if metadata.get("deletionTimestamp"):
        reason = f"pod {name} is being deleted, cannot be assigned to a host"
        raise api_errors.conflict("", "pods/binding", name, reason)
    if spec.get("nodeName"):
        reason = f"pod {name} is already assigned to node {quote(spec['nodeName'])}"
        raise api_errors.conflict("", "pods/binding", name, reason)
    if spec.get("schedulingGates"):
        raise api_errors.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    bound = {**pod, "spec": {**spec, "nodeName": target["name"]}}
    requested: Tree = binding.get("metadata") or {}
    if target.get("kind") == "Node":
        requested = with_topology_labels(requested, target["name"], write)
    parts = ("annotations", "labels") if write.features.since("1.35") else ("annotations",)
    added = {part: {**(metadata.get(part) or {}), **requested[part]} for part in parts if requested.get(part)}
    if added:
        bound["metadata"] = {**metadata, **added}
    bound = with_condition(bound, {"type": "PodScheduled", "status": "True"}, write.now)
    # KEP-5278: nominatedNodeName is cleared on binding.
    bound["status"].pop("nominatedNodeName", None)
    return bound


def _check_name(body: Tree, name: str, kind: str) -> None:
    if ((body.get("metadata") or {}).get("name") or "") != name:
        raise api_errors.bad_request(f"name in URL does not match name in {kind} object")


class Eviction(NamedTuple):
    """The result of an eviction: the pod to delete, with its last condition, and the budget to update."""

    pod: Tree
    options: Tree
    budget: Tree | None


def evict(pod: Tree | None, name: str, eviction: Tree, write: Write) -> Eviction:
    """Check an eviction against the pod's disruption budget. Raises StatusError if it is not allowed."""
    _check_name(eviction, name, "Eviction")
    if pod is None:
        raise api_errors.not_found("", "pods", name)
    evicted = with_condition(
        pod,
        {
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
        write.now,
    )  # fmt: skip
    return Eviction(evicted, eviction.get("deleteOptions") or {}, _charged_budget(pod, name, write))


def _charged_budget(pod: Tree, name: str, write: Write) -> Tree | None:
    """The budget with the disruption counted; None if the eviction needs no budget."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        entry.tree
        for entry in write.reader.list(_BUDGETS, write.namespace)
        if selector_matches((entry.tree.get("spec") or {}).get("selector"), labels)
    ]
    if len(budgets) > 1:
        raise api_errors.internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets or _is_evictable_unready_pod(pod, budgets[0]):
        return None
    return _charge(budgets[0], name, write)


def _is_evictable_unready_pod(pod: Tree, budget: Tree) -> bool:
    """Whether a pod is not ready and the budget is met without it or always allows its eviction (KEP-3017)."""
    status, spec = budget.get("status") or {}, budget.get("spec") or {}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions):
        return False
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _charge(budget: Tree, name: str, write: Write) -> Tree:
    status, title = budget.get("status") or {}, budget["metadata"]["name"]
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        message = f"The disruption budget {title} is still being processed by the server."
        raise too_many_requests(
            _BUDGET_VIOLATED, {"reason": "DisruptionBudget", "message": message}, _RETRY_AFTER_SECONDS
        )
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise forbidden(_BUDGETS, title, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS:
        raise forbidden(
            _BUDGETS, title, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if allowed == 0:
        message = (
            f"The disruption budget {title} needs {status.get('desiredHealthy') or 0} healthy pods and has "
            f"{status.get('currentHealthy') or 0} currently"
        )
        raise too_many_requests(_BUDGET_VIOLATED, {"reason": "DisruptionBudget", "message": message}, 0)
    disrupted = {**(status.get("disruptedPods") or {}), name: write.now}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}
