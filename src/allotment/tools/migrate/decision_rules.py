"""Decides what becomes of one workload. Each way is a function that takes its case or leaves it; the first one holds.

What a device plugin does by count alone a class can serve without any change (KEP-5004), so a manifest is changed only
where that gains something: the claim asks for the model itself, a profile, an amount, one GPU for several containers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.tools.migrate.actions import (
    EXTENDED,
    SEVERAL,
    Case,
    Course,
    is_unwritable,
    planned_for,
    served,
    stays,
    templated,
)
from allotment.tools.migrate.decision import Decision, Needs
from allotment.tools.migrate.node_affinity import Where, where_to
from allotment.tools.migrate.plugin_requests import WorkloadAsk
from allotment.tools.migrate.request_mapping import Sharer, devices_of, memory_of_products, sharer_of
from allotment.tools.migrate.target import OLDEST, Target
from allotment.tools.migrate.tolerations import given_by_admission

CONSUMABLE: Final = "DRAConsumableCapacity"


def course_of(workload: WorkloadAsk, target: Target) -> Course:
    """What is to be done with a workload."""
    if workload.unreadable or not workload.asks:
        return _unread(workload)
    vendors = {ask.vendor for ask in workload.asks}
    sharer = next((sharer_of(target, ask) for ask in workload.asks if ask.sort in ("share", "fraction")), None)
    # A label speaks of one vendor's GPUs; beside another vendor's request it cannot become a selector.
    devices = devices_of(workload.asks[0], sharer) if len(vendors) == 1 else None
    if devices is not None:
        devices = devices._replace(pieces=any(ask.profile for ask in workload.asks))
    case = Case(workload, target, where_to(workload, devices) if devices else Where(), sharer)
    found = next(course for way in _WAYS if (course := way(case)) is not None)
    return found._replace(tolerations=given_by_admission(workload, target)) if found.decision.changes else found


def _unread(workload: WorkloadAsk) -> Course:
    """It is not known what is asked for."""
    if workload.unreadable:
        reason = f"The requested amount is not a whole number: {', '.join(workload.unreadable)}."
        hint = "fill in the placeholder, then migrate the result"
        return Course(workload, Decision(outcome="cannot", reason=reason, basis=workload.unreadable, hint=hint))
    reason = f"It requests {', '.join(workload.unknown)}, which Allotment does not know, so nothing changes."
    return Course(workload, Decision(outcome="leave", reason=reason, basis=workload.unknown))


# --- ways ------------------------------------------------------------------------------------------------------------


def _too_old(case: Case) -> Course | None:
    if case.target.features is not None:
        return None
    reason = f"Kubernetes {case.target.kube} does not serve resource.k8s.io/v1, which is available from {OLDEST}."
    return stays(case, "leave", reason, f"Kubernetes {case.target.kube}")


def _bare(case: Case) -> Course | None:
    """No pod is written, so there is no place for a claim: what a class serves, it serves; the rest stays."""
    if not case.workload.bare:
        return None
    written = "a chart's values file" if case.workload.view.kind == "Values" else "not a pod template"
    if case.sorts() <= {"whole", "piece"}:
        state = _extended(case)
        if case.target.on(EXTENDED):
            reason = f"This is {written}: the pods made from it request the old resource name, which a class serves."
            return served(case, reason, state)
        reason = f"This is {written} and has no field for a claim. No class can serve the old resource name: {state}."
        return stays(case, "leave", reason, state)
    reason = f"This is {written} and has no field for a claim: it only sets the resources of a container."
    return stays(case, "cannot", reason, hint="migrate the rendered manifests: helm template … | allot migrate -")


def _extended(case: Case) -> str:
    return f"{EXTENDED} is {'on' if case.target.on(EXTENDED) else 'off'} in Kubernetes {case.target.kube}"


def _mixture(case: Case) -> Course | None:
    if "share" not in case.sorts() or len(case.sorts()) == 1:
        return None
    reason = (
        "Its pods request a share of a GPU and devices of their own. All pods that name one claim get the same "
        "devices, so one of the two requests must move to a workload of its own."
    )
    return stays(case, "cannot", reason)


def _fraction(case: Case) -> Course | None:
    if "fraction" not in case.sorts():
        return None
    ask = next(ask for ask in case.asks if ask.sort == "fraction")
    if ask.vendor == "intel":
        reason = (
            "It requests part of an Intel GPU, which only Intel's scheduler extension supports. Intel's DRA driver "
            "provides whole GPUs and SR-IOV functions."
        )
        return stays(case, "cannot", reason, hint="request a whole GPU (gpu.intel.com/i915 alone), then migrate")
    if not case.target.on(CONSUMABLE):
        reason = f"Part of a GPU requires {CONSUMABLE}, which is off in Kubernetes {case.target.kube}."
        return stays(case, "leave", reason, f"{CONSUMABLE} is off", hint="it is on by default since 1.36")
    if case.sharer is None:
        reason = "No driver in this cluster can share one GPU between claims (allowMultipleAllocations)."
        hint = "install HAMi's DRA driver, or run NVIDIA's with shared GPUs (--fleet …/shared)"
        return stays(case, "cannot", reason, hint=hint)
    sized = _sized(case)
    if sized is None:
        reason = (
            f"It requests {ask.memory_percent}% of a GPU's memory, but a claim requests an amount. No label selects "
            "the GPU model."
        )
        return stays(case, "cannot", reason, hint="request MiB (nvidia.com/gpumem), or select the model with a label")
    reason = (
        "It requests part of a GPU. The claim takes that amount of the GPU's capacity; other claims can use the rest."
    )
    if ask.cores and "cores" not in sized.capacities:
        reason += f" This driver does not count cores: the limit of {ask.cores}% no longer applies."
    return templated(case, reason, f"{CONSUMABLE} is on", sharer=sized, gates=(CONSUMABLE,))


def _sized(case: Case) -> Sharer | None:
    """The sharer with the memory that percents are of; None where they are asked for and it is not known."""
    sharer = case.sharer
    if sharer is None or not any(ask.memory_percent for ask in case.asks):
        return sharer
    memory = memory_of_products(case.where.conditions) or sharer.least_mib
    return sharer._replace(least_mib=memory) if memory else None


def _share(case: Case) -> Course | None:
    if case.sorts() != {"share"}:
        return None
    sharing = next(ask.sharing for ask in case.asks if ask.sharing is not None)
    slots = max(1, case.workload.view.replicas) * sum(ask.count for ask in case.asks)
    each = sharing.replicas
    told = f"{each} pods share a GPU ({sharing.told_by})" if each else f"GPUs are shared ({sharing.told_by})"
    if not each:
        reason = (
            "Its pods share GPUs with others, but neither the files nor node labels specify how many pods share one."
        )
        hint = "add the device plugin's ConfigMap to the files, or pass --cluster or --shares 4"
        return stays(case, "cannot", reason, told, hint=hint)
    daemon = case.workload.view.kind == "DaemonSet"
    counted = case.sharer is not None and bool({"shares", "memory"} & case.sharer.capacities)
    if counted and not case.asks[0].profile and (daemon or slots > each or sharing.strategy == "mps"):
        reason = (
            f"Up to {each} pods share a GPU. The driver shares GPUs by capacity, so every pod gets a claim of its own "
            "for its part, on any GPU with enough capacity."
        )
        if sharing.strategy != "mps" and case.sharer is not None and "shares" not in case.sharer.capacities:
            reason += " New: each pod is limited to its part of the memory; with time-slicing it could use all of it."
        return templated(case, reason, told, sharer=case.sharer, gates=(CONSUMABLE,))
    if daemon:
        reason = (
            "Its pods run one per node and share the node's GPU with others. A claim holds devices of one node, and a "
            "template would take a whole GPU on each node."
        )
        hint = "let the driver share GPUs by capacity (consumable capacity, Kubernetes 1.36)"
        return stays(case, "cannot", reason, told, hint=hint)
    if slots > each:
        needed = -(-slots // each)
        reason = (
            f"Its pods take {slots} shares and a GPU has {each}, so they need {needed} claims. But all pods of one "
            f"{case.workload.view.kind} name the same claim and would share one GPU."
        )
        hint = (
            f"split it into {needed} workloads of at most {each} pods, or let the driver share GPUs by capacity "
            "(consumable capacity, Kubernetes 1.36)"
        )
        return stays(case, "cannot", reason, told, hint=hint)
    reason = f"Up to {each} pods share a GPU. Pods that name the same ResourceClaim share its GPU and run on its node."
    plan, uses = planned_for(case, None)
    if is_unwritable(uses):
        return stays(case, "cannot", SEVERAL, told)
    return Course(
        case.workload, Decision(outcome="claim", reason=reason, basis=case.basis(told)), case.where, plan, uses, slots
    )


def _monitoring(case: Case) -> Course | None:
    if "monitoring" not in case.sorts():
        return None
    namespace = case.workload.view.key.namespace
    reason = (
        "It monitors all GPUs without allocating any, which is admin access. The claim lists every GPU of the node, in "
        f"use or not, and namespace {namespace} must allow it."
    )
    course = templated(case, reason, gates=("DRAAdminAccess",))
    needs = course.decision.needs
    more = Needs(kube_gates=needs.kube_gates, classes=needs.classes, admin_namespaces=(namespace,))
    return course._replace(
        decision=Decision(outcome="template", reason=reason, basis=course.decision.basis, needs=more)
    )


def _piece(case: Case) -> Course | None:
    if "piece" not in case.sorts():
        return None
    named = tuple(dict.fromkeys(ask.profile for ask in case.asks if ask.profile))
    profile = f"profile{'s' if len(named) > 1 else ''} {' and '.join(named)}"
    if case.target.on(EXTENDED) and (case.target.way == "class" or _is_custom(case)):
        reason = f"A class for {profile} serves the old resource name, so the manifest does not change."
        return served(case, reason + (_OTHERS_KIND if _is_custom(case) else ""))
    reason = f"The claim requests {profile} by name, on any GPU that is or can be partitioned this way."
    return templated(case, reason)


def _whole(case: Case) -> Course | None:
    way, count = case.target.way, max(ask.count for ask in case.asks)
    asked = next((label for label in case.where.labels if label.expression), None)
    extended, state = case.target.on(EXTENDED), _extended(case)
    if way == "class":
        if extended:
            return served(case, "It requests whole GPUs by count, which a class serves under the old resource name.", state)
        return stays(case, "leave", f"No class can serve the old resource name: {state}.", state)
    if case.target.same and count > 1:
        name = case.target.same.rpartition("/")[2]
        return templated(case, f"The claim requires its {count} GPUs to have the same {name} (--match-attribute).")
    if extended and _is_custom(case):
        reason = "It requests whole GPUs by count, which the class serves under the old resource name." + _OTHERS_KIND
        return served(case, reason, state)
    if asked is not None:
        reason = (
            f"Its labels select a GPU model ({asked.term}). The claim requests that model directly and needs no node "
            "label."
        )
        return templated(case, reason, hint=_KEEPS if extended and way == "auto" else "")
    if any(container.role == "init" for container in case.workload.containers):
        reason = "An init container and the main containers use a GPU; a claim makes sure that it is the same one."
        return templated(case, reason)
    if way == "claims":
        return templated(case, "--strategy claims converts every workload; this one requests GPUs by count alone.")
    if extended:
        reason = "It requests whole GPUs by count alone, which the class serves under the old resource name: nothing changes."
        return served(case, reason, state)
    reason = f"It requests whole GPUs by count alone, where a claim has no benefit, and {state}."
    return stays(
        case, "leave", reason, state, hint="Kubernetes 1.36 serves it through the class; --strategy claims forces it"
    )


_KEEPS: Final = "--strategy class keeps the manifest: the class serves it on the nodes that its labels select"
_OTHERS_KIND: Final = " Its kind is not built into Kubernetes and may not support claims, so nothing is changed."


def _is_custom(case: Case) -> bool:
    """Whether claims would be put into a kind that may not know them, without anybody having asked for it."""
    return case.workload.view.custom and case.target.way == "auto"


_WAYS: Final[tuple[Callable[[Case], Course | None], ...]] = (
    _too_old,
    _bare,
    _mixture,
    _fraction,
    _share,
    _monitoring,
    _piece,
    _whole,
)
