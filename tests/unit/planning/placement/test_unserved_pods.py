"""Unserved pods are reported with a reason, and the other pods are planned."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.model.trees import to_value
from allotment.model.workloads import Job
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.demands import (
    FEATURES,
    MIG,
    claim,
    claim_template,
    instance,
    make_plan,
    planned_types,
    pod,
    pods,
    request,
)

T4 = instance("t4", "t4", 1, "0.5")
T4X4 = instance("t4x4", "t4", 4, "1.5")
A100 = instance("a100", "a100-40gb", 1, "2.0")
CATALOG = (T4, T4X4, A100)
UUID = 'device.attributes["gpu.nvidia.com"].uuid == "GPU-1"'
BIG = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'


def codes(found: ProvisioningPlan) -> dict[str, str]:
    return {unserved.pod.name: unserved.code for unserved in found.unserved}


def test_unschedulable_pods_are_reported_and_the_rest_is_planned() -> None:
    values = [
        claim_template("any", request()), claim_template("bad", request("device.nonsense ==")),
        claim_template("unknown", request(of="gpus.nvidia.com")),
        pod("fine", template="any"), pod("no-template", template="ayn"), pod("no-claim", claim="none"),
        pod("bad-selector", template="bad"), pod("no-class", template="unknown"),
        pod("gated", template="any", schedulingGates=[{"name": "example.com/wait"}]),
    ]  # fmt: skip
    found = make_plan(values, CATALOG)
    assert planned_types(found) == ["cloud/t4"]
    assert codes(found) == {
        "no-template": "template-missing", "no-claim": "claim-missing", "bad-selector": "selector-invalid",
        "no-class": "class-missing", "gated": "not-ready",
    }  # fmt: skip
    texts = {unserved.pod.name: unserved.text for unserved in found.unserved}
    assert 'Did you mean "any"' in texts["no-template"]
    assert texts["gated"] == "scheduling gate example.com/wait has not been removed"


def test_pods_that_no_type_fits_are_never_served() -> None:
    found = make_plan([claim_template("big", request(BIG)), pod("a", template="big"), pod("b", cpu="99")], CATALOG)
    assert codes(found) == {"a": "never", "b": "never"}
    assert "cpu: 99 requested, 16 available" in found.unserved[1].text


def test_types_excluded_by_limits_are_reported_as_such() -> None:
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'
    values = [claim_template("slice", request(profile, of=MIG)), pod("a", template="slice")]
    limited = make_plan(values, CATALOG, PlanLimits(types=("cloud/t4*",)))
    assert codes(limited) == {"a": "limits"}
    assert limited.unserved[0].nearest == ("cloud/a100",)
    assert "cloud/a100 (type is not allowed)" in limited.unserved[0].text
    unpriced = make_plan(values, (T4, instance("a100", "a100-40gb", 1, "")))
    assert codes(unpriced) == {"a": "limits"}
    assert "price unknown" in unpriced.unserved[0].text
    assert codes(make_plan(values, CATALOG, PlanLimits(modes=("shared",)))) == {"a": "limits"}


@pytest.mark.parametrize(
    ("limits", "served"),
    [
        (PlanLimits(budget=Decimal("1.0")), 2),
        (PlanLimits(max_machines=1, excluded_types=("cloud/t4x4",)), 1),
        (PlanLimits(max_by_pattern=(("cloud/t4", 3),), excluded_types=("cloud/t4x4", "cloud/a100")), 3),
        (PlanLimits(), 5),
    ],
)
def test_limits_leave_the_last_pods_unserved(limits: PlanLimits, served: int) -> None:
    found = make_plan([claim_template("any", request()), *pods(5, template="any")], CATALOG, limits)
    assert sum(len(machine.placements) for machine in found.machines) == served
    assert set(codes(found).values()) <= {"limits"}
    assert len(found.unserved) == 5 - served
    assert limits.budget is None or found.total <= limits.budget


def test_unavailable_offerings_are_not_planned() -> None:
    values = [claim_template("any", request()), pod("a", template="any")]
    elsewhere = make_plan(values, CATALOG, PlanLimits(unavailable=(("cloud/t4", "z1", "on-demand"),)))
    assert (elsewhere.machines[0].instance, elsewhere.machines[0].zone) == ("cloud/t4", "z2")
    other = make_plan(values, CATALOG, PlanLimits(unavailable=(("cloud/t4", "", ""),)))
    assert planned_types(other) == ["cloud/t4x4"]


def test_a_selector_on_a_run_time_attribute_is_unpredictable() -> None:
    found = make_plan([claim_template("one", request(UUID)), pod("a", template="one"), pod("b")], CATALOG)
    assert codes(found) == {"a": "run-time-only"}
    assert "uuid" in found.unserved[0].text
    assert found.machines


def test_an_unmeasured_pcie_root_is_unpredictable() -> None:
    near = {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": []}
    apart: dict[str, Any] = {"distinctAttribute": "resource.kubernetes.io/pcieRoot", "requests": []}
    for constraint in (near, apart):
        template = claim_template("two", request(count=2), constraints=[constraint])
        assert codes(make_plan([template, pod("a", template="two")], CATALOG)) == {"a": "run-time-only"}
        alone = claim_template("one", request(), constraints=[constraint])
        assert planned_types(make_plan([alone, pod("a", template="one")], CATALOG)) == ["cloud/t4"]


def test_users_of_one_claim_that_do_not_fit_together_are_split() -> None:
    found = make_plan([claim("shared", request()), *pods(3, claim="shared", cpu="10")], CATALOG)
    assert codes(found) == {"pod-1": "neighbours", "pod-2": "neighbours"}
    assert "cpu: 30 requested" in found.unserved[0].text


def test_workloads_count_as_their_pods() -> None:
    template = {"spec": {"containers": [{"name": "main"}]}}
    job = to_value(
        {
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"parallelism": 3, "completions": 3, "template": template},
        },
        Job,
    )
    pending = read_demand([job], FEATURES).pending
    assert [str(unserved.key) for unserved in pending] == ["ml/train-0", "ml/train-1", "ml/train-2"]
    assert {unserved.owner for unserved in pending} == {"Job ml/train"}


def test_pending_pods_are_in_the_schedulers_order() -> None:
    values = [pod("low"), pod("high", priority=10), pod("later")]
    assert [unserved.key.name for unserved in read_demand(values, FEATURES).pending] == ["high", "low", "later"]


def affinity_to(app: str, key: str = "kubernetes.io/hostname", kind: str = "podAffinity") -> dict[str, object]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_anti_affinity_by_zone_uses_zones_of_several_providers() -> None:
    catalog = (
        instance("one-zone", "t4", 1, "0.5", zones=("x",)),
        instance("other", "t4", 1, "0.9", provider="far", zones=("y1", "y2")),
    )
    apart: dict[str, Any] = {
        "labels": {"app": "a"},
        "affinity": affinity_to("a", "topology.kubernetes.io/zone", "podAntiAffinity"),
    }
    found = make_plan([claim_template("any", request()), *pods(4, template="any", **apart)], catalog)
    assert sorted(machine.zone for machine in found.machines) == ["x", "y1", "y2"]
    assert codes(found) == {"pod-3": "neighbours"}


def test_a_zone_of_other_planned_pods_counts_for_topology_spread() -> None:
    constraint = {
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }  # fmt: skip
    profile = 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"'
    catalog = (T4, instance("far", "a100-40gb", 1, "1.0", provider="far", zones=("y",)))
    values = [
        claim_template("any", request()), claim_template("slice", request(profile, of=MIG)),
        pod("slice", template="slice"),
        *pods(4, template="any", labels={"app": "a"}, topologySpreadConstraints=[constraint]),
    ]  # fmt: skip
    assert not make_plan(values, catalog).unserved


def test_pods_without_a_shared_device_left_are_full() -> None:
    shared = to_value(
        {
            "metadata": {"name": "net"},
            "spec": {
                "driver": "net.example.com", "allNodes": True, "devices": [{"name": "net-0"}],
                "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
            },
        },
        ResourceSlice,
    )  # fmt: skip
    selector = {"cel": {"expression": 'device.driver == "net.example.com"'}}
    net = to_value({"metadata": {"name": "net"}, "spec": {"selectors": [selector]}}, DeviceClass)
    found = make_plan([shared, net, claim_template("net", request(of="net")), *pods(2, template="net")], CATALOG)
    assert codes(found) == {"pod-1": "full"}


def test_pods_of_new_workloads_come_after_existing_pending_pods() -> None:
    waits = to_value({"metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"}}, Pod)
    demand = read_demand([pod("new"), structs.replace(pod("old"), metadata=waits.metadata)], Features(kube="1.36"))
    assert [unserved.key.name for unserved in demand.pending] == ["old", "new"]


def test_ephemeral_storage_requests_are_counted() -> None:
    disk = "ephemeral-storage"
    found = make_plan([*pods(2, cpu="1", requests={disk: "10Gi"}), pod("big", requests={disk: "18Gi"})], CATALOG)
    assert planned_types(found) == ["cloud/t4", "cloud/t4"]  # of 17Gi each
    assert codes(found) == {"big": "never"}
    assert found.unserved[0].text == (
        "no type has enough resources: cloud/t4 has too little ephemeral-storage: 18Gi requested, 17Gi available"
    )
    large = (replace(T4, disk_gib=Decimal(40)),)
    assert planned_types(
        make_plan([*pods(2, requests={disk: "10Gi"}), pod("big", requests={disk: "18Gi"})], large)
    ) == ["cloud/t4"]


@pytest.mark.parametrize("name", ["example.com/foo", "hugepages-2Mi"])
def test_a_resource_that_no_node_publishes_is_reported(name: str) -> None:
    (unserved,) = make_plan([pod("a", cpu="1", requests={name: "4"}), pod("b")], CATALOG).unserved
    assert unserved.code == "never"
    assert unserved.text.endswith(f"no node publishes {name}")
    (unserved,) = make_plan(
        [pod("a", cpu="15", requests={name: "4"})], (instance("s", "t4", 1, "1", cpus=4), T4)
    ).unserved
    assert unserved.text.endswith(f"no node publishes {name}")


def test_as_many_pods_with_mutual_affinity_as_fit_one_machine_are_planned() -> None:
    together: dict[str, Any] = {"labels": {"app": "a"}, "affinity": affinity_to("a")}
    values = [claim_template("any", request()), *pods(6, template="any", **together)]
    found = make_plan(values, (T4, T4X4))
    assert [placement.pod.name for machine in found.machines for placement in machine.placements] == [
        f"pod-{n}" for n in range(4)
    ]
    assert codes(found) == {"pod-4": "neighbours", "pod-5": "neighbours"}
    assert "no available machine fits more than 4 of the 6 pods that must run together" in found.unserved[0].text
    assert planned_types(found) == ["cloud/t4x4"]


def test_as_many_users_of_one_claim_as_fit_one_machine_are_planned() -> None:
    shared = claim("shared", request())
    users = [
        pod("a", claim="shared", cpu="10"),
        pod("huge", claim="shared", cpu="99"),
        pod("b", claim="shared", cpu="5"),
    ]
    found = make_plan([shared, *users, pod("c", claim="shared", cpu="5")], (T4, T4X4))
    assert [placement.pod.name for machine in found.machines for placement in machine.placements] == ["a", "b"]
    assert codes(found) == {"huge": "never", "c": "neighbours"}


def test_the_nearest_type_has_the_most_resources_and_unknown_prices_come_last() -> None:
    sizes = (
        instance("small", "", 0, "1", cpus=4),
        instance("large", "", 0, "9", cpus=96),
        instance("t4", "t4", 1, "2"),
    )
    (unserved,) = make_plan([pod("a", cpu="500")], sizes).unserved
    assert unserved.nearest[0] == "cloud/large"
    assert "cloud/large has too little cpu: 500 requested" in unserved.text
    unpriced = replace(instance("odd", "", 0, "1", cpus=96), prices=())
    (unserved,) = make_plan([pod("a", nodeSelector={"team": "yes"})], (unpriced, *sizes)).unserved
    assert unserved.nearest == ("cloud/small", "cloud/t4", "cloud/large")


def test_missing_devices_are_reported_before_missing_resources() -> None:
    found = make_plan([claim_template("big", request(BIG)), pod("a", template="big", cpu="20")], (T4, T4X4, A100))
    assert found.unserved[0].text == "no type in the catalog has devices for its claims, in any mode"
