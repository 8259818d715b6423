"""Random demands: the scheduler binds every planned pod to its planned node, and the bound never exceeds the cost.

The guarantee holds if all planned nodes exist, pods are scheduled in order with their nominated node, and pods without
a node are retried after each placement or after all pods. Then planned pods are on their nodes, and no other pod has a
node, except pods that the plan reports as unpredictable (which this test leaves out).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.meta import Object
from allotment.planning.limits import PlanLimits
from tests.unit.planning.demands import FEATURES, MIG, claim, claim_template, instance, make_plan, node, pod, request
from tests.unit.planning.scheduler_verification import scheduling_differences

CATALOG = (
    instance("cpu", "", 0, "0.1", cpus=8, gib=32, spot="0.04"),
    instance("t4", "t4", 1, "0.5", cpus=8, gib=32, spot="0.2"),
    instance("t4x4", "t4", 4, "1.6", cpus=32, gib=128, slots=12),
    instance("a10g", "a10g", 1, "1.0", cpus=8),
    instance("a100", "a100-40gb", 1, "2.2", cpus=12, gib=80),
    instance("a100x8", "a100-40gb", 8, "15.0", cpus=96, gib=900),
    instance("h100", "h100", 1, "3.5"),
    instance("dgx", "dgx-a100-40gb", 8, "16.0", cpus=96, gib=900),
    instance("mi300x", "mi300x", 1, "3.0"),
)

_MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'
_PROFILE = 'device.attributes["gpu.nvidia.com"].profile == "{}"'
_ROOT = "resource.kubernetes.io/pcieRoot"


def _requests() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.builds(request, count=st.integers(1, 5)),
        st.sampled_from(["14Gi", "15Gi", "16Gi", "20Gi", "39Gi", "40Gi", "79Gi", "80Gi"]).map(
            lambda amount: request(_MEMORY.format(amount))
        ),
        st.sampled_from(["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "1g.10gb", "1g.5gb+me"]).map(
            lambda profile: request(_PROFILE.format(profile), of=MIG)
        ),
        st.builds(request, of=st.just(MIG), count=st.integers(1, 3)),
        st.sampled_from(["2Gi", "5Gi", "10Gi", "15Gi"]).map(lambda amount: request(capacity={"memory": amount})),
        st.just(request(of="gpu.amd.com")),
        st.just(request(adminAccess=False)),
        st.sampled_from([("gpu", MIG), (MIG, "gpu.nvidia.com")]).map(
            lambda order: {
                "name": "gpu",
                "firstAvailable": [
                    {"name": f"way-{n}", "deviceClassName": of if of == MIG else "gpu.nvidia.com",
                     "allocationMode": "ExactCount", "count": 1}
                    for n, of in enumerate(order)
                ],
            }
        ),
    )  # fmt: skip


def _constraints() -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.sampled_from([
        [], [], [], [{"matchAttribute": _ROOT, "requests": []}], [{"distinctAttribute": _ROOT, "requests": []}],
        [{"matchAttribute": "gpu.nvidia.com/productName", "requests": []}],
        [{"matchAttribute": "gpu.nvidia.com/parentUUID", "requests": []}],
    ])  # fmt: skip


def _specs(label: str) -> st.SearchStrategy[dict[str, Any]]:
    selector = {"matchLabels": {"app": label}}

    def near(kind: str, key: str) -> dict[str, Any]:
        term = {"topologyKey": key, "labelSelector": selector}
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    def spread(key: str, **more: int) -> dict[str, Any]:
        return {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}
        ]}  # fmt: skip

    host, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    return st.sampled_from([
        {}, {}, {}, {}, {"nodeSelector": {"topology.kubernetes.io/zone": "z2"}}, {"priority": 5},
        {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}},
        near("podAntiAffinity", host), near("podAntiAffinity", zone), near("podAffinity", host),
        near("podAffinity", zone), spread(host), spread(zone),
        near("podAffinity", host) | spread(zone, minDomains=2), near("podAffinity", zone) | spread(host),
        near("podAntiAffinity", zone) | spread(host, maxSkew=2),
    ])  # fmt: skip


@st.composite
def pending_objects(draw: st.DrawFn) -> list[Object]:
    """Up to four groups of pods, each with own claims, a shared claim, or none."""
    values: list[Object] = []
    if draw(st.booleans()):
        form = draw(st.sampled_from(["2xt4", "a100-40gb/static-mig=3g.20gb:2", "a100-40gb/dynamic-mig", "t4/shared"]))
        cluster = cluster_of(parse_fleet([f"old={form}"]))
        labels = {"topology.kubernetes.io/zone": draw(st.sampled_from(["z1", "z2", "z9"]))}
        taints = draw(st.sampled_from([[], [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]]))
        values += [node("old", cpu="6", labels=labels, taints=taints), *cluster.slices, *cluster.classes]
    for group in range(draw(st.integers(1, 4))):
        label = draw(st.sampled_from(["a", "b"]))
        spec = draw(_specs(draw(st.sampled_from([label, "a"]))))
        each: dict[str, Any] = {"cpu": draw(st.sampled_from(["250m", "1", "3", "7"])), **spec}
        how = draw(st.sampled_from(["none", "template", "template", "template", "shared"]))
        requested, constraints = (draw(_requests()), draw(_constraints())) if how != "none" else ({}, [])
        if how == "template":
            values.append(claim_template(f"t{group}", requested, constraints=constraints))
            each["template"] = f"t{group}"
        elif how == "shared":
            values.append(claim(f"c{group}", requested, constraints=constraints))
            each["claim"] = f"c{group}"
        values += [
            pod(f"g{group}-{number}", labels={"app": label}, **each) for number in range(draw(st.integers(1, 6)))
        ]
    return values


def _limits() -> st.SearchStrategy[PlanLimits]:
    return st.sampled_from([
        PlanLimits(), PlanLimits(), PlanLimits(), PlanLimits(capacity="cheapest"), PlanLimits(max_machines=2),
        PlanLimits(budget=Decimal(3)),
        PlanLimits(modes=("dynamic-mig",)), PlanLimits(modes=("static-mig", "shared")), PlanLimits(zones=("z1", "z2")),
        PlanLimits(capacity="cheapest", spot_share=Decimal("0.5")),
    ])  # fmt: skip


@settings(max_examples=40)
@given(values=pending_objects(), limits=_limits())
def test_every_planned_pod_is_bound_to_its_planned_node(values: list[Object], limits: PlanLimits) -> None:
    found = make_plan(values, CATALOG, limits)
    assert scheduling_differences(values, found, CATALOG, FEATURES) == []
    assert found.bound <= found.total
    placed = [
        placement.pod for placement in (*found.existing, *(s for machine in found.machines for s in machine.placements))
    ]
    pods = sorted(str(key) for key in (*placed, *(pod.pod for pod in found.unserved)))
    assert pods == sorted(f"ml/{value.metadata.name}" for value in values if type(value).__name__ == "Pod")
    assert limits.budget is None or found.total <= limits.budget
    assert limits.max_machines is None or len(found.machines) <= limits.max_machines
    spot = sum(machine.capacity_type == "spot" for machine in found.machines)
    assert limits.spot_share is None or spot <= len(found.machines) * limits.spot_share
