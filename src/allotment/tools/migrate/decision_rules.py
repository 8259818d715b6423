"""The rules that decide how a workload is migrated. Each rule returns an action or None; the first action wins.

A class can serve a request that is only a number of devices, without any change to the manifest (KEP-5004). A manifest
is therefore changed only if the claim adds something: a GPU model, a profile, an amount, or one GPU for several
containers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.model.features import on_by_default_since
from allotment.tools.migrate.actions import (
    EXTENDED,
    SEVERAL,
    Action,
    WorkloadCase,
    is_unwritable,
    keep_manifest,
    plan_for,
    serve_by_class,
    use_template,
)
from allotment.tools.migrate.decision import Decision, Needs
from allotment.tools.migrate.node_affinity import MigratedAffinity, migrate_affinity
from allotment.tools.migrate.plugin_requests import WorkloadRequests
from allotment.tools.migrate.request_mapping import Sharer, devices_of, memory_of_products, sharer_of
from allotment.tools.migrate.target import OLDEST, Target
from allotment.tools.migrate.tolerations import tolerations_from_admission

CONSUMABLE: Final = "DRAConsumableCapacity"
_BY_CAPACITY: Final = f"consumable capacity, Kubernetes {on_by_default_since(CONSUMABLE)}"


def decide(workload: WorkloadRequests, target: Target) -> Action:
    """The action for a workload."""
    if workload.unreadable or not workload.requests:
        return _unreadable_request(workload)
    vendors = {request.vendor for request in workload.requests}
    sharer = next(
        (sharer_of(target, request) for request in workload.requests if request.usage in ("share", "fraction")), None
    )
    # A label describes one vendor's GPUs; with another vendor's request it cannot become a selector.
    devices = devices_of(workload.requests[0], sharer) if len(vendors) == 1 else None
    if devices is not None:
        devices = devices._replace(pieces=any(request.profile for request in workload.requests))
    case = WorkloadCase(
        workload, target, migrate_affinity(workload, devices) if devices else MigratedAffinity(), sharer
    )
    found = next(action for strategy in _RULES if (action := strategy(case)) is not None)
    return found._replace(tolerations=tolerations_from_admission(workload, target)) if found.decision.changes else found


def _unreadable_request(workload: WorkloadRequests) -> Action:
    """The action for a workload whose requests cannot be read or are unknown."""
    if workload.unreadable:
        reason = f"The requested amount is not a whole number: {', '.join(workload.unreadable)}."
        hint = "fill in the placeholder, then migrate the result"
        return Action(workload, Decision(outcome="cannot", reason=reason, basis=workload.unreadable, hint=hint))
    reason = f"Allotment does not know {', '.join(workload.unknown)}, so the manifest is not changed."
    return Action(workload, Decision(outcome="leave", reason=reason, basis=workload.unknown))


# --- rules -----------------------------------------------------------------------------------------------------------


def _too_old(case: WorkloadCase) -> Action | None:
    if case.target.features is not None:
        return None
    reason = f"Kubernetes {case.target.kube} does not serve resource.k8s.io/v1, which requires {OLDEST} or later."
    return keep_manifest(case, "leave", reason, f"Kubernetes {case.target.kube}")


def _bare(case: WorkloadCase) -> Action | None:
    """The manifest has no pod template and so no field for a claim; only a class can serve it."""
    if not case.workload.bare:
        return None
    written = "a chart's values file" if case.workload.view.kind == "Values" else "not a pod template"
    if case.usages() <= {"whole", "piece"}:
        state = _extended(case)
        if case.target.on(EXTENDED):
            reason = f"This is {written}: the pods created from it request the old resource name, which a class serves."
            return serve_by_class(case, reason, state)
        reason = (
            f"This is {written} and has no field for a claim. No class can serve the old resource name, because "
            f"{state}."
        )
        return keep_manifest(case, "leave", reason, state)
    reason = f"This is {written} and has no field for a claim: it sets only the resources of a container."
    return keep_manifest(
        case, "cannot", reason, hint="migrate the rendered manifests: helm template … | allot migrate -"
    )


def _extended(case: WorkloadCase) -> str:
    return f"{EXTENDED} is {'on' if case.target.on(EXTENDED) else 'off'} in Kubernetes {case.target.kube}"


def _mixture(case: WorkloadCase) -> Action | None:
    if "share" not in case.usages() or len(case.usages()) == 1:
        return None
    reason = (
        "Its pods request both a share of a GPU and devices of their own. All pods that reference the same claim "
        "get the same devices, so move one of the two requests to a separate workload."
    )
    return keep_manifest(case, "cannot", reason)


def _fraction(case: WorkloadCase) -> Action | None:
    if "fraction" not in case.usages():
        return None
    request = next(request for request in case.requests if request.usage == "fraction")
    if request.vendor == "intel":
        reason = (
            "It requests part of an Intel GPU, which only Intel's scheduler extension supports. Intel's DRA driver "
            "provides whole GPUs and SR-IOV functions."
        )
        return keep_manifest(case, "cannot", reason, hint="request a whole GPU (only gpu.intel.com/i915), then migrate")
    if not case.target.on(CONSUMABLE):
        reason = f"A claim for part of a GPU requires {CONSUMABLE}, which is off in Kubernetes {case.target.kube}."
        hint = f"it is on by default since {on_by_default_since(CONSUMABLE)}"
        return keep_manifest(case, "leave", reason, f"{CONSUMABLE} is off", hint=hint)
    if case.sharer is None:
        reason = "No driver in this cluster can share one GPU between claims (allowMultipleAllocations)."
        hint = "install HAMi's DRA driver, or run NVIDIA's with shared GPUs (--fleet …/shared)"
        return keep_manifest(case, "cannot", reason, hint=hint)
    sized = _sized(case)
    if sized is None:
        reason = (
            f"It requests {request.memory_percent}% of a GPU's memory, but a claim must request an absolute amount, "
            "and no label selects the GPU model."
        )
        return keep_manifest(
            case, "cannot", reason, hint="request MiB (nvidia.com/gpumem), or select the model with a label"
        )
    reason = (
        "It requests part of a GPU. The claim consumes that amount of the GPU's capacity; other claims can use the "
        "rest."
    )
    if request.cores and "cores" not in sized.capacities:
        reason += (
            f" The driver publishes no capacity for cores, so the limit of {request.cores}% of the cores no longer "
            "applies."
        )
    return use_template(case, reason, f"{CONSUMABLE} is on", sharer=sized, gates=(CONSUMABLE,))


def _sized(case: WorkloadCase) -> Sharer | None:
    """The sharer with the memory that percentages refer to; None if they are requested and the memory is unknown."""
    sharer = case.sharer
    if sharer is None or not any(request.memory_percent for request in case.requests):
        return sharer
    memory = memory_of_products(case.affinity.conditions) or sharer.least_mib
    return sharer._replace(least_mib=memory) if memory else None


def _share(case: WorkloadCase) -> Action | None:
    if case.usages() != {"share"}:
        return None
    sharing = next(request.sharing for request in case.requests if request.sharing is not None)
    slots = max(1, case.workload.view.replicas) * sum(request.count for request in case.requests)
    each = sharing.replicas
    fact = f"{each} pods share a GPU ({sharing.source})" if each else f"GPUs are shared ({sharing.source})"
    if not each:
        reason = (
            "Its pods share GPUs with others, but neither the files nor node labels specify how many pods share one."
        )
        hint = "add the device plugin's ConfigMap to the files, or pass --cluster or --shares 4"
        return keep_manifest(case, "cannot", reason, fact, hint=hint)
    daemon = case.workload.view.kind == "DaemonSet"
    counted = case.sharer is not None and bool({"shares", "memory"} & case.sharer.capacities)
    if counted and not case.requests[0].profile and (daemon or slots > each or sharing.strategy == "mps"):
        reason = (
            f"Up to {each} pods share a GPU. The driver shares GPUs by capacity, so each pod gets its own claim for "
            "its part and can run on any GPU with enough free capacity."
        )
        if sharing.strategy != "mps" and case.sharer is not None and "shares" not in case.sharer.capacities:
            reason += " Unlike with time-slicing, each pod is then limited to its part of the memory."
        return use_template(case, reason, fact, sharer=case.sharer, gates=(CONSUMABLE,))
    if daemon:
        reason = (
            "It runs one pod per node, which shares the node's GPU with other pods. A claim is bound to one node, "
            "and a template would allocate a whole GPU on each node."
        )
        hint = f"let the driver share GPUs by capacity ({_BY_CAPACITY})"
        return keep_manifest(case, "cannot", reason, fact, hint=hint)
    if slots > each:
        needed = -(-slots // each)
        reason = (
            f"Its pods need {slots} shares and a GPU has only {each}, so they would need {needed} claims. But all "
            f"pods of a {case.workload.view.kind} reference the same claim, so they would share one GPU."
        )
        hint = (
            f"split it into {needed} workloads of at most {each} pods, or let the driver share GPUs by capacity "
            f"({_BY_CAPACITY})"
        )
        return keep_manifest(case, "cannot", reason, fact, hint=hint)
    reason = (
        f"Up to {each} pods share a GPU. Pods that reference the same ResourceClaim share its GPU and run on the "
        "same node."
    )
    plan, uses = plan_for(case, None)
    if is_unwritable(uses):
        return keep_manifest(case, "cannot", SEVERAL, fact)
    return Action(
        case.workload,
        Decision(outcome="claim", reason=reason, basis=case.basis(fact)),
        case.affinity,
        plan,
        uses,
        slots,
    )


def _monitoring(case: WorkloadCase) -> Action | None:
    if "monitoring" not in case.usages():
        return None
    namespace = case.workload.view.key.namespace
    reason = (
        "It monitors all GPUs without reserving any, which requires admin access. The claim includes every GPU of "
        f"the node, in use or not, and namespace {namespace} must allow admin access."
    )
    action = use_template(case, reason, gates=("DRAAdminAccess",))
    needs = action.decision.needs
    more = Needs(kube_gates=needs.kube_gates, classes=needs.classes, admin_namespaces=(namespace,))
    return action._replace(
        decision=Decision(outcome="template", reason=reason, basis=action.decision.basis, needs=more)
    )


def _piece(case: WorkloadCase) -> Action | None:
    if "piece" not in case.usages():
        return None
    named = tuple(dict.fromkeys(request.profile for request in case.requests if request.profile))
    profile = f"profile{'s' if len(named) > 1 else ''} {' and '.join(named)}"
    if case.target.on(EXTENDED) and (case.target.strategy == "class" or _is_custom(case)):
        reason = f"A class for {profile} serves the old resource name, so the manifest does not change."
        return serve_by_class(case, reason + (_CUSTOM_KIND if _is_custom(case) else ""))
    reason = f"The claim requests {profile} by name, on any GPU that is or can be partitioned this way."
    return use_template(case, reason)


def _whole(case: WorkloadCase) -> Action | None:
    strategy, count = case.target.strategy, max(request.count for request in case.requests)
    model_label = next((label for label in case.affinity.labels if label.expression), None)
    extended, state = case.target.on(EXTENDED), _extended(case)
    if strategy == "class":
        if extended:
            return serve_by_class(
                case, "It requests a number of whole GPUs, which a class serves under the old resource name.", state
            )
        return keep_manifest(case, "leave", f"No class can serve the old resource name, because {state}.", state)
    if case.target.same and count > 1:
        name = case.target.same.rpartition("/")[2]
        return use_template(case, f"The claim requires its {count} GPUs to have the same {name} (--match-attribute).")
    if extended and _is_custom(case):
        reason = (
            "It requests a number of whole GPUs, which the class serves under the old resource name." + _CUSTOM_KIND
        )
        return serve_by_class(case, reason, state)
    if model_label is not None:
        reason = (
            f"Its node selector or affinity selects a GPU model ({model_label.term}). The claim requests that model "
            "directly, so no node label is needed."
        )
        return use_template(case, reason, hint=_CLASS_HINT if extended and strategy == "auto" else "")
    if any(container.role == "init" for container in case.workload.containers):
        reason = "An init container and the main containers use a GPU; a claim ensures that they use the same one."
        return use_template(case, reason)
    if strategy == "claims":
        return use_template(case, "--strategy claims converts every workload; this one requests only a number of GPUs.")
    if extended:
        reason = (
            "It requests only a number of whole GPUs, which the class serves under the old resource name, so nothing "
            "changes."
        )
        return serve_by_class(case, reason, state)
    reason = f"It requests only a number of whole GPUs, for which a claim has no benefit, and {state}."
    return keep_manifest(
        case,
        "leave",
        reason,
        state,
        hint=(
            f"Kubernetes {on_by_default_since(EXTENDED)} can serve it through the class; --strategy claims converts it "
            "to a claim anyway"
        ),
    )


_CLASS_HINT: Final = (
    "--strategy class keeps the manifest unchanged: the class serves it on the nodes that its node selector or "
    "affinity selects"
)
_CUSTOM_KIND: Final = " Its kind is not built into Kubernetes and may not support claims, so nothing is changed."


def _is_custom(case: WorkloadCase) -> bool:
    """Whether the kind may not support claims and ``--strategy`` does not force them."""
    return case.workload.view.custom and case.target.strategy == "auto"


_RULES: Final[tuple[Callable[[WorkloadCase], Action | None], ...]] = (
    _too_old,
    _bare,
    _mixture,
    _fraction,
    _share,
    _monitoring,
    _piece,
    _whole,
)
