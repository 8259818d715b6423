"""Builders for pending pods with claims, nodes, and instance types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from allotment.fleet.catalog.instance_type import InstanceType, NodeCapacity
from allotment.fleet.hardware import hardware
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.model.trees import Tree, to_value
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.planner import plan
from allotment.planning.report import ProvisioningPlan

FEATURES = Features(kube="1.36")
GPU = "gpu.nvidia.com"
MIG = "mig.nvidia.com"


def request(
    *expressions: str, of: str = GPU, count: int = 1, name: str = "gpu", capacity: Mapping[str, str] | None = None,
    **more: Any,
) -> Tree:  # fmt: skip
    """A request for devices of a class that match the expressions."""
    exactly: Tree = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **more}
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if capacity:
        exactly["capacity"] = {"requests": dict(capacity)}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Tree, constraints: Sequence[Tree] = (), config: Sequence[Tree] = ()) -> ResourceClaim:
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints), "config": list(config)}}
    return to_value({"metadata": {"name": name, "namespace": "ml"}, "spec": spec}, ResourceClaim)


def claim_template(name: str, *requests: Tree, constraints: Sequence[Tree] = ()) -> ResourceClaimTemplate:
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return to_value({"metadata": {"name": name, "namespace": "ml"}, "spec": {"spec": spec}}, ResourceClaimTemplate)


def pod(
    name: str, *, template: str = "", claim: str = "", cpu: str = "1", memory: str = "1Gi",
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None, **spec: Any,
) -> Pod:  # fmt: skip
    """A pod with at most one claim, by name or from a template; ``spec``: further fields of the PodSpec."""
    entries: list[Tree] = []
    if template:
        entries.append({"name": "gpu", "resourceClaimTemplateName": template})
    if claim:
        entries.append({"name": "gpu", "resourceClaimName": claim})
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory, **(requests or {})}}}
    return to_value(
        {
            "metadata": {
                "name": name, "namespace": "ml", "labels": dict(labels or {}), "annotations": dict(annotations or {}),
            },
            "spec": {"containers": [container], "resourceClaims": entries, **spec},
        },
        Pod,
    )  # fmt: skip


def pods(count: int, prefix: str = "pod", **each: Any) -> list[Pod]:
    return [pod(f"{prefix}-{number}", **each) for number in range(count)]


def instance(
    name: str, model: str, gpus: int, usd: str, *, cpus: int = 16, gib: int = 64, provider: str = "cloud",
    zones: tuple[str, ...] = ("z1", "z2", "z3"), spot: str = "", slots: int = 110, arch: str = "amd64",
) -> InstanceType:  # fmt: skip
    """A type with ``gpus`` of an accelerator; without any if ``model`` is empty."""
    prices: list[tuple[Any, Decimal]] = [("on-demand", Decimal(usd))] if usd else []
    if spot:
        prices.append(("spot", Decimal(spot)))
    return InstanceType(
        provider=provider,
        name=name,
        region="r1",
        zones=zones,
        vcpu=Decimal(cpus),
        memory_gib=Decimal(gib),
        room=NodeCapacity(cpus * 1000, gib * 1024, slots),
        gpus=gpus,
        accelerator=hardware(model).accelerator if model else None,
        gpu_model=model,
        prices=tuple(prices),
        as_of="2026-01-01",
        price_source="test",
        arch=arch,
        hardware="" if not model else model if gpus == 1 else f"{gpus}x{model}",
    )


def node(
    name: str, *, cpu: str = "16", memory: str = "64Gi", labels: Mapping[str, str] | None = None, **spec: Any
) -> Node:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return to_value(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": allocatable},
        },
        Node,
    )


def step_limit(count: int) -> KeepGoing:
    """A ``keep_going`` with a number of steps, so that results do not depend on the speed of the machine."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


def make_plan(
    values: Sequence[Object], catalog: Sequence[InstanceType], limits: PlanLimits | None = None,
    features: Features = FEATURES,
) -> ProvisioningPlan:  # fmt: skip
    return plan(values, catalog, limits or PlanLimits(), features, keep_going=step_limit(20), reasons=False)


def planned_types(found: ProvisioningPlan) -> list[str]:
    """The sorted types of a plan's machines."""
    return sorted(machine.instance for machine in found.machines)
