"""Which workloads name one claim: time-slicing and MPS let N pods have turns at a GPU, whoever they are.

A claim holds its devices for every pod that names it, so pods of several workloads of a namespace are put together
until the shares of a GPU are used up, in the order of the files. They are then all on the node of that GPU: a device
plugin was free to put them anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from allotment.tools.migrate.actions import Course
from allotment.tools.migrate.claim_plan import Config, Plan
from allotment.tools.migrate.decision import DriverGate, Needs
from allotment.tools.migrate.plugin_requests import Sharing
from allotment.tools.migrate.request_mapping import NVIDIA, memory_of_products

#: The API of the parameters that NVIDIA's driver reads.
_API = "resource.nvidia.com/v1beta1"


class Together(NamedTuple):
    """The workloads (by their number) that name one claim, of this spec."""

    courses: tuple[int, ...]
    plan: Plan


def put_together(courses: Iterable[Course]) -> tuple[Together, ...]:
    """The claims that workloads with outcome ``claim`` share, each with its workloads."""
    listed = tuple(courses)
    claims: list[tuple[object, int, list[int]]] = []  # what must be equal, shares left, who is in it
    for number, course in enumerate(listed):
        if course.decision.outcome != "claim" or course.plan is None:
            continue
        sharing = sharing_of(course)
        alike = (course.workload.view.key.namespace, course.plan.identity, sharing.strategy, sharing.replicas)
        for position, (what, left, members) in enumerate(claims):
            if what == alike and course.slots <= left:
                members.append(number)
                claims[position] = (what, left - course.slots, members)
                break
        else:
            claims.append((alike, sharing.replicas - course.slots, [number]))
    found = []
    for _, _, members in claims:
        first = listed[members[0]]
        assert first.plan is not None
        found.append(Together(tuple(members), _configured(first.plan, sharing_of(first))))
    return tuple(found)


def sharing_of(course: Course) -> Sharing:
    """How the GPU is shared that a course is about."""
    return next(ask.sharing for ask in course.workload.asks if ask.sharing is not None)


def _configured(plan: Plan, sharing: Sharing) -> Plan:
    """The plan with what the driver must be told. Time-slicing is what a GPU does anyway: nothing is to be told."""
    if sharing.strategy != "mps":
        return plan
    limits: dict[str, Any] = {"defaultActiveThreadPercentage": 100 // sharing.replicas}
    memory = memory_of_products(plan.requests[0].kind.conditions)
    if memory:
        limits["defaultPinnedDeviceMemoryLimit"] = f"{memory // sharing.replicas}Mi"
    why = f"MPS with 1/{sharing.replicas} of the GPU for each program, as in the device plugin."
    if not memory:
        why += " No memory limit is set, because no label selects the model (defaultPinnedDeviceMemoryLimit)."
    kind = "MigDeviceConfig" if plan.requests[0].kind.class_name == "mig.nvidia.com" else "GpuConfig"
    parameters = {"apiVersion": _API, "kind": kind, "sharing": {"strategy": "MPS", "mpsConfig": limits}}
    return plan._replace(configs=(Config(NVIDIA, parameters, why),))


def with_needs(course: Course) -> Course:
    """The course with what its driver must have switched on."""
    if course.decision.outcome != "claim" or course.plan is None:
        return course
    mps = sharing_of(course).strategy == "mps"
    gates = (DriverGate(driver=NVIDIA, name="MPSSupport"),) if mps else ()
    classes = tuple(dict.fromkeys(request.kind.class_name for request in course.plan.requests))
    return course._replace(decision=replace(course.decision, needs=Needs(driver_gates=gates, classes=classes)))
