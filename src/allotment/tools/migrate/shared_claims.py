"""Groups workloads into shared claims: with time-slicing and MPS any N pods can share a GPU.

All pods that name a claim use its devices, so workloads of a namespace are grouped, in the order of the files, until
the shares of a GPU are used up. Their pods then run on the node of that GPU; the device plugin could place them on any
node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from allotment.tools.migrate.actions import Action
from allotment.tools.migrate.claim_plan import ClaimPlan, DriverConfig
from allotment.tools.migrate.decision import DriverGate, Needs
from allotment.tools.migrate.plugin_requests import Sharing
from allotment.tools.migrate.request_mapping import NVIDIA, memory_of_products

#: The API of the parameters that NVIDIA's driver reads.
_API = "resource.nvidia.com/v1beta1"


class SharedClaim(NamedTuple):
    """A claim spec and the workloads, by index, that name the claim."""

    actions: tuple[int, ...]
    plan: ClaimPlan


def group_shared_claims(actions: Iterable[Action]) -> tuple[SharedClaim, ...]:
    """Group workloads with outcome ``claim`` into shared claims."""
    listed = tuple(actions)
    claims: list[tuple[object, int, list[int]]] = []  # what must be equal, shares left, who is in it
    for number, action in enumerate(listed):
        if action.decision.outcome != "claim" or action.plan is None:
            continue
        sharing = sharing_of(action)
        group_key = (action.workload.view.key.namespace, action.plan.identity, sharing.strategy, sharing.replicas)
        for position, (existing_key, left, members) in enumerate(claims):
            if existing_key == group_key and action.slots <= left:
                members.append(number)
                claims[position] = (existing_key, left - action.slots, members)
                break
        else:
            claims.append((group_key, sharing.replicas - action.slots, [number]))
    found = []
    for _, _, members in claims:
        first = listed[members[0]]
        assert first.plan is not None
        found.append(SharedClaim(tuple(members), _configured(first.plan, sharing_of(first))))
    return tuple(found)


def sharing_of(action: Action) -> Sharing:
    """The sharing of the action's GPU."""
    return next(request.sharing for request in action.workload.requests if request.sharing is not None)


def _configured(plan: ClaimPlan, sharing: Sharing) -> ClaimPlan:
    """The plan with the driver's parameters. Time-slicing is a GPU's default and needs none."""
    if sharing.strategy != "mps":
        return plan
    limits: dict[str, Any] = {"defaultActiveThreadPercentage": 100 // sharing.replicas}
    memory = memory_of_products(plan.requests[0].kind.conditions)
    if memory:
        limits["defaultPinnedDeviceMemoryLimit"] = f"{memory // sharing.replicas}Mi"
    why = f"MPS with 1/{sharing.replicas} of the GPU for each program, as in the device plugin."
    if not memory:
        why += " No memory limit (defaultPinnedDeviceMemoryLimit) is set, because no label selects the model."
    kind = "MigDeviceConfig" if plan.requests[0].kind.class_name == "mig.nvidia.com" else "GpuConfig"
    parameters = {"apiVersion": _API, "kind": kind, "sharing": {"strategy": "MPS", "mpsConfig": limits}}
    return plan._replace(configs=(DriverConfig(NVIDIA, parameters, why),))


def with_needs(action: Action) -> Action:
    """The action with the driver gates and classes that it needs."""
    if action.decision.outcome != "claim" or action.plan is None:
        return action
    mps = sharing_of(action).strategy == "mps"
    gates = (DriverGate(driver=NVIDIA, name="MPSSupport"),) if mps else ()
    classes = tuple(dict.fromkeys(request.kind.class_name for request in action.plan.requests))
    return action._replace(decision=replace(action.decision, needs=Needs(driver_gates=gates, classes=classes)))
